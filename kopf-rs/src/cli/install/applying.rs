//! Installs and upgrades an operator: checks first, then applies the objects in order, waits, and removes what an earlier version has left.
//!
//! Guarantees that nothing is changed before all checks have passed, and that a repetition continues an interrupted command. This module
//! does not know which objects an operator has.

use kopf_rs_flags::installing::InstallingFlags;
use serde_json::Value;

use crate::cli::install::comparing::difference;
use crate::cli::install::site::{Done, Site, failed};
use crate::cli::install::starting::{established, rolled_out};
use crate::cluster::error::ClusterError;
use crate::operator::compatibility::breakages;
use crate::operator::installation::{Installation, Need, Target, kinds, label, surplus};

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
pub(super) async fn apply(
    site: &Site<'_>,
    operator: &str,
    flags: InstallingFlags,
    objects: Vec<Value>,
) -> Done {
    let plan = plan(site, operator, objects).await?;
    let home = &*plan.installation.namespace;
    if !flags.install && !plan.is_begun {
        return Err(format!(
            "the operator {operator} is not installed in the namespace {home}: expected an installation to upgrade. Nothing has been changed. \
             Use `install`, or `upgrade --install`, or say where it is installed by --install-namespace"
        )
        .into());
    }
    check_owners(&plan, flags)?;
    warn(site, &plan);
    if flags.dry_run {
        let differences = differences(site, &plan).await?;
        if differences.is_empty() {
            (site.say)(&format!("The operator {operator} in the namespace {home} is up to date."));
        }
        for text in &differences {
            (site.say)(text);
        }
        return Ok(());
    }
    if !flags.upgrade && plan.is_complete {
        return unchanged(site, &plan, operator).await;
    }
    // Nobody may grant more rights than they have.
    for role in plan.wanted.iter().filter(|it| it.is_role()) {
        rehearsed(site, &plan, role).await?;
    }
    carry_out(site, &plan).await
}

/// Collects the states of all objects, after a check that the caller may read them and write them.
async fn plan(site: &Site<'_>, operator: &str, objects: Vec<Value>) -> Done<Plan> {
    let installation = Installation::of(operator, &objects)
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
    let (mut live, labels) = (Vec::new(), format!("{}={}", label(operator), installation.namespace));
    for target in &wanted {
        live.push(site.read(target).await?);
    }
    let found = site.list(&kinds, &labels, false).await?;
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
fn check_owners(plan: &Plan, flags: InstallingFlags) -> Done {
    let foreign = |adopts| plan.installation.foreign(&plan.wanted, &plan.live, adopts);
    let of_others = foreign(true);
    let (foreign, remedy) = if !of_others.is_empty() {
        (of_others, "They belong to another installation: uninstall it, or choose")
    } else if flags.adopt {
        return Ok(());
    } else {
        let remedy = "If `kubectl apply` has created them for this operator, take them over with --adopt; otherwise choose";
        (foreign(false), remedy)
    };
    if foreign.is_empty() {
        return Ok(());
    }
    let Installation { operator, namespace: home } = &plan.installation;
    let names: Vec<String> = foreign.iter().map(|it| it.shown(home)).collect();
    Err(format!(
        "these objects exist, and do not belong to an installation of the operator {operator} in the namespace {home}: expected the label \
         {}={home} on them, or no such objects\n  {}\nNothing has been changed. {remedy} another --name or --install-namespace",
        label(operator),
        names.join("\n  ")
    )
    .into())
}

/// Warns of changes of definitions that break stored objects.
fn warn(site: &Site<'_>, plan: &Plan) {
    let pairs = plan.wanted.iter().zip(&plan.live).filter(|(wanted, _)| wanted.is_definition());
    let pairs = pairs.filter_map(|(wanted, live)| Some((live.as_ref()?, &wanted.object)));
    for breakage in pairs.flat_map(|(old, new)| breakages(old, new)) {
        (site.say)(&format!("warning: this breaks stored objects: {breakage}"));
    }
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
        "the operator {operator} is already installed in the namespace {home}, and {} objects differ from this version. Nothing has been changed. \
         Use `upgrade`; `upgrade --dry-run` shows the differences",
        differences.len()
    )
    .into())
}

/// Returns the differences between the cluster and a finished command, one for each object.
async fn differences(site: &Site<'_>, plan: &Plan) -> Done<Vec<String>> {
    let home = &plan.installation.namespace;
    let mut all = Vec::new();
    for (target, live) in plan.wanted.iter().zip(&plan.live) {
        let after = rehearsed(site, plan, target).await?;
        all.extend(difference(&target.shown(home), live.as_ref(), Some(&after)));
    }
    for target in &plan.removed {
        all.extend(difference(&target.shown(home), Some(&target.object), None));
    }
    Ok(all)
}

/// Returns the object that would result from an application.
async fn rehearsed(site: &Site<'_>, plan: &Plan, target: &Target) -> Done<Value> {
    let error = match site.put(target, true).await {
        Ok(after) => return Ok(after),
        Err(error) => error,
    };
    let shown = target.shown(&plan.installation.namespace);
    let is_applied = |name: &str| plan.wanted.iter().any(|it| it.is_namespace() && it.name() == name);
    match (error, target.namespace()) {
        (ClusterError::NotFound(_), Some(name)) if target.is_role() && !is_applied(name) => Err(format!(
            "the namespace {name} does not exist, so nothing has been changed: expected it for {shown}. Create it, or select other namespaces"
        )
        .into()),
        // In a dry run, a namespace or role that the command would create first does not exist.
        (ClusterError::NotFound(_), _) => Ok(target.object.clone()),
        (error, _) if target.is_role() => Err(format!(
            "{shown} would be refused, so nothing has been changed: {error}\nExpected that you have all rights that this role grants, or the verb `escalate` for it. \
             Ask an administrator to run this command"
        )
        .into()),
        (error, _) => Err(failed(&format!("{shown} would be refused"), &error).into()),
    }
}

/// Applies, waits and removes.
async fn carry_out(site: &Site<'_>, plan: &Plan) -> Done {
    let home = &*plan.installation.namespace;
    // The new version would not answer the requests of these webhooks.
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
    if !plan.is_complete {
        for account in plan.wanted.iter().filter(|it| it.is_account(&plan.installation)) {
            site.merge(account, &plan.installation.completion()).await?;
        }
    }
    (site.say)(&format!("The operator {} is installed in the namespace {home}.", plan.installation.operator));
    Ok(())
}
