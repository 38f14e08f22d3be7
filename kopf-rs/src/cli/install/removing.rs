//! Uninstalls an operator: lets deletions finish, stops it, and removes its objects, each kind when no other needs it any more.
//!
//! Guarantees that users' objects are deleted only on request, that an object whose deletion waits for the operator is never left behind
//! unmentioned, and that a repetition continues an interrupted command. Works without a running operator. This module does not know which
//! objects an operator has.

use kopf_rs_flags::installing::InstallingFlags;
use serde_json::json;

use crate::cli::install::site::{Done, Site};
use crate::object::resource::Resource;
use crate::operator::admission::cleaning::Cleaning;
use crate::operator::installation::{
    Installation, Need, Target, converter, kinds, label, labels, unconverted,
};
use crate::operator::run::footprint::Footprint;

mod leftovers;

use leftovers::{Leftovers, has_finalizer, is_terminating, names};

/// The number of attempts to remove finalizers, because other clients may change the objects at the same time.
const ATTEMPTS: usize = 5;

/// The objects of an installation.
struct Plan {
    /// The namespace of the operator; empty if it is not installed.
    home: String,
    /// In the order of removal.
    removed: Vec<Target>,
    definitions: Vec<Target>,
    namespaces: Vec<Target>,
    leftovers: Leftovers,
    /// At least one Pod is ready.
    runs: bool,
}

/// Removes the operator that is installed in this namespace; without one, in its only namespace.
pub(super) async fn remove(
    site: &Site<'_>,
    footprint: &Footprint,
    flags: InstallingFlags,
    namespace: Option<&str>,
) -> Done {
    let plan = plan(site, footprint, flags, namespace).await?;
    check(footprint, flags, &plan)?;
    site.check(needs(footprint, flags, &plan)).await?;
    if flags.dry_run {
        show(site, footprint, flags, &plan).await?;
        plan.leftovers.report(site, &footprint.finalizer, flags);
        report_kept(site, flags, &plan);
        if plan.home.is_empty() {
            (site.say)(&format!("The operator {} is not installed.", footprint.operator));
        }
        return Ok(());
    }
    let home = &*plan.home;
    for target in plan.removed.iter().filter(|it| it.is_webhook_configuration()) {
        site.delete(target, home).await?;
    }
    if !plan.runs {
        // The requests that follow would be refused, because nothing answers the webhooks. A running operator removes its webhooks at its end.
        deregister(site, footprint, &plan).await?;
    }
    finish_deletions(site, footprint, flags, &plan).await?;
    stop(site, footprint, &plan).await?;
    if flags.remove_finalizers {
        release(site, footprint).await?;
    }
    if flags.delete_objects {
        until_gone(site, &plan.leftovers.objects).await?;
    }
    deregister(site, footprint, &plan).await?;
    remove_rest(site, footprint, &plan).await?;
    let leftovers = Leftovers::find(site, footprint, &plan.definitions, plan.leftovers.is_shared).await?;
    if flags.crds {
        // Users may have created objects meanwhile.
        leftovers.check(flags, "The definitions are kept, and everything else is removed")?;
        for definition in &plan.definitions {
            site.delete(definition, home).await?;
        }
        until_gone(site, &plan.definitions).await?;
    }
    leftovers.report(site, &footprint.finalizer, flags);
    report_kept(site, flags, &plan);
    let operator = &footprint.operator;
    match home {
        "" => (site.say)(&format!("The operator {operator} is not installed.")),
        home => (site.say)(&format!("The operator {operator} is removed from the namespace {home}.")),
    }
    Ok(())
}

async fn plan(
    site: &Site<'_>,
    footprint: &Footprint,
    flags: InstallingFlags,
    namespace: Option<&str>,
) -> Done<Plan> {
    let operator = &*footprint.operator;
    let kinds = kinds(&site.resources, &[]);
    let pods = Resource::built_in("", "Pod", true);
    let looked_at = footprint.handled.iter().chain(&footprint.children).chain(&kinds).chain([&pods]);
    site.check(looked_at.map(|it| Need::of("list", it, None)).collect()).await?;
    let found = site.list(&kinds, &label(operator), false).await?;
    let all = Installation::among(operator, &found);
    let installation = chosen(operator, &all, namespace)?;
    let is_shared = all.len() > 1;
    if is_shared && (flags.delete_objects || flags.remove_finalizers || flags.crds) {
        return Err(format!(
            "the operator {operator} is also installed in another namespace, where it handles objects of the same kinds: expected no \
             --delete-objects, --remove-finalizers or --crds. Nothing has been changed. Remove it there first"
        )
        .into());
    }
    let is_own = |it: &Target| installation.is_some_and(|all| all.has(&it.object));
    let (kept, mut removed): (Vec<Target>, Vec<Target>) =
        found.into_iter().partition(Target::is_kept_by_default);
    removed.retain(|it| is_own(it));
    let (definitions, namespaces): (Vec<Target>, Vec<Target>) =
        kept.into_iter().partition(Target::is_definition);
    if flags.delete_objects || flags.crds {
        check_others(site, operator, &definitions).await?;
    }
    let ready = |it: &Target| it.object["status"]["readyReplicas"].as_u64() > Some(0);
    Ok(Plan {
        home: installation.map(|it| it.namespace.clone()).unwrap_or_default(),
        runs: removed.iter().any(|it| it.is_deployment() && ready(it)),
        leftovers: Leftovers::find(site, footprint, &definitions, is_shared).await?,
        namespaces: namespaces.into_iter().filter(|it| is_own(it)).collect(),
        removed,
        definitions,
    })
}

/// Returns the installation that is meant, or `None` if there is none.
fn chosen<'a>(
    operator: &str,
    all: &'a [Installation],
    namespace: Option<&str>,
) -> Done<Option<&'a Installation>> {
    let mut meant = all.iter().filter(|it| namespace.is_none_or(|namespace| it.namespace == namespace));
    match (meant.next(), meant.next()) {
        (None, _) if all.is_empty() => Ok(None),
        (Some(one), None) => Ok(Some(one)),
        _ => {
            let namespaces: Vec<&str> = all.iter().map(|it| &*it.namespace).collect();
            let given = namespace.unwrap_or("not given");
            Err(format!(
                "--install-namespace is {given}: expected one of the namespaces in which the operator {operator} is installed: {}. Nothing has \
                 been changed",
                namespaces.join(", ")
            )
            .into())
        }
    }
}

/// Fails if another operator is installed that has one of these definitions. The label alone proves nothing, because a removed operator may have left it.
async fn check_others(site: &Site<'_>, operator: &str, definitions: &[Target]) -> Done {
    let accounts = [Resource::built_in("", "ServiceAccount", true)];
    for definition in definitions {
        for other in labels(&definition.object).filter(|it| *it != label(operator)) {
            if let [account, ..] = &*site.list(&accounts, other, false).await? {
                return Err(format!(
                    "{} also belongs to the operator with the account {}: expected no --delete-objects or --crds, which would delete the objects of that \
                     operator. Nothing has been changed. Remove that operator first",
                    definition.shown(""),
                    account.shown("")
                )
                .into());
            }
        }
    }
    Ok(())
}

/// Fails where the removal would delete objects without --delete-objects, or would wait for an operator that does not run.
fn check(footprint: &Footprint, flags: InstallingFlags, plan: &Plan) -> Done {
    plan.leftovers.check(flags, "Nothing has been changed")?;
    let waiting = plan.leftovers.waiting(flags);
    if !waiting.is_empty() && !plan.runs && !flags.remove_finalizers {
        return Err(format!(
            "{} objects have the finalizer {}, so their deletion waits for the operator, which does not run: {}. Nothing has been changed. Start \
             the operator, which then handles the deletions, or add --remove-finalizers, which deletes the objects without calling deletion \
             handlers",
            waiting.len(),
            footprint.finalizer,
            names(&waiting)
        )
        .into());
    }
    Ok(())
}

/// Returns the permissions for the changes.
fn needs(footprint: &Footprint, flags: InstallingFlags, plan: &Plan) -> Vec<Need> {
    let of = |all: &[Target], verbs: &[&'static str]| -> Vec<Need> {
        all.iter().flat_map(|it| it.needs(verbs)).collect()
    };
    // Users may have many objects, so the questions are about all objects of a kind in a namespace.
    let of_any = |all: &[Target], verbs: &[&'static str]| {
        of(all, verbs).into_iter().map(|need| Need { name: None, ..need })
    };
    let Leftovers { objects, held, .. } = &plan.leftovers;
    let mut needs = of(&plan.removed, &["delete"]);
    needs.extend(of(&shared(footprint, plan), &["get", "delete"]));
    if flags.delete_objects {
        needs.extend(of_any(objects, &["get", "delete"]));
    }
    if plan.runs {
        needs.extend(of_any(held, &["get"]));
    }
    if flags.remove_finalizers {
        needs.extend(of_any(held, &["patch"]));
    }
    needs.extend(of(&plan.definitions, &["get"]));
    let is_converted_here = |it: &&Target| converter(&it.object).is_some_and(|(home, _)| home == plan.home);
    let converted = plan.definitions.iter().filter(is_converted_here);
    needs.extend(converted.flat_map(|it| it.needs(&["patch"])));
    if flags.crds {
        needs.extend(of(&plan.definitions, &["get", "delete"]));
    }
    needs
}

/// Shows what would be removed.
async fn show(site: &Site<'_>, footprint: &Footprint, flags: InstallingFlags, plan: &Plan) -> Done {
    let Leftovers { objects, held, .. } = &plan.leftovers;
    for target in held.iter().filter(|_| flags.remove_finalizers) {
        (site.say)(&format!("{} would lose its finalizer", target.shown(&plan.home)));
    }
    let objects = objects.iter().filter(|_| flags.delete_objects);
    let definitions = plan.definitions.iter().filter(|_| flags.crds);
    let found = find_shared(site, footprint, plan).await?;
    for target in objects.chain(&found).chain(&plan.removed).chain(definitions) {
        (site.say)(&format!("{} would be deleted", target.shown(&plan.home)));
    }
    Ok(())
}

/// Deletes objects on request, and lets the running operator finish all deletions.
async fn finish_deletions(
    site: &Site<'_>,
    footprint: &Footprint,
    flags: InstallingFlags,
    plan: &Plan,
) -> Done {
    if flags.delete_objects {
        for target in plan.leftovers.objects.iter().filter(|it| !is_terminating(&it.object)) {
            site.delete(target, &plan.home).await?;
        }
    }
    if !plan.runs || plan.leftovers.is_shared {
        return Ok(());
    }
    let remedy = "The operator still runs. `kopf-rs why [PATH] KIND/NAME` explains what an object waits for. Repeat the command when the deletion handlers succeed, or add \
                  --remove-finalizers";
    let remedy = Some(remedy.to_owned()).filter(|_| !flags.remove_finalizers);
    let mut waiting: Vec<Target> = Vec::new();
    site.wait(remedy, async || {
        while let Some(target) = waiting.last() {
            let live = site.read_again(target).await?;
            if live.is_some_and(|it| has_finalizer(&it, &footprint.finalizer)) {
                break;
            }
            waiting.pop();
        }
        if waiting.is_empty() {
            // Lists all objects only at the beginning and at the end, because users may have many.
            waiting = Leftovers::held(site, footprint).await?;
            waiting.retain(|it| is_terminating(&it.object));
        }
        let subject = || {
            let (count, names) = (waiting.len(), names(&waiting));
            format!("the operator to finish the deletion of {count} objects: {names}")
        };
        Ok((!waiting.is_empty()).then(subject))
    })
    .await
}

/// Deletes the Deployment, and waits until its Pods have ended: they remove what they have registered in the API server.
async fn stop(site: &Site<'_>, footprint: &Footprint, plan: &Plan) -> Done {
    let home = &*plan.home;
    if home.is_empty() {
        return Ok(());
    }
    for target in plan.removed.iter().filter(|it| it.is_deployment()) {
        site.delete(target, home).await?;
    }
    let kind = Resource::built_in("", "Pod", true);
    let labels = format!("app.kubernetes.io/name={}", footprint.operator);
    let remedy =
        format!("`kubectl --namespace {home} get pods` shows them. Repeat the command when they are gone");
    site.wait(Some(remedy), async || {
        let pods = site.cluster.list_pages(&kind, Some(home), &labels, false).await;
        let mut pods = pods.map_err(|error| format!("Pods cannot be listed: {error}. Repeat the command"))?;
        pods.retain(|it| it["spec"]["serviceAccountName"] == *footprint.operator);
        Ok((!pods.is_empty()).then(|| format!("{} Pods to end", pods.len())))
    })
    .await
}

/// Removes the finalizer of the operator from all objects.
async fn release(site: &Site<'_>, footprint: &Footprint) -> Done {
    for _ in 0..ATTEMPTS {
        let held = Leftovers::held(site, footprint).await?;
        if held.is_empty() {
            return Ok(());
        }
        for target in &held {
            let metadata = &target.object["metadata"];
            let mut finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
            finalizers.retain(|it| *it != *footprint.finalizer);
            // A list is replaced as a whole, so it must be that of this version.
            let version = &metadata["resourceVersion"];
            let change = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
            if site.merge(target, &change).await? {
                (site.say)(&format!("{} lost its finalizer", target.shown("")));
            }
        }
    }
    Err(format!(
        "another instance of the operator adds the finalizer {} again: stop that instance, and repeat the command",
        footprint.finalizer
    )
    .into())
}

/// Waits until the objects do not exist any more.
async fn until_gone(site: &Site<'_>, objects: &[Target]) -> Done {
    let mut left = objects.iter().peekable();
    let remedy = "Other controllers must remove these finalizers. Repeat the command after that";
    site.wait(Some(remedy.to_owned()), async || {
        while let Some(target) = left.peek() {
            if let Some(live) = site.read_again(target).await? {
                let finalizers = &live["metadata"]["finalizers"];
                return Ok(Some(format!(
                    "the deletion of {}, which has the finalizers {finalizers}",
                    target.shown("")
                )));
            }
            left.next();
        }
        Ok(None)
    })
    .await
}

/// Removes what instances of the operator have registered in the API server and could not remove themselves.
async fn deregister(site: &Site<'_>, footprint: &Footprint, plan: &Plan) -> Done {
    // Running instances may use the registrations: those of another installation, or of an operator that another tool has installed.
    if plan.home.is_empty() || plan.leftovers.is_shared {
        return Ok(());
    }
    for definition in &plan.definitions {
        let live = site.read_again(definition).await?.unwrap_or_default();
        let Some((namespace, service)) = converter(&live).filter(|(namespace, _)| *namespace == plan.home)
        else {
            continue;
        };
        let is_own = plan.removed.iter().any(|it| it.is_service() && it.name() == service);
        if (is_own || !is_there(site, namespace, service).await?)
            && site.merge(definition, &unconverted(&footprint.operator)).await?
        {
            (site.say)(&format!("{}: conversion removed", definition.shown(&plan.home)));
        }
    }
    let cleaning = Cleaning::of(&footprint.operator)?;
    let (found, mut failures) = cleaning.find(&site.cluster).await;
    for remains in &found {
        match cleaning.remove(&site.cluster, remains).await {
            Ok(done) => (site.say)(&done),
            Err(failure) => failures.push(failure),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Returns whether the Service exists. It may belong to another operator that has the same definition.
async fn is_there(site: &Site<'_>, namespace: &str, service: &str) -> Done<bool> {
    let kind = Resource::built_in("", "Service", true);
    let listed = site.cluster.list_pages(&kind, Some(namespace), "", true).await;
    let listed = listed.map_err(|error| format!("Services cannot be listed: {error}. Repeat the command"))?;
    Ok(listed.iter().any(|it| it["metadata"]["name"] == service))
}

/// Returns the objects that instances of the operator may have created for themselves: the Lease, and the Secret of the webhooks.
fn shared(footprint: &Footprint, plan: &Plan) -> Vec<Target> {
    let home = &*plan.home;
    if home.is_empty() {
        return Vec::new();
    }
    let (namespace, lease) = &footprint.lease;
    // All installations use a Lease whose namespace is set, so the last one removes it.
    let namespace = namespace.as_deref().filter(|_| !plan.leftovers.is_shared).unwrap_or(home);
    let object = |namespace: &str, name: &str| json!({"metadata": {"name": name, "namespace": namespace}});
    let leases = Resource::built_in("coordination.k8s.io", "Lease", true);
    let secrets = Resource::built_in("", "Secret", true);
    vec![Target::of(&leases, object(namespace, lease)), Target::of(&secrets, object(home, &footprint.secret))]
}

async fn find_shared(site: &Site<'_>, footprint: &Footprint, plan: &Plan) -> Done<Vec<Target>> {
    let mut found = Vec::new();
    for target in shared(footprint, plan) {
        let live = site.read(&target).await?;
        found.extend(live.map(|it| Target::found(&target.resource, it)));
    }
    Ok(found)
}

/// Removes the other objects, the account last.
async fn remove_rest(site: &Site<'_>, footprint: &Footprint, plan: &Plan) -> Done {
    for target in find_shared(site, footprint, plan).await? {
        site.delete(&target, &plan.home).await?;
    }
    let is_stopped = |it: &&Target| !it.is_webhook_configuration() && !it.is_deployment();
    for target in plan.removed.iter().filter(is_stopped) {
        site.delete(target, &plan.home).await?;
    }
    Ok(())
}

/// Prints the parts of the installation that remain, or that would remain.
fn report_kept(site: &Site<'_>, flags: InstallingFlags, plan: &Plan) {
    if !flags.crds && !plan.definitions.is_empty() {
        (site.say)(&format!("kept: {}. --crds removes definitions", names(&plan.definitions)));
    }
    for namespace in &plan.namespaces {
        let name = namespace.name();
        (site.say)(&format!(
            "kept: namespace/{name}, which may contain objects of others. `kubectl delete namespace {name}` removes it"
        ));
    }
}
