//! A served kind as the engine sees it: a resource and the handlers that are for it.
//!
//! Must not know how they were matched.

use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::object::resource::Resource;
use crate::reaction::background::is_reconcile;
use crate::state::trace::Names;

/// A served kind with the handlers that are for it.
#[derive(Debug)]
pub(crate) struct ResourceHandlers {
    /// The same for the same group, version and plural, for as long as the operator lives.
    pub(crate) id: u32,
    pub(crate) resource: Arc<Resource>,
    /// All but those that feed indices.
    pub(crate) handlers: Vec<Arc<Handler>>,
    /// Those, by their indices.
    pub(crate) indexers: Vec<IndexFunctions>,
    /// Deletion handlers that are for its objects too, and that are not served now: what waits for them is not released.
    pub(crate) withheld: Vec<Arc<Handler>>,
    /// Those of them that see raw events.
    pub(crate) watching: Vec<Arc<Handler>>,
    /// The ids of those with functions among their filters, where there are any.
    pub(crate) filters: Option<Arc<[Arc<str>]>>,
    /// What those of changes keep on objects; nothing where there are none.
    pub(crate) names: Option<Names>,
    /// Objects are selected by the server: one that it calls deleted may as well have gone out of the selection.
    pub(crate) is_selected: bool,
    /// The object has gone out of the selection: nobody handles it, and it is forgotten when there is nothing left to do.
    pub(crate) has_left: bool,
}

/// The functions that feed one index.
#[derive(Debug)]
pub(crate) struct IndexFunctions {
    /// The name of the index: their id.
    pub(crate) id: Arc<str>,
    pub(crate) handlers: Vec<Arc<Handler>>,
}

impl ResourceHandlers {
    pub(crate) fn new(id: u32, resource: Arc<Resource>, handlers: Vec<Arc<Handler>>) -> Self {
        let (indexers, handlers): (Vec<_>, Vec<_>) =
            handlers.into_iter().partition(|it| it.index().is_some());
        let watching = handlers
            .iter()
            .filter(|handler| handler.is_for_events())
            .cloned()
            .collect();
        let ids = || {
            let changing = handlers.iter().filter(|it| it.persists_progress());
            changing.map(|it| &*it.id)
        };
        let filtered = handlers.iter().filter(|it| it.has_filter_functions());
        let filtered: Vec<_> = filtered.map(|it| it.id.clone()).collect();
        Self {
            id,
            resource,
            filters: (!filtered.is_empty()).then(|| filtered.into()),
            names: ids().next().is_some().then(|| Names::of(ids())),
            handlers,
            indexers: by_index(indexers),
            withheld: Vec::new(),
            watching,
            is_selected: false,
            has_left: false,
        }
    }

    /// The same, where the server selects the objects or does not.
    pub(crate) fn selected(self, is_selected: bool) -> Self {
        Self {
            is_selected,
            ..self
        }
    }

    /// The same without handlers, for an object that has gone out of the selection.
    pub(crate) fn left(&self) -> Self {
        Self {
            names: self.names.clone(),
            has_left: true,
            ..Self::new(self.id, self.resource.clone(), Vec::new())
        }
    }

    /// The same, with the deletion handlers that are not served now.
    pub(crate) fn withholding(self, withheld: Vec<Arc<Handler>>) -> Self {
        Self { withheld, ..self }
    }

    /// Whether daemons or timers are among them.
    pub(crate) fn has_background(&self) -> bool {
        let mut handlers = self.handlers.iter();
        handlers.any(|handler| handler.background().is_some())
    }

    /// How people call those that run in the background.
    pub(crate) fn background_words(&self) -> &'static str {
        let mut all = self.handlers.iter().filter(|it| it.background().is_some());
        let is_level_triggered = |it: &Arc<Handler>| is_reconcile(it);
        match (
            all.clone().any(is_level_triggered),
            all.all(is_level_triggered),
        ) {
            (false, _) => "daemons and timers",
            (true, false) => "daemons, timers and reconcilers",
            (true, true) => "reconcilers",
        }
    }

    /// Of Pods, without handlers.
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

    /// Whether timers with a schedule are among them.
    pub(crate) fn has_schedules(&self) -> bool {
        let mut timings = self.handlers.iter().filter_map(|it| it.background());
        timings.any(|(_, it)| it.schedule.is_some())
    }

    /// Whether nothing but indices wants to know of its objects.
    pub(crate) fn is_only_indexed(&self) -> bool {
        self.handlers.is_empty() && self.withheld.is_empty() && !self.indexers.is_empty()
    }

    /// Whether a function that feeds an index may wait for something.
    pub(crate) fn has_async_indexers(&self) -> bool {
        let mut all = self.indexers.iter().flat_map(|it| &it.handlers);
        all.any(|handler| !handler.is_blocking())
    }

    /// Whether nothing about it has changed that a watch depends on. What may be done with it does not count: the verbs that discovery
    /// names become fewer when the definition is being deleted, and the objects that are left are watched on.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same = |these: &[Arc<Handler>], those: &[Arc<Handler>]| {
            let mut pairs = these.iter().zip(those);
            these.len() == those.len() && pairs.all(|(this, that)| Arc::ptr_eq(this, that))
        };
        let without_verbs = |resource: &Resource| Resource {
            verbs: Vec::new(),
            ..resource.clone()
        };
        without_verbs(&self.resource) == without_verbs(&other.resource)
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

/// The functions of each index, in the order of declaration.
fn by_index(handlers: Vec<Arc<Handler>>) -> Vec<IndexFunctions> {
    let mut indexers: Vec<IndexFunctions> = Vec::new();
    for handler in handlers {
        match indexers.iter_mut().find(|it| it.id == handler.id) {
            Some(known) => known.handlers.push(handler),
            None => indexers.push(IndexFunctions {
                id: handler.id.clone(),
                handlers: vec![handler],
            }),
        }
    }
    indexers
}
