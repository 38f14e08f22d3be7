//! Fault injection: rejected requests, lost or delayed responses, and watches that are cut, stall, lag or repeat events.
//!
//! A fault acts on matching requests in their order of arrival, and no longer than its handle lives. Randomness comes
//! from a seed. Independent of the store.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::call::{Call, Verb};
use crate::journal::Entry;

/// A fault, and the requests that it acts on.
///
/// Without filters a fault acts on every request, or on every watch if it concerns watches.
///
/// ```
/// use kopf_rs_apiserver::{ApiServer, Fault, Verb};
///
/// let server = ApiServer::new();
/// // The second and the third patch of that object are refused.
/// let fault = server.fault(Fault::answer(409).on(Verb::Patch).plural("myapps").name("x").nth(2).times(2));
/// assert_eq!(fault.hits(), 0);
/// ```
#[derive(Clone)]
#[must_use = "a fault acts only once it was given to `ApiServer::fault`"]
pub struct Fault {
    action: Action,
    verb: Option<Verb>,
    method: Option<String>,
    group: Option<String>,
    plural: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    when: Option<Condition>,
    first: usize,
    times: Option<usize>,
    /// The probability and the seed.
    chance: Option<(f64, u64)>,
}

/// A filter on the request part of a journal entry.
type Condition = Arc<dyn Fn(&Entry) -> bool + Send + Sync>;

/// The effect of a fault on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Answer(u16, Option<Duration>),
    AnswerAfterWrite(u16),
    DropBefore,
    DropAfter,
    Delay(Duration),
    DelayAnswer(Duration),
    Compact,
    /// In seconds.
    JumpClock(i64),
    Stream(StreamAction),
}

/// The effect of a fault on a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamAction {
    CutAfter(usize),
    Stall,
    Reset,
    Gone,
    Late(Duration),
    Repeat,
}

// === impl StreamAction ===

impl StreamAction {
    /// Returns true if the effect ends with the fault rather than with the watch.
    pub(crate) const fn is_state(self) -> bool {
        matches!(self, Self::Stall | Self::Late(_) | Self::Repeat)
    }
}

// === impl Fault ===

impl Fault {
    fn new(action: Action) -> Self {
        Self {
            action,
            verb: None,
            method: None,
            group: None,
            plural: None,
            namespace: None,
            name: None,
            subresource: None,
            when: None,
            first: 1,
            times: None,
            chance: None,
        }
    }

    /// Responds with this status code and writes nothing.
    pub fn answer(code: u16) -> Self {
        Self::new(Action::Answer(code, None))
    }

    /// Adds a `Retry-After` header (only for [`Fault::answer`]).
    pub fn retry_after(mut self, delay: Duration) -> Self {
        if let Action::Answer(code, _) = self.action {
            self.action = Action::Answer(code, Some(delay));
        }
        self
    }

    /// Executes the request, and then responds with this status code, so that the real response is lost.
    pub fn answer_after_write(code: u16) -> Self {
        Self::new(Action::AnswerAfterWrite(code))
    }

    /// Drops the connection before anything is written.
    pub fn drop_before() -> Self {
        Self::new(Action::DropBefore)
    }

    /// Executes the request, and then drops the connection.
    pub fn drop_after() -> Self {
        Self::new(Action::DropAfter)
    }

    /// Waits before it executes the request.
    pub fn delay(delay: Duration) -> Self {
        Self::new(Action::Delay(delay))
    }

    /// Executes the request, but delays the response.
    pub fn delay_answer(delay: Duration) -> Self {
        Self::new(Action::DelayAnswer(delay))
    }

    /// Discards the history of changes just before the request runs, as [`ApiServer::compact`](crate::ApiServer::compact) does.
    pub fn compact() -> Self {
        Self::new(Action::Compact)
    }

    /// Moves the server's clock by `seconds`, back if negative, just before the request runs.
    pub fn jump_clock(seconds: i64) -> Self {
        Self::new(Action::JumpClock(seconds))
    }

    /// Ends watches immediately, including open ones.
    pub fn cut() -> Self {
        Self::cut_after(0)
    }

    /// Ends watches after this number of events.
    pub fn cut_after(events: usize) -> Self {
        Self::new(Action::Stream(StreamAction::CutAfter(events)))
    }

    /// Keeps watches open but sends nothing, including on open ones.
    pub fn stall() -> Self {
        Self::new(Action::Stream(StreamAction::Stall))
    }

    /// Breaks the connections of watches, including open ones.
    pub fn reset() -> Self {
        Self::new(Action::Stream(StreamAction::Reset))
    }

    /// Sends an error event 410 on watches, including open ones, and ends them.
    pub fn gone() -> Self {
        Self::new(Action::Stream(StreamAction::Gone))
    }

    /// Delays each event on watches, including open ones, without reordering them. Limited to one kind, its events arrive after
    /// later events of other kinds. When the fault ends, all delayed events are sent at once.
    pub fn late(delay: Duration) -> Self {
        Self::new(Action::Stream(StreamAction::Late(delay)))
    }

    /// Sends each event on watches twice, including on open ones.
    pub fn repeat() -> Self {
        Self::new(Action::Stream(StreamAction::Repeat))
    }

    /// Limits the fault to requests with this verb.
    pub fn on(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Limits the fault to requests with this HTTP method.
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// Limits the fault to requests to this API group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Limits the fault to requests to this resource, by plural.
    pub fn plural(mut self, plural: impl Into<String>) -> Self {
        self.plural = Some(plural.into());
        self
    }

    /// Limits the fault to requests in this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Limits the fault to requests to the object of this name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Limits the fault to requests to this subresource; an empty one means the objects themselves.
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresource = Some(subresource.into());
        self
    }

    /// Limits the fault to requests that the predicate accepts. Only those fields of the entry are set that follow from the request.
    ///
    /// ```
    /// use kopf_rs_apiserver::Fault;
    ///
    /// let by_kubectl = Fault::answer(503).when(|request| {
    ///     request.user_agent.as_deref().is_some_and(|agent| agent.starts_with("kubectl/"))
    /// });
    /// # let _ = by_kubectl;
    /// ```
    pub fn when(mut self, accepts: impl Fn(&Entry) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(accepts));
        self
    }

    /// Limits the fault to a random share of the matching requests, from 0 to 1. The same seed gives the same decisions for the
    /// same sequence of requests.
    pub fn chance(mut self, share: f64, seed: u64) -> Self {
        self.chance = Some((share, seed));
        self
    }

    /// Starts with the nth matching request, counted from 1.
    pub fn nth(mut self, nth: usize) -> Self {
        self.first = nth.max(1);
        self
    }

    /// Limits how often the fault acts.
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    fn matches(&self, call: &Call) -> bool {
        let empty = crate::call::Path::default();
        let path = call.path.as_ref().unwrap_or(&empty);
        let same =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|w| w == found);
        let text = |found: &Option<String>| found.clone().unwrap_or_default();
        self.verb.is_none_or(|verb| verb == call.verb)
            && self
                .method
                .as_deref()
                .is_none_or(|m| call.method.as_str().eq_ignore_ascii_case(m))
            && same(&self.group, &path.group)
            && same(&self.plural, &path.plural)
            && same(&self.namespace, &text(&path.namespace))
            && same(&self.name, &text(&path.name))
            && same(&self.subresource, &text(&path.subresource))
            && self
                .when
                .as_ref()
                .is_none_or(|accepts| accepts(&Entry::of(call)))
    }
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fault")
            .field("action", &self.action)
            .field("verb", &self.verb)
            .field("plural", &self.plural)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// An active fault.
#[derive(Debug)]
struct Armed {
    id: u64,
    fault: Fault,
    seen: usize,
    /// The state of the random number generator.
    dice: u64,
    hits: Arc<AtomicUsize>,
}

// === impl Armed ===

impl Armed {
    /// Counts a matching request; returns true if the fault acts on it.
    fn acts_on(&mut self, call: &Call) -> bool {
        if !self.fault.matches(call) {
            return false;
        }
        self.seen += 1;
        let due = self.seen >= self.fault.first;
        let lucky = match self.fault.chance {
            Some((share, _)) if due => self.throw() < share,
            _ => due,
        };
        let spent = self
            .fault
            .times
            .is_some_and(|times| self.hits.load(Ordering::Relaxed) >= times);
        let acts = lucky && !spent;
        if acts {
            self.hits.fetch_add(1, Ordering::Relaxed);
        }
        acts
    }

    /// Returns a random number from 0 to 1.
    fn throw(&mut self) -> f64 {
        // SplitMix64: <https://prng.di.unimi.it/splitmix64.c>
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.dice;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let top = u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or_default();
        f64::from(top) / f64::from(u32::MAX)
    }
}

/// The handle of an active fault. Dropping it ends the fault.
#[derive(Debug)]
#[must_use = "the fault ends when its handle is dropped"]
pub struct FaultHandle {
    id: u64,
    hits: Arc<AtomicUsize>,
    faults: Faults,
}

// === impl FaultHandle ===

impl FaultHandle {
    /// Returns how often the fault has acted.
    #[must_use]
    pub fn hits(&self) -> usize {
        self.hits.load(Ordering::Relaxed)
    }

    /// Ends the fault.
    pub fn clear(self) {
        drop(self);
    }
}

impl Drop for FaultHandle {
    fn drop(&mut self) {
        self.faults.disarm(self.id);
    }
}

/// All active faults.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    armed: Mutex<(u64, Vec<Armed>)>,
    signal: watch::Sender<()>,
}

// === impl Faults ===

impl Faults {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                armed: Mutex::default(),
                signal: watch::Sender::new(()),
            }),
        }
    }

    pub(crate) fn arm(&self, fault: Fault) -> FaultHandle {
        let hits = Arc::<AtomicUsize>::default();
        let mut armed = self.armed();
        armed.0 += 1;
        let id = armed.0;
        let dice = fault.chance.map_or(0, |(_, seed)| seed);
        armed.1.push(Armed {
            id,
            fault,
            seen: 0,
            dice,
            hits: hits.clone(),
        });
        drop(armed);
        self.shared.signal.send_replace(());
        FaultHandle {
            id,
            hits,
            faults: self.clone(),
        }
    }

    /// Returns the actions for a new request, in the order in which their faults were added.
    pub(crate) fn of_request(&self, call: &Call) -> Vec<Action> {
        let mut armed = self.armed();
        let requests = armed
            .1
            .iter_mut()
            .filter(|a| !matches!(a.fault.action, Action::Stream(_)));
        requests
            .filter_map(|armed| armed.acts_on(call).then_some(armed.fault.action))
            .collect()
    }

    /// Returns the next action for an open watch, from faults added after `seen`, and advances `seen`.
    pub(crate) fn of_stream(&self, call: &Call, seen: &mut u64) -> Option<(u64, StreamAction)> {
        let mut armed = self.armed();
        let before = *seen;
        for armed in armed.1.iter_mut().filter(|armed| armed.id > before) {
            *seen = armed.id;
            if let Action::Stream(action) = armed.fault.action
                && armed.acts_on(call)
            {
                return Some((armed.id, action));
            }
        }
        None
    }

    pub(crate) fn is_armed(&self, id: u64) -> bool {
        self.armed().1.iter().any(|armed| armed.id == id)
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.shared.signal.subscribe()
    }

    fn disarm(&self, id: u64) {
        self.armed().1.retain(|armed| armed.id != id);
        self.shared.signal.send_replace(());
    }

    fn armed(&self) -> MutexGuard<'_, (u64, Vec<Armed>)> {
        // A panic elsewhere leaves the list consistent: every change is a single push or retain.
        self.shared
            .armed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
