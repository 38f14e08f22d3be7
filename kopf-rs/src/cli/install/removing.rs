//! Uninstalls an operator: lets deletions finish, stops it, and removes its objects, each kind when no other needs it any more.
//!
//! Guarantees that users' objects are deleted only on request, that an object whose deletion waits for the operator is never left behind
//! unmentioned, and that a repetition continues an interrupted command. Works without a running operator. This module does not know which
//! objects an operator has.

use serde_json::json;

use crate::cli::install::site::{Done, Site};
use crate::object::resource::Resource;
use crate::operator::admission::cleaning::Cleaning;
use crate::operator::installation::{Installation, Need, Target, converts_here, kinds, label, unconverted};
use crate::operator::run::footprint::Footprint;

mod leftovers;

use leftovers::{Leftovers, is_terminating, names};

/// The extent of a removal.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct Removal<'a> {
    /// The namespace of the operator, where it is installed in several.
    pub(super) namespace: Option<&'a str>,
    /// Only show what would be removed.
    pub(super) is_dry: bool,
    /// Delete the objects of the operator's own kinds, while it runs.
    pub(super) deletes_objects: bool,
    /// Remove its finalizer from objects.
    pub(super) removes_finalizers: bool,
    /// Delete the definitions of its kinds.
    pub(super) removes_definitions: bool,
}

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

/// Removes the operator.
pub(super) async fn remove(site: &Site<'_>, footprint: &Footprint, removal: Removal<'_>) -> Done {
    let plan = plan(site, footprint, removal).await?;
    check(footprint, removal, &plan)?;
    site.check(needs(footprint, removal, &plan)).await?;
    if removal.is_dry {
        show(site, removal, &plan);
        report_leftovers(site, footprint, removal, &plan);
        return Ok(());
    }
    let home = &*plan.home;
    for target in plan.removed.iter().filter(|it| it.is_webhook_configuration()) {
        site.delete(target, home).await?;
    }
    if !plan.runs {
        // The requests that follow would be refused, because nothing answers the webhooks. A running operator removes its webhooks at its end.
        end_conversions(site, footprint, &plan).await?;
        clean(site, footprint).await?;
    }
    finish_deletions(site, footprint, removal, &plan).await?;
    stop(site, footprint, &plan).await?;
    if removal.removes_finalizers {
        release(site, footprint).await?;
    }
    if removal.deletes_objects {
        until_gone(site, &plan.leftovers.objects).await?;
    }
    if plan.runs {
        end_conversions(site, footprint, &plan).await?;
    }
    let cleaned = clean(site, footprint).await;
    remove_rest(site, footprint, &plan).await?;
    if removal.removes_definitions {
        for definition in &plan.definitions {
            site.delete(definition, home).await?;
        }
        until_gone(site, &plan.definitions).await?;
    }
    report(site, footprint, removal, &plan);
    cleaned
}

async fn plan(site: &Site<'_>, footprint: &Footprint, removal: Removal<'_>) -> Done<Plan> {
    let operator = &*footprint.operator;
    let kinds = kinds(&site.resources, &[]);
    let pods = Resource::built_in("", "Pod", true);
    let looked_at = footprint.handled.iter().chain(&footprint.children).chain(&kinds).chain([&pods]);
    site.check(looked_at.map(|it| Need::of("list", it, None)).collect()).await?;
    let found = site.find(&kinds, &label(operator)).await?;
    let all = Installation::among(operator, &found);
    let installation = chosen(operator, &all, removal.namespace)?;
    let is_shared = all.len() > usize::from(installation.is_some());
    if is_shared && (removal.deletes_objects || removal.removes_finalizers || removal.removes_definitions) {
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
    match (namespace, all) {
        (Some(namespace), all) => Ok(all.iter().find(|it| it.namespace == namespace)),
        (None, []) => Ok(None),
        (None, [one]) => Ok(Some(one)),
        (None, several) => {
            let namespaces: Vec<&str> = several.iter().map(|it| &*it.namespace).collect();
            Err(format!(
                "the operator {operator} is installed in several namespaces ({}): expected --install-namespace, which selects one. Nothing has \
                 been changed",
                namespaces.join(", ")
            )
            .into())
        }
    }
}

/// Fails where the removal would delete objects that nobody has mentioned, or would wait for an operator that does not run.
fn check(footprint: &Footprint, removal: Removal<'_>, plan: &Plan) -> Done {
    let Leftovers { objects, held, .. } = &plan.leftovers;
    if removal.removes_definitions && !removal.deletes_objects && !objects.is_empty() {
        return Err(format!(
            "--crds would delete {} objects with the definitions: {}. Nothing has been changed. Expected no objects of these kinds, or \
             --delete-objects",
            objects.len(),
            names(objects)
        )
        .into());
    }
    let waiting: Vec<Target> =
        held.iter().filter(|it| removal.deletes_objects || is_terminating(&it.object)).cloned().collect();
    if !waiting.is_empty() && !plan.runs && !removal.removes_finalizers {
        return Err(format!(
            "{} objects have the finalizer {}, so their deletion waits for the operator, which does not run: {}. Nothing has been changed. \
             Expected --remove-finalizers, which lets them go without their deletion handlers, or a running operator",
            waiting.len(),
            footprint.finalizer,
            names(&waiting)
        )
        .into());
    }
    Ok(())
}

/// Returns the permissions for the changes.
fn needs(footprint: &Footprint, removal: Removal<'_>, plan: &Plan) -> Vec<Need> {
    let of = |all: &[Target], verb| all.iter().flat_map(|it| it.needs(&[verb])).collect::<Vec<_>>();
    let mut needs = of(&plan.removed, "delete");
    if !plan.home.is_empty() {
        needs.extend(shared(footprint, &plan.home).iter().flat_map(|it| it.needs(&["get", "delete"])));
    }
    if removal.deletes_objects {
        needs.extend(of(&plan.leftovers.objects, "delete"));
    }
    if removal.removes_finalizers {
        needs.extend(of(&plan.leftovers.held, "patch"));
    }
    let converting = plan.definitions.iter().filter(|it| converts_here(&it.object, &plan.home));
    needs.extend(converting.flat_map(|it| it.needs(&["patch"])));
    if removal.removes_definitions {
        needs.extend(of(&plan.definitions, "delete"));
    }
    needs
}

/// Shows what would be removed.
fn show(site: &Site<'_>, removal: Removal<'_>, plan: &Plan) {
    let Leftovers { objects, held, .. } = &plan.leftovers;
    let objects = objects.iter().filter(|_| removal.deletes_objects);
    let definitions = plan.definitions.iter().filter(|_| removal.removes_definitions);
    let held = held.iter().filter(|_| removal.removes_finalizers);
    for target in held {
        (site.say)(&format!("{} would lose its finalizer", target.shown(&plan.home)));
    }
    for target in objects.chain(&plan.removed).chain(definitions) {
        (site.say)(&format!("{} would be deleted", target.shown(&plan.home)));
    }
}

/// Deletes objects on request, and lets the running operator finish all deletions.
async fn finish_deletions(site: &Site<'_>, footprint: &Footprint, removal: Removal<'_>, plan: &Plan) -> Done {
    if removal.deletes_objects {
        for target in plan.leftovers.objects.iter().filter(|it| !is_terminating(&it.object)) {
            site.delete(target, &plan.home).await?;
        }
    }
    if !plan.runs || plan.leftovers.is_shared {
        return Ok(());
    }
    let patience = site.patience();
    let mut told = 0;
    loop {
        let mut waiting = Leftovers::held(site, footprint).await?;
        waiting.retain(|it| is_terminating(&it.object));
        if waiting.is_empty() {
            return Ok(());
        }
        if told != waiting.len() {
            told = waiting.len();
            (site.say)(&format!("waiting for the operator to finish the deletion of {told} objects"));
        }
        if patience.lasts().await {
            continue;
        }
        let seconds = patience.seconds;
        if removal.removes_finalizers {
            (site.say)(&format!("{told} deletions are not finished within {seconds} seconds (--timeout)"));
            return Ok(());
        }
        return Err(format!(
            "the operator has not finished the deletion of {told} objects within {seconds} seconds (--timeout): {}. It still runs. Expected \
             that its deletion handlers succeed: `why` explains each object. Repeat the command later, or with --remove-finalizers",
            names(&waiting)
        )
        .into());
    }
}

/// Deletes the Deployment, and waits until its Pods have ended: they remove what they have registered in the API server.
async fn stop(site: &Site<'_>, footprint: &Footprint, plan: &Plan) -> Done {
    if plan.home.is_empty() {
        return Ok(());
    }
    for target in plan.removed.iter().filter(|it| it.is_deployment()) {
        site.delete(target, &plan.home).await?;
    }
    let kind = Resource::built_in("", "Pod", true);
    let labels = format!("app.kubernetes.io/name={}", footprint.operator);
    let patience = site.patience();
    let mut told = 0;
    loop {
        let pods = site.cluster.list_whole(&kind, Some(&plan.home), &labels).await;
        let mut pods = pods.map_err(|error| format!("Pods cannot be listed: {error}. Repeat the command"))?;
        pods.retain(|it| it["spec"]["serviceAccountName"] == *footprint.operator);
        if pods.is_empty() {
            return Ok(());
        }
        if told != pods.len() {
            told = pods.len();
            (site.say)(&format!("waiting for {told} Pods to end"));
        }
        if !patience.lasts().await {
            let (home, seconds) = (&plan.home, patience.seconds);
            return Err(format!(
                "{told} Pods of the operator in the namespace {home} have not ended within {seconds} seconds (--timeout): expected none. \
                 `kubectl --namespace {home} get pods` shows them; repeat the command when they are gone"
            )
            .into());
        }
    }
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
            if site.merge_unless_changed(target, &change).await? {
                (site.say)(&format!("{} lost its finalizer", target.shown("")));
            }
        }
    }
    Err(format!(
        "the finalizer {} returns to objects: expected that no other instance of the operator runs. Stop it, and repeat the command",
        footprint.finalizer
    )
    .into())
}

/// The number of looks at objects that others change at the same time.
const ATTEMPTS: usize = 5;

/// Waits until the objects do not exist any more.
async fn until_gone(site: &Site<'_>, objects: &[Target]) -> Done {
    let patience = site.patience();
    for target in objects {
        while let Some(live) = site.read(target).await? {
            if live["metadata"]["uid"] != target.uid() {
                break;
            }
            if !patience.lasts().await {
                let finalizers = &live["metadata"]["finalizers"];
                return Err(format!(
                    "{} is not gone within {} seconds (--timeout): expected that its finalizers {finalizers} are removed by those who set them. \
                     Repeat the command then",
                    target.shown(""),
                    patience.seconds
                )
                .into());
            }
        }
    }
    Ok(())
}

/// Ends the conversion of objects, because no instance answers.
async fn end_conversions(site: &Site<'_>, footprint: &Footprint, plan: &Plan) -> Done {
    for definition in plan.definitions.iter().filter(|it| converts_here(&it.object, &plan.home)) {
        site.merge(definition, &unconverted(&footprint.operator)).await?;
        (site.say)(&format!("{} converts its objects no longer", definition.shown(&plan.home)));
    }
    Ok(())
}

/// Removes what instances of the operator have registered in the API server and could not remove themselves.
async fn clean(site: &Site<'_>, footprint: &Footprint) -> Done {
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

/// Returns the objects that instances of the operator have created for themselves: the Lease, and the Secret of the webhooks.
fn shared(footprint: &Footprint, home: &str) -> [Target; 2] {
    let (namespace, lease) = &footprint.lease;
    let object = |namespace: &str, name: &str| json!({"metadata": {"name": name, "namespace": namespace}});
    let leases = Resource::built_in("coordination.k8s.io", "Lease", true);
    let secrets = Resource::built_in("", "Secret", true);
    [
        Target::of(&leases, object(namespace.as_deref().unwrap_or(home), lease)),
        Target::of(&secrets, object(home, &footprint.secret)),
    ]
}

/// Removes the other objects, the account last.
async fn remove_rest(site: &Site<'_>, footprint: &Footprint, plan: &Plan) -> Done {
    if plan.home.is_empty() {
        return Ok(());
    }
    for target in shared(footprint, &plan.home) {
        if let Some(found) = site.read(&target).await? {
            site.delete(&Target::found(&target.resource, found), &plan.home).await?;
        }
    }
    let is_stopped = |it: &&Target| !it.is_webhook_configuration() && !it.is_deployment();
    for target in plan.removed.iter().filter(is_stopped) {
        site.delete(target, &plan.home).await?;
    }
    Ok(())
}

fn report(site: &Site<'_>, footprint: &Footprint, removal: Removal<'_>, plan: &Plan) {
    let operator = &footprint.operator;
    report_leftovers(site, footprint, removal, plan);
    if !removal.removes_definitions && !plan.definitions.is_empty() {
        (site.say)(&format!("kept: {}. --crds removes definitions", names(&plan.definitions)));
    }
    for namespace in &plan.namespaces {
        let name = &namespace.name;
        (site.say)(&format!(
            "kept: namespace/{name}, which may contain objects of others. `kubectl delete namespace {name}` removes it"
        ));
    }
    match &*plan.home {
        "" => (site.say)(&format!("The operator {operator} is not installed.")),
        home => (site.say)(&format!("The operator {operator} is removed from the namespace {home}.")),
    }
}

fn report_leftovers(site: &Site<'_>, footprint: &Footprint, removal: Removal<'_>, plan: &Plan) {
    let Removal { deletes_objects, removes_finalizers, .. } = removal;
    plan.leftovers.report(site, &footprint.finalizer, deletes_objects, removes_finalizers);
}
