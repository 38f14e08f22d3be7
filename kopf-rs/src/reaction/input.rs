//! The input of a plan.
//!
//! Must not know how crashes are detected.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::handler::cause::CauseContext;
use crate::handler::definition::Handler;
use crate::handler::lifecycle::Lifecycle;
use crate::handler::timing::AskPause;
use crate::object::body::Body;
use crate::object::event::EventType;
use crate::object::resource::Resource;
use crate::reaction::background::{BackgroundMemory, Times};
use crate::reaction::judge::Judge;
use crate::reaction::memory::ObjectMemory;
use crate::state::Persistence;

/// The input of a plan.
pub(crate) struct Input<'a> {
    /// The handlers whose selector matches the resource, in the order of declaration.
    pub(crate) handlers: &'a [Arc<Handler>],
    pub(crate) persistence: &'a Persistence,
    pub(crate) policy: &'a Policy,
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) body: &'a Arc<Body>,
    /// The watch event being handled; `None` for the response to an own write and for a wake-up.
    pub(crate) event: Option<EventType>,
    pub(crate) seen: &'a ObjectMemory,
    /// Its daemons and timers, if it has any.
    pub(crate) background: Option<&'a BackgroundMemory>,
    /// True if daemons and timers are no longer called, because the operator stops or the object is not watched. They then leave the
    /// finalizer of a living object unchanged.
    pub(crate) background_is_over: bool,
    pub(crate) surroundings: &'a CauseContext,
    /// True if another client adds the finalizer again and again: it then stays as long as the object lives.
    pub(crate) finalizer_is_contested: bool,
    /// Deletion handlers of this resource that are not served now: objects that wait for them keep the finalizer.
    pub(crate) withheld: &'a [Arc<Handler>],
    /// Handlers that must not be called for the object while it is in certain states.
    pub(crate) suspended: &'a [Suspension],
    /// Evaluates users' functions that return durations.
    pub(crate) ask_pause: AskPause,
    pub(crate) now: Timestamp,
    /// The lead of the wall clock over `now`, after it was adjusted or the machine was suspended.
    pub(crate) wall_ahead: SignedDuration,
    /// A random number in `0.0..1.0` for jitter and random lifecycles.
    pub(crate) random: f64,
}

/// The permission to call a handler for the current object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Callable,
    /// Its attempts have keys, and the object lacks the record from which they are derived.
    AwaitsRecord,
    Suspended,
    /// It was suspended, and the object has changed since: its timeout restarts.
    Released,
}

/// The operator's settings for picking and retrying handlers.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) lifecycle: Lifecycle,
    /// The first and longest delay after arbitrary errors of handlers without `backoff`. The delay doubles, with jitter.
    pub(crate) backoff: (Duration, Duration),
    /// The reporting interval for daemons that do not end, unless they specify one.
    pub(crate) cancellation_polling: Duration,
    /// True if the outcomes of change handlers are shown as conditions.
    pub(crate) shows_outcomes: bool,
    /// True if the first calls of timers for existing objects are spread over time at the start of the operator.
    pub(crate) spreads_first_calls: bool,
}

impl Input<'_> {
    /// Returns the clocks for daemons and timers.
    pub(super) fn times(&self) -> Times {
        let judge = Judge { now: self.now, backoff: self.policy.backoff, random: self.random };
        Times { judge, wall_ahead: self.wall_ahead, ask: self.ask_pause }
    }

    /// Returns whether the handler may be called for the current object.
    pub(super) fn standing(&self, handler: &Handler) -> Standing {
        let is_of_handler = |it: &&Suspension| it.handler == handler.id;
        let mut of_handler = self.suspended.iter().filter(is_of_handler).peekable();
        if of_handler.peek().is_none() {
            return Standing::Callable;
        }
        let state = state_for(self.persistence, handler, self.body);
        if of_handler.any(|it| it.state == state) { Standing::Suspended } else { Standing::Released }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            lifecycle: Lifecycle::default(),
            backoff: (Duration::from_secs(1), Duration::from_secs(60)),
            cancellation_polling: Duration::from_secs(60),
            shows_outcomes: false,
            spreads_first_calls: true,
        }
    }
}

/// One handler that is suspended for one object, because each call of it has ended the process, while the object is in `state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suspension {
    /// The handler's id.
    pub(crate) handler: Arc<str>,
    pub(crate) state: String,
}

/// Returns a digest of the object's state that may have crashed functions on the operator's own thread, without calling any users' storages.
/// Deletion is excluded, because the same functions run for it.
pub(crate) fn state_for_functions(persistence: &Persistence, body: &Body) -> String {
    persistence.plain_essence_of(body).digest().to_owned()
}

/// Returns a digest of the object's state that may have crashed a handler: its essence, and whether it is being deleted.
pub(crate) fn state_for(persistence: &Persistence, handler: &Handler, body: &Body) -> String {
    let essence = persistence.essence_of(body, handler.field());
    let deletion = if body.is_deleting() { "-deleting" } else { "" };
    format!("{}{deletion}", essence.digest())
}
