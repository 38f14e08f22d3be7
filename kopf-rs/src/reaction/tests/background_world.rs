//! Lets the test world run daemons and timers like the engine.

use std::sync::Arc;

use serde_json::json;

use super::world::{FINALIZER, World, outcome_of};
use crate::handler::again::AgainCell;
use crate::handler::cause::CauseContext;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::live::Live;
use crate::handler::stopped::Stopped;
use crate::handler::subject::{BackgroundSubject, Subject, SubjectObject};
use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::object::resource::Resource;
use crate::reaction::background::Times;
use crate::reaction::background_plan::{BackgroundPlan, Step};
use crate::reaction::judge::Judge;
use crate::reaction::settle::deliver;

/// The part of the engine that runs daemons and timers.
impl World {
    pub(super) fn run_in_background(&mut self, planned: BackgroundPlan, body: &Arc<Body>) {
        self.background = planned.memory;
        self.keep_of_background(planned.patch);
        for step in planned.steps {
            match step {
                Step::Call { handler, attempt } => {
                    assert!(!self.runs(&handler), "two of them: {handler}");
                    self.calls.push(format!("{}#{}", handler.id, attempt.retry));
                    let subject = Subject::Background(BackgroundSubject {
                        again: AgainCell::default(),
                        object: SubjectObject { resource: Arc::new(Resource::default()), body: body.clone() },
                        live: Live::of(body.clone()),
                        stopped: Stopped::unset(None),
                    });
                    let context = CauseContext::default();
                    let call = HandlerCall::new(handler, context, attempt, subject);
                    self.running.push(call);
                }
                Step::Signal { handler, reason } => {
                    assert!(self.runs(&handler), "{handler} is told, and does not run");
                    let mut running = self.running.iter();
                    let call = running.find(|it| Arc::ptr_eq(&it.handler, &handler));
                    call.unwrap().stopped().unwrap().set(reason);
                }
                Step::Cancel { handler } => self.calls.push(format!("{} cut off", handler.id)),
            }
        }
    }

    fn runs(&self, handler: &Handler) -> bool {
        let name = handler.to_string();
        let mut running = self.running.iter();
        running.any(|it| it.handler.to_string() == name)
    }

    /// Ends a call with an outcome in the syntax of [`outcome_of`], or with `cut off`.
    pub(super) fn ends(&mut self, id: &str, outcome: &str) -> &mut Self {
        let place = self.running.iter().position(|it| *it.handler.id == *id);
        let call = self.running.swap_remove(place.unwrap());
        let judge = Judge { now: self.now, backoff: self.policy.backoff, random: 0.0 };
        let outcome = (outcome != "cut off").then(|| outcome_of(outcome));
        let mut told = Vec::new();
        let mut patch = Patch::new();
        if let Some(wanted) = self.wants.get(id) {
            patch.merge(wanted.clone());
        }
        self.background.wanted(&call, &patch, &self.persistence, &mut told);
        let times = Times { judge, wall_ahead: self.wall_ahead, ask: |pause, cause| Ok(pause.length(cause)) };
        let returned = self.background.returned(&call, outcome, times, &mut told);
        self.hear(&told);
        let returned = returned.unwrap();
        if let Some(result) = returned.result {
            deliver(&mut patch, id, result);
        }
        if let Some(ran) = returned.ran {
            self.persistence.note_run(id, ran, call.body(), &mut patch);
        }
        self.keep_of_background(patch);
        self.again()
    }

    pub(super) fn reason(&self, id: &str) -> String {
        let call = self.running.iter().find(|it| *it.handler.id == *id);
        let reason = call.unwrap().stopped().unwrap().reason();
        reason.map(|it| it.to_string()).unwrap_or_default()
    }

    /// Returns the seconds until something is due.
    pub(super) fn due(&self) -> Option<i64> {
        let due = self.background.due(self.wall_ahead)?;
        Some(due.duration_since(self.now).as_secs())
    }

    /// Sleeps until something is due, and plans again.
    pub(super) fn wake(&mut self) -> &mut Self {
        let due = self.background.due(self.wall_ahead);
        let due = due.expect("something is due");
        self.now = self.now.max(due);
        self.again()
    }

    pub(super) fn is_held(&self) -> bool {
        let object = self.object.as_ref();
        object.is_some_and(|it| it["metadata"]["finalizers"] == json!([FINALIZER]))
    }
    pub(super) fn is_deleting(&self) -> bool {
        let object = self.object.as_ref();
        object.is_some_and(|it| !it["metadata"]["deletionTimestamp"].is_null())
    }
}
