//! Answers the listener's requests on the operator's own runtime and in its time.
//!
//! A response also proves that the runtime is running. This module must not depend on HTTP.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::engine::Engine;
use crate::health::board::{Board, Phase};
use crate::health::checks::{Check, Facts};
use crate::health::probes::{Probed, Prober};
use crate::health::status::{status, status_of};

/// Results of probes are cached for this long, as in Kopf.
const FRESH: Duration = Duration::from_secs(10);
/// Facts are cached for this long, because collecting them iterates over all objects, and every client may request them.
const SEEN: Duration = Duration::from_secs(1);

/// The maximum number of requests that wait for the runtime, which may be blocked while clients go on asking.
const WAITING: usize = 16;

/// Answers requests.
pub(crate) struct Responder {
    /// The operator's own runtime.
    pub(super) runtime: Handle,
    pub(super) board: Board,
    places: Arc<Semaphore>,
    seen: Mutex<Option<(Instant, Arc<Facts>)>>,
    prober: Arc<tokio::sync::Mutex<Prober>>,
    /// The last calls of all probes. They go on without the clients that wait for them.
    probing: Mutex<Option<Probing>>,
}

/// The results of all probes; `None` while startup handlers run, because probes may need their results.
pub(super) type AllProbed = Option<Arc<Probed>>;

/// Calls of all probes: the results, with the time of the end; `None` if the runtime has ended.
type Probing = Shared<BoxFuture<'static, Option<(Instant, Arc<Probed>)>>>;

impl Responder {
    pub(crate) fn new(runtime: Handle, board: Board, prober: Prober) -> Arc<Self> {
        let prober = Arc::new(tokio::sync::Mutex::new(prober));
        let places = Arc::new(Semaphore::new(WAITING));
        Arc::new(Self { runtime, board, places, seen: Mutex::default(), prober, probing: Mutex::default() })
    }

    /// Returns what the function returns on the operator's runtime; `None` if that has ended.
    pub(super) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        function: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let responder = self.clone();
        run_on(&self.runtime, &self.places, move || function(&responder)).await
    }

    pub(super) fn live(&self) -> Vec<Check> {
        let now = Instant::now();
        self.facts(now).live(now)
    }

    pub(super) fn ready(&self) -> Vec<Check> {
        let now = Instant::now();
        self.facts(now).ready(now)
    }

    /// Returns the check whether reviews should be sent to this instance. It bypasses the cache, because each second counts after SIGTERM.
    pub(super) fn webhooks(&self) -> Vec<Check> {
        look(&self.board).webhooks()
    }

    /// Returns the status of the operator, or of the object with this uid.
    pub(super) fn status(&self, uid: Option<&str>) -> Value {
        let now = Instant::now();
        let facts = self.facts(now);
        let known = self.board.known();
        match uid {
            Some(uid) => status_of(&known, &facts, uid, now),
            None => status(&known, &facts, now),
        }
    }

    /// Returns the results of all probes: from the cache, from calls that are in progress, or from new ones; `None` if the runtime has ended.
    pub(super) async fn probes(self: &Arc<Self>) -> Option<AllProbed> {
        match self.ask(Self::probing).await? {
            Some(probing) => probing.await.map(|(_, probed)| Some(probed)),
            None => Some(None),
        }
    }

    fn probing(&self) -> Option<Probing> {
        if self.board.known().operator.phase == Phase::Starting {
            return None;
        }
        let mut last = self.probing.lock();
        // A failure is not cached for later requests.
        let is_usable = |(at, probed): &(Instant, Arc<Probed>)| {
            at.elapsed() < FRESH && probed.checks.iter().all(|check| check.trouble.is_none())
        };
        // In progress, or usable.
        let is_awaited = |probing: &&Probing| {
            let ended = (*probing).clone().now_or_never();
            ended.is_none_or(|ended| ended.as_ref().is_some_and(is_usable))
        };
        if let Some(probing) = last.as_ref().filter(is_awaited) {
            return Some(probing.clone());
        }
        let (prober, bound) = (self.prober.clone(), self.board.bounds().probes);
        let collected = AbortOnDropHandle::new(tokio::spawn(async move {
            let results = Arc::new(prober.lock().await.collect(bound).await);
            (Instant::now(), results)
        }));
        Some(last.insert(collected.map(Result::ok).boxed().shared()).clone())
    }

    /// Returns recent facts, possibly from the cache.
    pub(super) fn facts(&self, now: Instant) -> Arc<Facts> {
        let mut seen = self.seen.lock();
        match &*seen {
            Some((at, facts)) if now.saturating_duration_since(*at) < SEEN => facts.clone(),
            _ => seen.insert((now, Arc::new(look(&self.board)))).1.clone(),
        }
    }
}

/// Returns the status of the object with this uid; `None` unless this operator serves objects.
pub(crate) fn status_at(board: &Board, uid: &str) -> Option<Value> {
    let facts = look(board);
    let known = board.known();
    known.engine.is_some().then(|| status_of(&known, &facts, uid, Instant::now()))
}

/// Collects the current facts.
pub(super) fn look(board: &Board) -> Facts {
    let known = board.known();
    let engine = known.engine.as_ref();
    let calls = engine.map(Engine::calls_in_flight).unwrap_or_default();
    Facts {
        operator: known.operator.clone(),
        watches: known.watches(),
        counts: known.counts(),
        indices: engine.map(Engine::index_facts).unwrap_or_default(),
        queue: engine.map(|it| it.queue_facts(&calls)).unwrap_or_default(),
        calls,
    }
}

/// Runs a function on a runtime, for which it waits together with at most as many others as there are places. Returns `None` if the runtime
/// has ended.
async fn run_on<T: Send + 'static>(
    runtime: &Handle,
    places: &Arc<Semaphore>,
    function: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let place = places.clone().acquire_owned().await.ok()?;
    let run = async move {
        let _place = place;
        function()
    };
    runtime.spawn(run).await.ok()
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn requests_do_not_pile_up_on_a_blocked_runtime() {
        let blocked = Builder::new_current_thread().build().unwrap();
        let places = Arc::new(Semaphore::new(WAITING));
        for _ in 0..10 * WAITING {
            // Each client leaves before its answer.
            assert_eq!(run_on(blocked.handle(), &places, || ()).now_or_never(), None);
        }
        assert_eq!(blocked.metrics().num_alive_tasks(), WAITING);
        blocked.block_on(async {
            assert_eq!(run_on(blocked.handle(), &places, || 7).await, Some(7));
        });
    }
}
