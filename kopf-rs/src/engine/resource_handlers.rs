//! A served kind as the engine sees it: a resource, and the handlers that apply to it.
//!
//! Must not know how they were matched.

use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::object::resource::Resource;
use crate::reaction::background::is_reconcile;

/// A served kind with its handlers.
#[derive(Debug)]
pub(crate) struct ResourceHandlers {
    /// Stable for the same group, version and plural while the operator lives.
    pub(crate) id: u32,
    pub(crate) resource: Arc<Resource>,
    /// All handlers except for index functions.
    pub(crate) handlers: Vec<Arc<Handler>>,
    /// The index functions, by index.
    pub(crate) indexers: Vec<IndexFunctions>,
    /// Deletion handlers that apply to its objects but are not served at present. Objects that wait for them keep their finalizer.
    pub(crate) withheld: Vec<Arc<Handler>>,
    /// The handlers of raw events.
    pub(crate) watching: Vec<Arc<Handler>>,
    /// The ids of handlers with functions among their filters, if there are any.
    pub(crate) filters: Option<Arc<[Arc<str>]>>,
    /// The watch uses a server-side selector: an object that it reports as deleted may just have left the selection.
    pub(crate) is_selected: bool,
    /// The object has left the selection: it has no handlers, and is forgotten when no work is left.
    pub(crate) has_left: bool,
}

/// The functions that feed one index.
#[derive(Debug)]
pub(crate) struct IndexFunctions {
    /// The name of the index, which is the id of the functions.
    pub(crate) id: Arc<str>,
    pub(crate) handlers: Vec<Arc<Handler>>,
}

impl ResourceHandlers {
    pub(crate) fn new(id: u32, resource: Arc<Resource>, handlers: Vec<Arc<Handler>>) -> Self {
        let (indexers, handlers): (Vec<_>, Vec<_>) = handlers.into_iter().partition(|it| it.index.is_some());
        let watching = handlers.iter().filter(|handler| handler.is_for_events()).cloned().collect();
        let filtered = handlers.iter().filter(|it| it.has_filter_functions());
        let filtered: Vec<_> = filtered.map(|it| it.id.clone()).collect();
        Self {
            id,
            resource,
            filters: (!filtered.is_empty()).then(|| filtered.into()),
            handlers,
            indexers: by_index(indexers),
            withheld: Vec::new(),
            watching,
            is_selected: false,
            has_left: false,
        }
    }

    /// Sets whether the watch uses a server-side selector.
    pub(crate) fn selected(self, is_selected: bool) -> Self {
        Self { is_selected, ..self }
    }

    /// Returns the kind without handlers, for an object that has left the selection.
    pub(crate) fn left(&self) -> Self {
        Self { has_left: true, ..Self::new(self.id, self.resource.clone(), Vec::new()) }
    }

    /// Adds the deletion handlers that are not served at present.
    pub(crate) fn withholding(self, withheld: Vec<Arc<Handler>>) -> Self {
        Self { withheld, ..self }
    }

    /// Returns whether daemons or timers are among the handlers.
    pub(crate) fn has_background(&self) -> bool {
        let mut handlers = self.handlers.iter();
        handlers.any(|handler| handler.is_background())
    }

    /// Returns whether level-triggered handlers are among the handlers.
    pub(crate) fn has_reconcilers(&self) -> bool {
        self.handlers.iter().any(|it| is_reconcile(it))
    }

    /// Returns whether handlers are called for an unchanged object when the operator starts.
    pub(crate) fn acts_at_a_start(&self) -> bool {
        let is_called = |it: &Arc<Handler>| {
            it.is_for_events() || it.is_for_resuming() || it.is_background() || !it.owns.is_empty()
        };
        self.handlers.iter().any(is_called)
    }

    /// Returns the words for the handlers that run in the background.
    pub(crate) fn background_words(&self) -> &'static str {
        let mut all = self.handlers.iter().filter(|it| it.is_background());
        let is_level_triggered = |it: &Arc<Handler>| is_reconcile(it);
        match (all.clone().any(is_level_triggered), all.all(is_level_triggered)) {
            (false, _) => "daemons and timers",
            (true, false) => "daemons, timers and reconcilers",
            (true, true) => "reconcilers",
        }
    }

    /// Returns the kind of Pods, without handlers.
    #[cfg(test)]
    pub(super) fn of_pods() -> Arc<Self> {
        let resource = Resource {
            version: "v1".to_owned(),
            plural: "pods".to_owned(),
            kind: "Pod".to_owned(),
            ..Resource::default()
        };
        Arc::new(Self::new(0, Arc::new(resource), Vec::new()))
    }

    /// Returns whether timers with a schedule are among the handlers.
    pub(crate) fn has_schedules(&self) -> bool {
        self.handlers.iter().any(|it| it.timing.schedule.is_some())
    }

    /// Returns whether its objects are needed only for indices.
    pub(crate) fn is_only_indexed(&self) -> bool {
        self.handlers.is_empty() && self.withheld.is_empty() && !self.indexers.is_empty()
    }

    /// Returns whether an index function is async.
    pub(crate) fn has_async_indexers(&self) -> bool {
        let mut all = self.indexers.iter().flat_map(|it| &it.handlers);
        all.any(|handler| !handler.is_blocking())
    }

    /// Returns whether nothing that a watch depends on has changed.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same = |these: &[Arc<Handler>], those: &[Arc<Handler>]| {
            let mut pairs = these.iter().zip(those);
            these.len() == those.len() && pairs.all(|(this, that)| Arc::ptr_eq(this, that))
        };
        self.resource.is_same_kind(&other.resource)
            && same(&self.handlers, &other.handlers)
            && same(&self.withheld, &other.withheld)
            && (self.is_selected, self.has_left) == (other.is_selected, other.has_left)
            && self.indexers.len() == other.indexers.len()
            && self
                .indexers
                .iter()
                .zip(&other.indexers)
                .all(|(this, that)| same(&this.handlers, &that.handlers))
    }
}

/// Groups the functions by index, in the order of declaration.
fn by_index(handlers: Vec<Arc<Handler>>) -> Vec<IndexFunctions> {
    let mut indexers: Vec<IndexFunctions> = Vec::new();
    for handler in handlers {
        match indexers.iter_mut().find(|it| it.id == handler.id) {
            Some(known) => known.handlers.push(handler),
            None => indexers.push(IndexFunctions { id: handler.id.clone(), handlers: vec![handler] }),
        }
    }
    indexers
}
