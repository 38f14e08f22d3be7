//! Happenings of API discovery and of watches.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::happening::{DEBUG, ERROR, INFO, WARN, happenings, listed, quoted};
use crate::object::collection::Collection;
use crate::object::resource::Resource;

happenings! {
    /// A happening of discovery, of the served resources or of their indices.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Serving {
        /// API discovery has failed and is retried after a pause. `is_news`: nothing else has failed for the same
        /// reason yet.
        DiscoveryFailed { error: String, pause: Duration, is_news: bool }
            => if *is_news { WARN } else { DEBUG },
            "API discovery failed; will retry in {:.1} seconds: {error}", pause.as_secs_f64();
        /// API discovery succeeds again. `is_news`: nothing else had failed for the same reason.
        DiscoveryResumed { is_news: bool } => if *is_news { INFO } else { DEBUG }, "API discovery works again.";
        /// The API server does not serve the resources of some handlers.
        Unresolved { selectors: Vec<String> }
            => WARN, "Unresolved resources cannot be served (try creating their CRDs): {}", listed(selectors);
        /// Several resources match a handler's selector.
        Ambiguous { selector: String, resources: Vec<Resource> }
            => WARN, "Ambiguous resources will not be served (try specifying API groups): {selector} => {}", listed(resources);
        /// Handlers select a different version of a resource than the one served to other handlers.
        OtherVersion { handlers: Vec<Arc<str>>, resource: Box<Resource>, served: Box<Resource> }
            => WARN, "{resource} is not served to {}, because other handlers are for {served}: both versions show the same objects, so only one \
            is served (try the same version, or none, in all handlers)", quoted(handlers);
        /// A handler's selector function has panicked for this resource, and maybe for others.
        SelectorPanicked { handler: Arc<str>, resource: Box<Resource>, panic: String }
            => ERROR, "The function that selects resources for '{handler}' has failed for {resource}: the handler is not called for resources \
            for which it fails. Fix the function: {panic}";
        /// The function that maps a changed object of this kind to its owners has panicked.
        OwnersPanicked { handler: Arc<str>, resource: Box<Resource>, panic: String }
            => ERROR, "The function in `watches` of '{handler}' has failed for an object of {resource}: the change triggers the owners that \
            it returned for that object before. This is reported once. Fix the function: {panic}";
        /// A selector function in the settings has panicked for this resource.
        SelectionPanicked { resource: Box<Resource>, panic: String }
            => ERROR, "A function in `settings.watching` has failed for {resource}: it is not watched, because the function may be there to \
            select a part of its objects. Fix the function: {panic}";
        /// The API server does not support watches of these resources.
        Unwatchable { resources: Vec<Resource> } => WARN, "Non-watchable resources will not be served: {}", listed(resources);
        /// The resources lack the verb `patch`, so the progress of handlers cannot be stored.
        Unpatchable { resources: Vec<Resource> } => WARN, "Non-patchable resources will not be served: {}", listed(resources);
        /// CRDs cannot be watched; discovery is repeated at an interval instead. `is_needed`: handlers select custom kinds,
        /// or kinds that may be defined later.
        DefinitionsUnwatchable { interval: Duration, is_needed: bool }
            => if *is_needed { WARN } else { DEBUG },
            "CustomResourceDefinitions cannot be watched: the operator looks for new kinds every {} seconds.", interval.as_secs();
        /// Namespaces cannot be listed; the namespaces that the patterns name are assumed to exist. `is_all`: the patterns
        /// select no other namespaces.
        NamespacesAssumed { names: Vec<String>, is_all: bool }
            => if *is_all { INFO } else { WARN }, "Namespaces cannot be listed{}: {}", if *is_all {
                ", and need not be, since all are given by name"
            } else {
                ": only namespaces given by name are served"
            }, listed(names);
        /// Namespaces that are given by name do not exist.
        NamespacesMissing { names: Vec<String> }
            => WARN, "These namespaces do not exist: {} (objects are handled as soon as their namespace is created; check the names in -n)",
            listed(names);
        /// The API server does not serve these resources any more, although they have handlers.
        Gone { resources: Vec<Resource> }
            => ERROR, "The API server does not serve {} any more: the operator is not ready, and the handlers are not called, until it does. If \
            the CustomResourceDefinition was deleted by mistake, create it again.", listed(resources);
        /// The operator's account lacks permissions. Carries where to add the rules, and the rules as YAML.
        RightsMissing { account: String, rules: String }
            => WARN, "{} lacks permissions that this operator needs. Add {rules}", subject(account);
        /// The permissions of the operator's account cannot be compared with the needed ones.
        RightsUnknown { error: String }
            => DEBUG, "The operator cannot find out whether its account has all permissions; it reports each refused request: {error}";
        /// The operator has started to serve these resources to its handlers.
        Begun { resources: Vec<Resource> } => INFO, "Serving {}.", listed(resources);
        /// All objects found at startup are indexed, so handlers may run.
        Indexed => DEBUG, "All existing objects are indexed: handlers are called from now on.";
        /// Handlers may run although some indices are incomplete.
        IndexedInPart { missing: Vec<MissingIndex> }
            => WARN, "Handlers are called from now on, but these indices are not complete: {}", listed(missing);
        /// A key or a value of an index has panicked. The entries of its object are missing or outdated.
        IndexIncomplete { index: Arc<str>, panic: String }
            => ERROR, "The index '{index}' is not complete: a key or value has panicked: {panic}";
        /// A value of an index, or of a memo if there is no index, has panicked when it was dropped.
        DropPanicked { index: Option<Arc<str>>, panic: String }
            => ERROR, "{} has panicked when it was dropped: {panic}", index.as_ref().map_or_else(
                || "A value of a memo".to_owned(), |index| format!("A key or value of the index '{index}'"));
    }
}

happenings! {
    /// A happening of the watch of a collection.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Watching {
        Started { what: Arc<Collection> } => DEBUG, "Starting the watch-stream for {what}.";
        Stopped { what: Arc<Collection> } => DEBUG, "Stopping the watch-stream for {what}.";
        /// The watch was silent for too long and is renewed.
        Silent { what: Arc<Collection> } => DEBUG, "Watch-stream for {what} is inactive, reconnecting.";
        /// The watch is not permitted and retries by itself. Carries the RBAC rule that would permit it, or an empty text.
        /// `is_news`: nothing else has failed for the same reason yet.
        Forbidden { what: Arc<Collection>, message: String, rule: String, purpose: Purpose, is_news: bool }
            => match purpose {
                Purpose::Spare => DEBUG,
                _ if !is_news => DEBUG,
                // Another line explains the consequences.
                Purpose::Operator if is_of_namespaces(what) => INFO,
                Purpose::Operator => WARN,
                Purpose::Handlers => ERROR,
            }, "{}", if rule.is_empty() {
                format!("The watch-stream for {what} is forbidden; will retry: {message}")
            } else {
                format!("Not enough permissions to watch {what}: {message}\nTo grant them, add {rule}")
            };
        /// The credentials are rejected.
        Unauthorized { what: Arc<Collection>, error: String, is_news: bool }
            => if *is_news { ERROR } else { DEBUG },
            "The watch-stream for {what} is refused: {error}. Are the credentials still valid? Will retry.";
        /// The watch has failed for another reason and retries by itself.
        Failed { what: Arc<Collection>, error: String, is_news: bool }
            => if *is_news { WARN } else { DEBUG }, "The watch-stream for {what} has failed; will retry: {error}";
        /// The watch continues. `is_news`: nothing else had failed for the same reason.
        Resumed { what: Arc<Collection>, is_news: bool }
            => if *is_news { INFO } else { DEBUG }, "The watch-stream for {what} works again.";
        /// The watch has panicked, which is a defect of this framework. It is restarted after a pause.
        Panicked { what: Arc<Collection>, panic: String, pause: Duration }
            => ERROR, "The watch-stream for {what} has panicked, which is a bug in kopf-rs; will restart it in {:.1} seconds: {panic}",
            pause.as_secs_f64();
    }
}

/// The purpose of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The watch serves handlers, which are not called without it.
    Handlers,
    /// The watch serves the operator itself, which can do without it: it uses the named namespaces, and polls for new
    /// kinds.
    Operator,
    /// The watch serves the operator itself, but all handlers select built-in kinds, so its failure has no effect.
    Spare,
}

/// Returns the account of the operator as the subject of a sentence.
fn subject(account: &str) -> String {
    let service_account = account.strip_prefix("system:serviceaccount:").and_then(|it| it.split_once(':'));
    match service_account {
        Some((namespace, name)) => format!("The ServiceAccount {name} in namespace {namespace}"),
        None if account.is_empty() => "The account of this operator".to_owned(),
        None => format!("The user {account}"),
    }
}

fn is_of_namespaces(collection: &Collection) -> bool {
    let resource = &collection.resource;
    resource.group.is_empty() && resource.plural == "namespaces"
}

/// An incomplete index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingIndex {
    pub(crate) index: Arc<str>,
    /// The resource that cannot be listed, with the error; `None` if no resource of the index is served.
    pub(crate) because: Option<(Arc<Resource>, String)>,
}

impl fmt::Display for MissingIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, because } = self;
        match because {
            Some((resource, error)) => {
                write!(f, "'{index}' ({resource} cannot be listed: {error})")
            }
            None => write!(f, "'{index}' (none of the resources that feed it is served)"),
        }
    }
}
