//! Happenings of API discovery and of watches.
//!
//! This module contains no wording.

use std::sync::Arc;
use std::time::Duration;

use crate::object::collection::Collection;
use crate::object::resource::Resource;

/// A happening of discovery or of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    /// API discovery has failed and is retried after a pause. `is_news`: nothing else has failed for the same reason
    /// yet.
    DiscoveryFailed {
        error: String,
        pause: Duration,
        is_news: bool,
    },
    /// API discovery succeeds again. `is_news`: nothing else had failed for the same reason.
    DiscoveryResumed { is_news: bool },
    /// The API server does not serve the resources of some handlers.
    Unresolved { selectors: Vec<String> },
    /// Several resources match a handler's selector.
    Ambiguous {
        selector: String,
        resources: Vec<Resource>,
    },
    /// Handlers select a different version of a resource than the one served to other handlers.
    OtherVersion {
        handlers: Vec<Arc<str>>,
        resource: Box<Resource>,
        served: Box<Resource>,
    },
    /// A handler's selector function has panicked for this resource, and maybe for others.
    SelectorPanicked {
        handler: Arc<str>,
        resource: Box<Resource>,
        panic: String,
    },
    /// The function that maps a changed object of this kind to its owners has panicked.
    OwnersPanicked {
        handler: Arc<str>,
        resource: Box<Resource>,
        panic: String,
    },
    /// A selector function in the settings has panicked for this resource.
    SelectionPanicked {
        resource: Box<Resource>,
        panic: String,
    },
    /// The API server does not support watches of these resources.
    Unwatchable { resources: Vec<Resource> },
    /// The resources lack the verb `patch`, so the progress of handlers cannot be stored.
    Unpatchable { resources: Vec<Resource> },
    /// CRDs cannot be watched; discovery is repeated at an interval instead.
    DefinitionsUnwatchable {
        interval: Duration,
        /// True if handlers select custom kinds, or kinds that may be defined later.
        is_needed: bool,
    },
    /// Namespaces cannot be listed; the namespaces that the patterns name are assumed to exist.
    NamespacesAssumed {
        names: Vec<String>,
        /// True if the patterns select no other namespaces.
        is_all: bool,
    },
    /// The operator has started to serve these resources to its handlers.
    Begun { resources: Vec<Resource> },
    /// All objects found at startup are indexed, except those listed in `missing`, so handlers may run.
    Indexed { missing: Vec<MissingIndex> },
    /// A key or a value of an index has panicked. The entries of its object are missing or outdated.
    IndexIncomplete { index: Arc<str>, panic: String },
    /// A value of an index, or of a memo if there is no index, has panicked when it was dropped.
    DropPanicked {
        index: Option<Arc<str>>,
        panic: String,
    },
    /// A happening of a collection's watch.
    Watch(Arc<Collection>, Watching),
}

/// An incomplete index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingIndex {
    pub(crate) index: Arc<str>,
    /// The resource that cannot be listed, with the error; `None` if no resource of the index is served.
    pub(crate) because: Option<(Arc<Resource>, String)>,
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

/// A happening of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Watching {
    Started,
    Stopped,
    /// The watch was silent for too long and is renewed.
    Silent,
    /// The watch has failed and retries by itself. `is_news`: nothing else has failed for the same reason yet.
    Failed {
        trouble: Trouble,
        purpose: Purpose,
        is_news: bool,
    },
    /// The watch continues. `is_news`: nothing else had failed for the same reason.
    Resumed {
        is_news: bool,
    },
    /// The watch has panicked, which is a defect of this framework. It is restarted after a pause.
    Panicked {
        panic: String,
        pause: Duration,
    },
}

/// Why a watch cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Carries the RBAC rule that would permit it, or an empty text for other causes.
    Forbidden {
        message: String,
        rule: String,
    },
    Unauthorized(String),
    Other(String),
}
