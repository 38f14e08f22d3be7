//! From what is seen to what is to be called.

use std::sync::Arc;

use jiff::Timestamp;

use crate::handler::cause::{Cause, EventType, Surroundings};
use crate::handler::decl::Handler;
use crate::object::body::Body;
use crate::object::resource::Resource;
use crate::reaction::settle::Line;
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
    pub(crate) seen: &'a Seen,
    pub(crate) surroundings: &'a Surroundings,
    pub(crate) now: Timestamp,
    /// A random number in `0.0..1.0`, for jitter and random lifecycles.
    pub(crate) chance: f64,
}

/// How handlers are picked and retried, as the operator's settings say.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) lifecycle: Lifecycle,
    /// First and longest delay after arbitrary errors of handlers without `backoff`; doubled in between, with jitter.
    pub(crate) backoff: (std::time::Duration, std::time::Duration),
}

/// Which of the due handlers run in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifecycle {
    /// The one with the fewest attempts. The default.
    #[default]
    Asap,
    /// The first one.
    OneByOne,
    /// All of them, one after another.
    AllAtOnce,
}

/// The few facts of an object that live in memory. Opaque to the engine: made by [`Seen::first`], replaced by what `settle` gives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Whether the first event of this object came from a listing.
    pub(crate) listed: bool,
    /// Whether some cycle of it has been finished in this process.
    pub(crate) handled_once: bool,
}

/// What to do now. Calls are made in order: first `watching`, then `changing`.
pub(crate) struct Plan {
    /// Log lines to write before the calls.
    pub(crate) lines: Vec<Line>,
    /// Raw-event handlers: each is called once, its failure only logged.
    pub(crate) watching: Vec<Cause>,
    /// Changing handlers that are due and picked.
    pub(crate) changing: Vec<Cause>,
}

impl Seen {
    /// What is known of an object after its first event.
    pub(crate) fn first(event: EventType) -> Self {
        Self {
            listed: event == EventType::Listed,
            ..Self::default()
        }
    }
}

/// Detect the cause, pick the due calls, decide on the finalizer.
pub(crate) fn plan(input: &Input<'_>) -> Plan {
    let _ = input;
    todo!("core")
}
