//! Faults on demand: requests refused, answers lost or late, watches cut, silent, late or repeating themselves.
//!
//! Promise: a fault acts on the requests it matches, in the order they come, and no longer than its handle lives; chance comes
//! from a seed. Must not know the store.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::call::{Call, Verb};
use crate::journal::Entry;

/// Something that goes wrong, and with which requests.
///
/// Without further calls a fault acts on every request (on every watch, for those that concern watches).
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
    /// How likely it is, and the seed of that chance.
    chance: Option<(f64, u64)>,
}

/// A test of a request that is in no answer yet.
type Condition = Arc<dyn Fn(&Entry) -> bool + Send + Sync>;

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Answer(u16, Option<Duration>),
    AnswerAfterWrite(u16),
    DropBefore,
    DropAfter,
    Delay(Duration),
    DelayAnswer(Duration),
    Compact,
    /// By so many seconds.
    JumpClock(i64),
    Stream(StreamAction),
}

/// What goes wrong with a watch that was begun.
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
    /// Whether it is over with its fault, rather than with the watch.
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

    /// Answer with this status code, before anything is written.
    pub fn answer(code: u16) -> Self {
        Self::new(Action::Answer(code, None))
    }

    /// Ask the client to come back later (only for [`Fault::answer`]).
    pub fn retry_after(mut self, delay: Duration) -> Self {
        if let Action::Answer(code, _) = self.action {
            self.action = Action::Answer(code, Some(delay));
        }
        self
    }

    /// Do what was asked, then answer with this status code: the real answer is lost.
    pub fn answer_after_write(code: u16) -> Self {
        Self::new(Action::AnswerAfterWrite(code))
    }

    /// Drop the connection before anything is written.
    pub fn drop_before() -> Self {
        Self::new(Action::DropBefore)
    }

    /// Do what was asked, then drop the connection.
    pub fn drop_after() -> Self {
        Self::new(Action::DropAfter)
    }

    /// Wait this long before doing what was asked.
    pub fn delay(delay: Duration) -> Self {
        Self::new(Action::Delay(delay))
    }

    /// Do what was asked, but answer only after this time.
    pub fn delay_answer(delay: Duration) -> Self {
        Self::new(Action::DelayAnswer(delay))
    }

    /// Forget the history of changes just before doing what was asked, as [`ApiServer::compact`](crate::ApiServer::compact) does.
    pub fn compact() -> Self {
        Self::new(Action::Compact)
    }

    /// Let the server's clock jump by so many seconds, back if negative, just before doing what was asked.
    pub fn jump_clock(seconds: i64) -> Self {
        Self::new(Action::JumpClock(seconds))
    }

    /// End watches at once, those that are open too.
    pub fn cut() -> Self {
        Self::cut_after(0)
    }

    /// End watches after so many events.
    pub fn cut_after(events: usize) -> Self {
        Self::new(Action::Stream(StreamAction::CutAfter(events)))
    }

    /// Keep watches open and say nothing on them, those that are open too.
    pub fn stall() -> Self {
        Self::new(Action::Stream(StreamAction::Stall))
    }

    /// Break the connections of watches, those that are open too.
    pub fn reset() -> Self {
        Self::new(Action::Stream(StreamAction::Reset))
    }

    /// Send an error event 410 on watches, those that are open too, and end them.
    pub fn gone() -> Self {
        Self::new(Action::Stream(StreamAction::Gone))
    }

    /// Deliver each event on watches this much later, on those that are open too; their order stays. Of one kind only, it comes after
    /// later events of the others. When the fault ends, what is still held back comes at once.
    pub fn late(delay: Duration) -> Self {
        Self::new(Action::Stream(StreamAction::Late(delay)))
    }

    /// Send each event on watches twice, on those that are open too.
    pub fn repeat() -> Self {
        Self::new(Action::Stream(StreamAction::Repeat))
    }

    /// Only requests with this verb.
    pub fn on(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Only requests with this HTTP method.
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// Only requests to this API group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Only requests to this resource, by plural.
    pub fn plural(mut self, plural: impl Into<String>) -> Self {
        self.plural = Some(plural.into());
        self
    }

    /// Only requests in this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only requests to the object of this name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only requests to this subresource; an empty one means the objects themselves.
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresource = Some(subresource.into());
        self
    }

    /// Only requests that this accepts: of the entry, everything is there that comes from the request.
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

    /// Act by chance: on this share of the matching requests, from 0 to 1. The same seed decides the same for the same
    /// sequence of requests.
    pub fn chance(mut self, share: f64, seed: u64) -> Self {
        self.chance = Some((share, seed));
        self
    }

    /// Begin with the nth matching request, counted from 1.
    pub fn nth(mut self, nth: usize) -> Self {
        self.first = nth.max(1);
        self
    }

    /// Act so many times, then never again.
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

/// A fault that was given to the server.
#[derive(Debug)]
struct Armed {
    id: u64,
    fault: Fault,
    seen: usize,
    /// The state of the chance.
    dice: u64,
    hits: Arc<AtomicUsize>,
}

// === impl Armed ===

impl Armed {
    /// Count a matching request; whether the fault acts on it.
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

    /// A number from 0 to 1.
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

/// A fault in force. Dropping it ends the fault.
#[derive(Debug)]
#[must_use = "the fault ends when its handle is dropped"]
pub struct FaultHandle {
    id: u64,
    hits: Arc<AtomicUsize>,
    faults: Faults,
}

// === impl FaultHandle ===

impl FaultHandle {
    /// How often the fault acted so far.
    #[must_use]
    pub fn hits(&self) -> usize {
        self.hits.load(Ordering::Relaxed)
    }

    /// End the fault.
    pub fn clear(self) {
        drop(self);
    }
}

impl Drop for FaultHandle {
    fn drop(&mut self) {
        self.faults.disarm(self.id);
    }
}

/// All faults in force.
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

    /// The faults of a request that comes in, in the order they were given.
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

    /// The next fault of a watch that is open, of those given after `seen`, which moves on.
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
        // A panic elsewhere leaves the list whole: every change is a single push or retain.
        self.shared
            .armed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
