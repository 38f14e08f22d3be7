//! Happenings of API discovery and of watches.
//!
//! Must not know any wording.

use std::sync::Arc;
use std::time::Duration;

use crate::object::collection::Collection;
use crate::object::resource::Resource;

/// Something that has happened to discovery or to a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    /// API discovery failed; it is repeated after a pause. News: nothing else fails for that reason yet.
    DiscoveryFailed {
        error: String,
        pause: Duration,
        is_news: bool,
    },
    /// API discovery succeeds again. News: this alone had failed.
    DiscoveryResumed { is_news: bool },
    /// Handlers are for resources that are not served.
    Unresolved { selectors: Vec<String> },
    /// Several resources match the name that a handler's selector gives.
    Ambiguous {
        selector: String,
        resources: Vec<Resource>,
    },
    /// Handlers are for another version of a resource than the one that is served to other handlers.
    OtherVersion {
        handlers: Vec<Arc<str>>,
        resource: Box<Resource>,
        served: Box<Resource>,
    },
    /// The function that selects resources for a handler has panicked when it was asked about this one, and maybe about others.
    SelectorPanicked {
        handler: Arc<str>,
        resource: Box<Resource>,
        panic: String,
    },
    /// The function that says whom a change of such an object concerns has panicked.
    OwnersPanicked {
        handler: Arc<str>,
        resource: Box<Resource>,
        panic: String,
    },
    /// A function among the selectors of the settings has panicked when it was asked about this resource.
    SelectionPanicked {
        resource: Box<Resource>,
        panic: String,
    },
    /// The server offers no watches of them.
    Unwatchable { resources: Vec<Resource> },
    /// The resources have no verb `patch`: the progress of handlers cannot be kept.
    Unpatchable { resources: Vec<Resource> },
    /// Definitions of resources cannot be watched: discovery is repeated at an interval.
    DefinitionsUnwatchable { interval: Duration },
    /// Namespaces cannot be listed: those that the patterns name are taken for existing.
    NamespacesAssumed {
        names: Vec<String>,
        /// No others are asked for.
        is_all: bool,
    },
    /// The operator has begun to serve these to its handlers.
    Begun { resources: Vec<Resource> },
    /// All objects that were there at the start are indexed, but for what is missing in these: handlers may be called.
    Indexed { missing: Vec<MissingIndex> },
    /// A key or a value of an index has panicked: the object that has put it in has nothing there, or what it has had.
    IndexIncomplete { index: Arc<str>, panic: String },
    /// A value of an index or, without one, of a memo has panicked when it was dropped.
    DropPanicked {
        index: Option<Arc<str>>,
        panic: String,
    },
    /// Something has happened to the watch of a collection.
    Watch(Arc<Collection>, Watching),
}

/// An index that is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingIndex {
    pub(crate) index: Arc<str>,
    /// The resource that cannot be listed, and why; `None` where no resource that the index is for is served.
    pub(crate) because: Option<(Arc<Resource>, String)>,
}

/// Something that has happened to a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Watching {
    Started,
    Stopped,
    /// Nothing has come for too long: the watch is renewed.
    Silent,
    /// It cannot go on, and tries again by itself. News: nothing else fails for that reason yet.
    Failed {
        trouble: Trouble,
        is_news: bool,
    },
    /// It goes on. News: it alone had failed for its reason.
    Resumed {
        is_news: bool,
    },
    /// A defect of this framework: the watch is started again after a pause.
    Panicked {
        panic: String,
        pause: Duration,
    },
}

/// The trouble of a watch that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// With the rule that would permit it; empty where RBAC is not the reason.
    Forbidden {
        message: String,
        rule: String,
    },
    Unauthorized(String),
    Other(String),
}
