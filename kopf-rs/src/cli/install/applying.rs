//! Installs and upgrades an operator: checks first, then applies the objects in order, waits, and removes what an earlier version has left.
//!
//! Guarantees that nothing is changed before all checks have passed, and that a repetition continues an interrupted command. This module
//! does not know which objects an operator has.

use kopf_rs_flags::installing::Task;
use serde_json::Value;

use crate::cli::install::comparing::difference;
use crate::cli::install::site::{Done, Site, failed};
use crate::cli::install::starting::{established, rolled_out};
use crate::cluster::error::ClusterError;
use crate::operator::installation::{Installation, Need, Target, foreign, kinds, label, surplus};

/// The order to install or to upgrade.
#[derive(Clone, Copy)]
pub(super) struct Order<'a> {
    pub(super) operator: &'a str,
    pub(super) task: Task,
    /// Only show the differences.
    pub(super) is_dry: bool,
    /// Take over objects that exist and belong to no installation.
    pub(super) adopts: bool,
}

/// The installation as it is wanted, and as it is.
struct Plan {
    installation: Installation,
    /// In the order in which they are applied.
    wanted: Vec<Target>,
    /// The states of the wanted objects.
    live: Vec<Option<Value>>,
    /// The objects of an earlier version that this version does not have.
    removed: Vec<Target>,
    /// The definitions and namespaces of an earlier version that this version does not have.
    kept: Vec<Target>,
    /// An installation was complete once.
    is_complete: bool,
    /// There are objects of an installation.
    is_begun: bool,
}

/// Installs or upgrades the operator that these objects make.
pub(super) async fn apply(site: &Site<'_>, order: Order<'_>, objects: Vec<Value>) -> Done {
    let plan = plan(site, order, objects).await?;
    let (operator, home) = (order.operator, &*plan.installation.namespace);
    if order.task == Task::Upgrade && !plan.is_begun {
        return Err(format!(
            "the operator {operator} is not installed in the namespace {home}: expected an installation to upgrade. Nothing has been changed. \
             Use `install`, or `upgrade --install`, or say where it is installed by --install-namespace"
        )
        .into());
    }
    check_owners(&plan, order)?;
    if order.is_dry {
        let differences = differences(site, &plan).await?;
        if differences.is_empty() {
            (site.say)(&format!("The operator {operator} in the namespace {home} is up to date."));
        }
        for text in &differences {
            (site.say)(text);
        }
        return Ok(());
    }
    if order.task == Task::Install && plan.is_complete {
        return unchanged(site, &plan, operator).await;
    }
    check_roles(site, &plan).await?;
    carry_out(site, &plan).await
}

/// Collects the states of all objects, after a check that the caller may read them and write them.
async fn plan(site: &Site<'_>, order: Order<'_>, objects: Vec<Value>) -> Done<Plan> {
    let installation = Installation::of(order.operator, &objects)
        .ok_or("the manifests have no ServiceAccount: expected one in the namespace of the operator")?;
    let mut wanted = Vec::new();
    for mut object in objects {
        installation.mark(&mut object);
        wanted.push(site.target(object)?);
    }
    let kinds = kinds(&site.resources, &wanted);
    let mut needs: Vec<Need> = kinds.iter().map(|it| Need::of("list", it, None)).collect();
    needs.extend(wanted.iter().flat_map(|it| it.needs(&["get", "create", "patch"])));
    site.check(needs).await?;
    let (mut live, labels) = (Vec::new(), format!("{}={}", label(order.operator), installation.namespace));
    for target in &wanted {
        live.push(site.read(target).await?);
    }
    let found = site.find(&kinds, &labels).await?;
    let (removed, kept) = surplus(&found, &wanted);
    site.check(removed.iter().flat_map(|it| it.needs(&["delete"])).collect()).await?;
    Ok(Plan {
        is_complete: installation.is_complete(&found),
        is_begun: found.iter().any(|it| !it.is_kept_by_default()),
        installation,
        wanted,
        live,
        removed,
        kept,
    })
}

/// Fails if objects of the same names belong to someone else.
fn check_owners(plan: &Plan, order: Order<'_>) -> Done {
    let foreign = foreign(&plan.installation, &plan.wanted, &plan.live);
    if foreign.is_empty() || order.adopts {
        return Ok(());
    }
    let home = &plan.installation.namespace;
    let names: Vec<String> = foreign.iter().map(|it| it.shown(home)).collect();
    let label = label(order.operator);
    Err(format!(
        "these objects exist, and do not belong to an installation of the operator {} in the namespace {home}: expected the label \
         {label}={home} on them, or no such objects\n  {}\nNothing has been changed. If `kubectl apply` has created them for this operator, \
         take them over by --adopt; else choose another --name or --install-namespace",
        order.operator,
        names.join("\n  ")
    )
    .into())
}

/// The end of an installation that is complete already.
async fn unchanged(site: &Site<'_>, plan: &Plan, operator: &str) -> Done {
    let home = &plan.installation.namespace;
    let differences = differences(site, plan).await?;
    if differences.is_empty() {
        (site.say)(&format!("The operator {operator} is installed in the namespace {home}, and up to date."));
        return Ok(());
    }
    Err(format!(
        "the operator {operator} is installed in the namespace {home} already, and differs in {} objects: expected no installation. Nothing has \
         been changed. Use `upgrade`; `upgrade --dry-run` shows the differences",
        differences.len()
    )
    .into())
}

/// Returns the differences between the cluster and a finished command, one for each object.
async fn differences(site: &Site<'_>, plan: &Plan) -> Done<Vec<String>> {
    let home = &plan.installation.namespace;
    let mut all = Vec::new();
    for (target, live) in plan.wanted.iter().zip(&plan.live) {
        let shown = target.shown(home);
        let after = match site.put(target, true).await {
            Ok(after) => after,
            // Its namespace does not exist yet.
            Err(ClusterError::NotFound(_)) if live.is_none() => target.object.clone(),
            Err(error) => return Err(failed(&format!("{shown} would be refused"), &error).into()),
        };
        all.extend(difference(&shown, live.as_ref(), Some(&after)));
    }
    for target in &plan.removed {
        all.extend(difference(&target.shown(home), Some(&target.object), None));
    }
    Ok(all)
}

/// Lets the server check the roles, because nobody may grant more rights than they have.
async fn check_roles(site: &Site<'_>, plan: &Plan) -> Done {
    for target in plan.wanted.iter().filter(|it| it.is_role()) {
        match site.put(target, true).await {
            // Its namespace does not exist yet.
            Ok(_) | Err(ClusterError::NotFound(_)) => {}
            Err(error) => {
                let shown = target.shown(&plan.installation.namespace);
                return Err(format!(
                    "{shown} would be refused, so nothing has been changed: {error}\nExpected all rights that it grants, or the right to \
                     `escalate` it. Ask an administrator to run this command"
                )
                .into());
            }
        }
    }
    Ok(())
}

/// Applies, waits and removes.
async fn carry_out(site: &Site<'_>, plan: &Plan) -> Done {
    let home = &*plan.installation.namespace;
    // The new version would not answer what they ask.
    let (hooks, others): (Vec<&Target>, Vec<&Target>) =
        plan.removed.iter().partition(|it| it.is_webhook_configuration());
    for target in hooks {
        site.delete(target, home).await?;
    }
    for (target, live) in plan.wanted.iter().zip(&plan.live) {
        let shown = target.shown(home);
        let after = site.put(target, false).await;
        let after = after.map_err(|error| failed(&format!("{shown} cannot be applied"), &error))?;
        let version = |it: &Value| it["metadata"]["resourceVersion"].clone();
        let what = match live {
            None => "created",
            Some(live) if version(live) == version(&after) => "unchanged",
            Some(_) => "configured",
        };
        (site.say)(&format!("{shown} {what}"));
    }
    for definition in plan.wanted.iter().filter(|it| it.is_definition()) {
        established(site, definition).await?;
    }
    for deployment in plan.wanted.iter().filter(|it| it.is_deployment()) {
        rolled_out(site, deployment, home).await?;
    }
    for target in others {
        site.delete(target, home).await?;
    }
    for target in &plan.kept {
        (site.say)(&format!(
            "{} is not part of this version. It is kept, because its removal would delete other objects with it",
            target.shown(home)
        ));
    }
    let accounts: Vec<&Target> = plan.wanted.iter().filter(|it| it.is_account(&plan.installation)).collect();
    if !plan.is_complete {
        for account in accounts {
            site.merge(account, &plan.installation.completion()).await?;
        }
    }
    (site.say)(&format!("The operator {} is installed in the namespace {home}.", plan.installation.operator));
    Ok(())
}
