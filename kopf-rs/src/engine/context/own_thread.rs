//! Runs users' functions on the operator's own thread, where a slow one delays everything: finds out which of them may run, lets the
//! watchdog observe them, and adds them to the crash notes.
//!
//! Must not know their decisions.

use std::sync::Arc;

use crate::engine::context::WorkerContext;
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::watchdog::watched;
use crate::handler::lifecycle::Lifecycle;
use crate::handler::options::Callback;
use crate::happening::calls::{AbruptEnd, Stage, UserCode};
use crate::object::body::Body;
use crate::object::lazy_json::Outline;
use crate::object::raw::Raw;
use crate::reaction::input::state_for_functions;
use crate::state::Persistence;

/// Returns the user code that a plan may run.
pub(in crate::engine) fn of_plan(
    persistence: &Persistence,
    lifecycle: &Lifecycle,
    kind: &ResourceHandlers,
) -> Vec<UserCode> {
    let mut code = of_settlement(persistence);
    code.extend(kind.filters.clone().map(UserCode::Filters));
    if is_custom(lifecycle) {
        code.push(UserCode::Lifecycle);
    }
    code
}

/// Returns the user code that a settlement may run.
pub(in crate::engine) fn of_settlement(persistence: &Persistence) -> Vec<UserCode> {
    if persistence.is_users() {
        return vec![UserCode::Storages];
    }
    Vec::new()
}

/// Returns the user code that the planning of sub-handlers may run.
pub(in crate::engine) fn of_group(callbacks: &[Callback], lifecycle: Option<&Lifecycle>) -> Vec<UserCode> {
    let filtered = callbacks.iter().filter(|it| it.handler.filters.has_functions());
    let ids: Vec<_> = filtered.map(|it| Arc::clone(&it.handler.id)).collect();
    let filters = (!ids.is_empty()).then(|| UserCode::Filters(ids.into()));
    let lifecycle = lifecycle.filter(|it| is_custom(it));
    let lifecycle = lifecycle.map(|_| UserCode::Lifecycle);
    filters.into_iter().chain(lifecycle).collect()
}

fn is_custom(lifecycle: &Lifecycle) -> bool {
    matches!(lifecycle, Lifecycle::Custom(_))
}

impl WorkerContext {
    /// Runs `part`, which may run `code` for the object in the state of `body`.
    pub(in crate::engine) fn watched<T>(
        &self,
        (stage, code): (Stage, Vec<UserCode>),
        body: &Body,
        part: impl FnOnce() -> T,
    ) -> T {
        let setup = &self.shared.setup;
        let noted = setup.notes.begin_functions((stage, &code), &self.about, body, &setup.persistence);
        let done = watched(code, self.logger(), part);
        noted.end(true);
        done
    }

    /// Returns whether the object is quarantined in its present state because such functions have crashed the operator. Logs that once.
    pub(in crate::engine) fn is_left_alone(&self, raw: &Raw, body: &Body) -> bool {
        let (setup, uid) = (&self.shared.setup, &self.about.uid);
        let state = || state_for_functions(&setup.persistence, body);
        let Some((code, crashes)) = setup.notes.quarantined(uid, state) else {
            return false;
        };
        let outline = Outline::of(raw);
        let is_held = |it: &Outline<'_>| it.is_deleting() && it.has_finalizer(&setup.persistence.finalizer);
        let held = outline.is_some_and(|it| is_held(&it));
        if setup.notes.is_quarantine_news(uid, held) {
            self.report(&AbruptEnd::ObjectLeftAlone {
                code,
                crashes,
                finalizer: held.then(|| setup.persistence.finalizer.clone()),
            });
            if setup.once {
                let about = &self.about;
                self.shared
                    .give_up(format!("Functions on the operator's own thread are suspended for {about}"));
            }
        }
        true
    }

    /// Clears the calls for the deleted object from the crash notes.
    pub(in crate::engine) fn forget_calls(&self) {
        self.shared.setup.notes.deleted(&self.about.uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::filter::Criterion;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;
    use crate::object::resource::Resource;

    fn callbacks() -> [(Callback, bool); 9] {
        let named = |id| handler(id, |_| async { Ok(()) });
        let any = || Criterion::matches(|_| true);
        [
            (named("none"), false),
            (named("equals").label("x", "y"), false),
            (named("present").annotation("x", Criterion::Present), false),
            (named("when").when(|_| true), true),
            (named("label").label("a", "b").label("x", any()), true),
            (named("annotation").annotation("x", any()), true),
            (named("value").field("spec").value(any()), true),
            (named("old").field("spec").old(any()), true),
            (named("new").field("spec").new(any()), true),
        ]
    }

    #[test]
    fn all_functions_in_filters_are_known_of_handlers_and_of_sub_handlers() {
        for (callback, is_function) in callbacks() {
            let id = callback.handler.id.clone();
            let code = of_group(std::slice::from_ref(&callback), None);
            assert_eq!(code.len(), usize::from(is_function), "sub-handler {id}");
            let registry = Registry::new().on_update("myapps", callback);
            let handlers = registry.handlers().to_vec();
            let kind = ResourceHandlers::new(0, Arc::new(Resource::default()), handlers);
            let code = of_plan(&Persistence::named("op"), &Lifecycle::Asap, &kind);
            assert_eq!(code.len(), usize::from(is_function), "handler {id}");
        }
    }
}
