//! The log lines about discovery and watches. Uses Kopf's wording wherever Kopf has such a line.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use tracing::Level;

use crate::happening::serving::{MissingIndex, Purpose, Serving, Trouble, Watching};
use crate::object::collection::Collection;
use crate::object::resource::Resource;

pub(super) fn level(serving: &Serving) -> Level {
    match serving {
        Serving::DiscoveryFailed { is_news: false, .. }
        | Serving::DiscoveryResumed { is_news: false }
        | Serving::DefinitionsUnwatchable {
            is_needed: false, ..
        }
        | Serving::Watch(
            _,
            Watching::Failed {
                trouble: Trouble::Forbidden { .. },
                purpose: Purpose::Spare,
                ..
            },
        ) => Level::DEBUG,
        Serving::DiscoveryResumed { .. }
        | Serving::Begun { .. }
        | Serving::NamespacesAssumed { is_all: true, .. } => Level::INFO,
        // Another line explains the consequences.
        Serving::Watch(
            collection,
            Watching::Failed {
                trouble: Trouble::Forbidden { .. },
                purpose: Purpose::Operator,
                is_news: true,
            },
        ) if is_of_namespaces(collection) => Level::INFO,
        Serving::Watch(
            _,
            Watching::Failed {
                trouble: Trouble::Forbidden { .. },
                purpose: Purpose::Operator,
                is_news: true,
            },
        ) => Level::WARN,
        Serving::Indexed { missing } if missing.is_empty() => Level::DEBUG,
        Serving::Watch(_, watching) => level_of_watch(watching),
        Serving::DiscoveryFailed { .. }
        | Serving::Unresolved { .. }
        | Serving::Ambiguous { .. }
        | Serving::OtherVersion { .. }
        | Serving::Unwatchable { .. }
        | Serving::Unpatchable { .. }
        | Serving::DefinitionsUnwatchable { .. }
        | Serving::NamespacesAssumed { .. }
        | Serving::Indexed { .. } => Level::WARN,
        Serving::SelectorPanicked { .. }
        | Serving::OwnersPanicked { .. }
        | Serving::SelectionPanicked { .. }
        | Serving::IndexIncomplete { .. }
        | Serving::DropPanicked { .. } => Level::ERROR,
    }
}

fn is_of_namespaces(collection: &Collection) -> bool {
    let resource = &collection.resource;
    resource.group.is_empty() && resource.plural == "namespaces"
}

fn level_of_watch(watching: &Watching) -> Level {
    match watching {
        Watching::Started
        | Watching::Stopped
        | Watching::Silent
        | Watching::Failed { is_news: false, .. }
        | Watching::Resumed { is_news: false } => Level::DEBUG,
        Watching::Resumed { .. } => Level::INFO,
        Watching::Failed {
            trouble: Trouble::Other(_),
            ..
        } => Level::WARN,
        Watching::Failed { .. } | Watching::Panicked { .. } => Level::ERROR,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, serving: &Serving) -> fmt::Result {
    match serving {
        Serving::DiscoveryFailed { error, pause, .. } => write!(
            f,
            "API discovery failed; will retry in {:.1} seconds: {error}",
            pause.as_secs_f64()
        ),
        Serving::DiscoveryResumed { .. } => write!(f, "API discovery works again."),
        Serving::Unresolved { selectors } => write!(
            f,
            "Unresolved resources cannot be served (try creating their CRDs): {}",
            listed(selectors)
        ),
        Serving::Ambiguous {
            selector,
            resources,
        } => write!(
            f,
            "Ambiguous resources will not be served (try specifying API groups): {selector} => {}",
            listed(resources)
        ),
        Serving::OtherVersion {
            handlers,
            resource,
            served,
        } => write_other_version(f, handlers, [resource, served]),
        Serving::SelectorPanicked {
            handler,
            resource,
            panic,
        } => write!(
            f,
            "The function that selects resources for '{handler}' has failed for {resource}: the handler is not called for resources for which \
             it fails. Mend the function: {panic}"
        ),
        Serving::OwnersPanicked {
            handler,
            resource,
            panic,
        } => write_owners_panicked(f, handler, resource, panic),
        Serving::SelectionPanicked { resource, panic } => {
            write_selection_panicked(f, resource, panic)
        }
        Serving::Unwatchable { resources } => write_unserved(f, "Non-watchable", resources),
        Serving::Unpatchable { resources } => write_unserved(f, "Non-patchable", resources),
        Serving::DefinitionsUnwatchable { interval, .. } => write!(
            f,
            "CustomResourceDefinitions cannot be watched: the operator looks for new kinds every {} seconds.",
            interval.as_secs()
        ),
        Serving::NamespacesAssumed { names, is_all } => write_assumed(f, names, *is_all),
        Serving::Begun { resources } => write!(f, "Serving {}.", listed(resources)),
        Serving::Indexed { missing } => write_indexed(f, missing),
        Serving::IndexIncomplete { index, panic } => write_panic(f, index, panic),
        Serving::DropPanicked { index, panic } => write_drop(f, index.as_deref(), panic),
        Serving::Watch(collection, watching) => write_watch(f, collection, watching),
    }
}

fn write_assumed(f: &mut Formatter<'_>, names: &[String], is_all: bool) -> fmt::Result {
    let what = if is_all {
        ", and need not be, since all are given by name"
    } else {
        ": only namespaces given by name are served"
    };
    write!(f, "Namespaces cannot be listed{what}: {}", listed(names))
}

fn write_selection_panicked(
    f: &mut Formatter<'_>,
    resource: &Resource,
    panic: &str,
) -> fmt::Result {
    write!(
        f,
        "A function in `settings.watching` has failed for {resource}: it is not watched, because the function may be there to select a part \
         of its objects. Mend the function: {panic}"
    )
}

fn write_owners_panicked(
    f: &mut Formatter<'_>,
    handler: &str,
    resource: &Resource,
    panic: &str,
) -> fmt::Result {
    write!(
        f,
        "The function in `watches` of '{handler}' has failed for an object of {resource}: the change counts for those whom it has named for that \
         object before. This is said once. Mend the function: {panic}"
    )
}

fn write_other_version(
    f: &mut Formatter<'_>,
    handlers: &[Arc<str>],
    [resource, served]: [&Resource; 2],
) -> fmt::Result {
    let ids: Vec<String> = handlers.iter().map(|id| format!("'{id}'")).collect();
    write!(
        f,
        "{resource} is not served to {}, because other handlers are for {served}: both versions show the same objects, so only one is served (try the same version, or none, in all handlers)",
        listed(&ids)
    )
}

fn write_unserved(f: &mut Formatter<'_>, which: &str, resources: &[Resource]) -> fmt::Result {
    let resources = listed(resources);
    write!(f, "{which} resources will not be served: {resources}")
}

fn write_panic(f: &mut Formatter<'_>, index: &str, panic: &str) -> fmt::Result {
    write!(
        f,
        "The index '{index}' is not complete: a key or value has panicked: {panic}"
    )
}

fn write_drop(f: &mut Formatter<'_>, index: Option<&str>, panic: &str) -> fmt::Result {
    match index {
        Some(index) => write!(f, "A key or value of the index '{index}'")?,
        None => f.write_str("A value of a memo")?,
    }
    write!(f, " has panicked when it was dropped: {panic}")
}

fn write_indexed(f: &mut Formatter<'_>, missing: &[MissingIndex]) -> fmt::Result {
    if missing.is_empty() {
        return f.write_str("All existing objects are indexed: handlers are called from now on.");
    }
    let missing = listed(missing);
    write!(
        f,
        "Handlers are called from now on, but these indices are not complete: {missing}"
    )
}

impl Display for MissingIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { index, because } = self;
        match because {
            Some((resource, error)) => {
                write!(f, "'{index}' ({resource} cannot be listed: {error})")
            }
            None => write!(
                f,
                "'{index}' (none of the resources that it is made of is served)"
            ),
        }
    }
}

fn write_watch(f: &mut Formatter<'_>, what: &Collection, watching: &Watching) -> fmt::Result {
    match watching {
        Watching::Started => write!(f, "Starting the watch-stream for {what}."),
        Watching::Stopped => write!(f, "Stopping the watch-stream for {what}."),
        Watching::Silent => write!(f, "Watch-stream for {what} is inactive, reconnecting."),
        Watching::Resumed { .. } => write!(f, "The watch-stream for {what} works again."),
        Watching::Panicked { panic, pause } => write!(
            f,
            "The watch-stream for {what} has panicked, which is a bug in kopf-rs; will restart it in {:.1} seconds: {panic}",
            pause.as_secs_f64()
        ),
        Watching::Failed { trouble, .. } => match trouble {
            Trouble::Forbidden { message, rule } if rule.is_empty() => write!(
                f,
                "The watch-stream for {what} is forbidden; will retry: {message}"
            ),
            Trouble::Forbidden { message, rule } => write!(
                f,
                "Not enough permissions to watch {what}: {message}\nTo grant them, add {rule}"
            ),
            Trouble::Unauthorized(error) => write!(
                f,
                "The watch-stream for {what} is refused: {error}. Are the credentials still valid? Will retry."
            ),
            Trouble::Other(error) => write!(
                f,
                "The watch-stream for {what} has failed; will retry: {error}"
            ),
        },
    }
}

fn listed<T: Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}
