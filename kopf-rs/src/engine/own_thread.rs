//! Functions of users that run on the operator's own thread, where everything waits for them: which there may be, and that they are seen.
//!
//! Must not know what they decide.

use crate::engine::context::WorkerContext;
use crate::engine::kind::Kind;
use crate::engine::watchdog::watched;
use crate::handler::lifecycle::Lifecycle;
use crate::handler::registry::callback::Callback;
use crate::happening::UserCode;
use crate::state::Persistence;

/// What a plan may run.
pub(super) fn of_plan(
    persistence: &Persistence,
    lifecycle: &Lifecycle,
    kind: &Kind,
) -> Vec<UserCode> {
    let mut code = of_settlement(persistence);
    code.extend(kind.filters.clone().map(UserCode::Filters));
    if is_custom(lifecycle) {
        code.push(UserCode::Lifecycle);
    }
    code
}

/// What a settlement may run.
pub(super) fn of_settlement(persistence: &Persistence) -> Vec<UserCode> {
    if persistence.is_users() {
        return vec![UserCode::Storages];
    }
    Vec::new()
}

/// What it may run to look at sub-handlers.
pub(super) fn of_group(callbacks: &[Callback], lifecycle: Option<&Lifecycle>) -> Vec<UserCode> {
    let filtered = callbacks
        .iter()
        .filter(|it| it.options.filters.when.is_some());
    let ids: Vec<_> = filtered.map(|it| it.name.as_str().into()).collect();
    let filters = (!ids.is_empty()).then(|| UserCode::Filters(ids.into()));
    let lifecycle = lifecycle.filter(|it| is_custom(it));
    let lifecycle = lifecycle.map(|_| UserCode::Lifecycle);
    filters.into_iter().chain(lifecycle).collect()
}

fn is_custom(lifecycle: &Lifecycle) -> bool {
    matches!(lifecycle, Lifecycle::Custom(_))
}

impl WorkerContext {
    /// Run what may run such `code`.
    pub(super) fn watched<T>(&self, code: Vec<UserCode>, part: impl FnOnce() -> T) -> T {
        watched(code, self.logger(), &self.about.uid, part)
    }
}
