//! Everything a plan depends on.

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
use crate::reaction::member::Standing;
use crate::reaction::memory::ObjectMemory;
use crate::reaction::suspension::{Suspension, state_for};
use crate::state::Persistence;

/// Everything a plan depends on.
pub(crate) struct Input<'a> {
    /// The handlers whose selector matches the resource, in order of declaration.
    pub(crate) handlers: &'a [Arc<Handler>],
    pub(crate) persistence: &'a Persistence,
    pub(crate) policy: &'a Policy,
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) body: &'a Arc<Body>,
    /// The watch event being handled; `None` for the reply of an own write and for a wake-up.
    pub(crate) event: Option<EventType>,
    pub(crate) seen: &'a ObjectMemory,
    /// Its daemons and timers, where it has any.
    pub(crate) background: Option<&'a BackgroundMemory>,
    /// Daemons and timers are not called any more, since the operator stops or the object is not watched: for their sake the finalizer of a
    /// living object stays as it is.
    pub(crate) background_is_over: bool,
    pub(crate) surroundings: &'a CauseContext,
    /// Somebody else puts the finalizer on again and again: it is left where it is as long as the object lives.
    pub(crate) finalizer_is_contested: bool,
    /// Deletion handlers of this resource that are not served now: objects that wait for them keep the finalizer.
    pub(crate) withheld: &'a [Arc<Handler>],
    /// Handlers that are not to be called for the object as long as it is in a certain state.
    pub(crate) suspended: &'a [Suspension],
    /// Asks functions of users for spans of time.
    pub(crate) ask_pause: AskPause,
    pub(crate) now: Timestamp,
    /// How far the wall clock is ahead of `now`: it was set since the process began, or the machine was suspended.
    pub(crate) wall_ahead: SignedDuration,
    /// A random number in `0.0..1.0`, for jitter and random lifecycles.
    pub(crate) random: f64,
}

/// How handlers are picked and retried, as the operator's settings say.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) lifecycle: Lifecycle,
    /// First and longest delay after arbitrary errors of handlers without `backoff`; doubled in between, with jitter.
    pub(crate) backoff: (Duration, Duration),
    /// How often is told of daemons that run on, where they do not say.
    pub(crate) cancellation_polling: Duration,
    /// The outcome of handlers of changes is shown as conditions.
    pub(crate) shows_outcomes: bool,
    /// First calls of timers, for the objects that the operator finds when it starts, are not all made at once.
    pub(crate) spreads_first_calls: bool,
}

impl Input<'_> {
    /// When it is for daemons and timers.
    pub(super) fn times(&self) -> Times {
        Times {
            now: self.now,
            wall_ahead: self.wall_ahead,
            ask: self.ask_pause,
        }
    }

    /// Whether the handler may be called for the object as it is.
    pub(super) fn standing(&self, handler: &Handler) -> Standing {
        let is_of_handler = |it: &&Suspension| it.handler == handler.id;
        let mut of_handler = self.suspended.iter().filter(is_of_handler).peekable();
        if of_handler.peek().is_none() {
            return Standing::Callable;
        }
        let state = state_for(self.persistence, handler, self.body);
        if of_handler.any(|it| it.state == state) {
            Standing::Suspended
        } else {
            Standing::Released
        }
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
