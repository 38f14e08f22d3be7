//! Answers the listener's requests on the operator's own runtime and in its time.
//!
//! A response also proves that the runtime is running. Must not know HTTP.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::health::board::{Board, Phase};
use crate::health::checks::{Check, Facts};
use crate::health::probes::{Probed, Prober};
use crate::health::status::{status, status_of};

/// Results of probes are cached for this long, as in Kopf.
const FRESH: Duration = Duration::from_secs(10);
/// Facts are cached for this long, because collecting them iterates over all objects, and every client may request them.
const SEEN: Duration = Duration::from_secs(1);
/// The maximum number of queued requests; further clients wait.
const WAITING: usize = 16;

/// A request: a function that the responder calls.
type Ask = Box<dyn FnOnce(&mut Responder) + Send>;

/// The results of all probes; `None` while startup handlers run, because probes may need their results.
pub(super) type AllProbed = Option<Arc<Probed>>;

/// The channel for requests. Clones use the same responder.
#[derive(Clone)]
pub(crate) struct Desk {
    asks: Sender<Ask>,
    /// Liveness messages, separate from requests: however many of those are queued, one message checks that the runtime is running.
    beats: Sender<oneshot::Sender<()>>,
}

/// Answers requests. Runs as long as there are clients.
pub(crate) struct Responder {
    asks: Receiver<Ask>,
    beats: Receiver<oneshot::Sender<()>>,
    board: Board,
    seen: Option<(Instant, Facts)>,
    /// `None` while it collects.
    prober: Option<Prober>,
    collecting: Option<BoxFuture<'static, (Prober, Probed)>>,
    waiting: Vec<oneshot::Sender<AllProbed>>,
    probed: Option<(Instant, Arc<Probed>)>,
}

impl Desk {
    /// Returns what the function returns for the responder; `None` if the responder is gone.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        function: impl FnOnce(&mut Responder) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        // The client may be gone already.
        let ask: Ask = Box::new(move |responder| drop(answer.send(function(responder))));
        self.asks.send(ask).await.ok()?;
        answered.await.ok()
    }

    /// Returns the results of all probes; `None` if the responder is gone.
    pub(super) async fn probes(&self) -> Option<AllProbed> {
        let (answer, answered) = oneshot::channel();
        self.ask(|responder| responder.probe(answer)).await?;
        answered.await.ok()
    }

    /// Checks that the runtime is running. The next message is sent after this one is answered.
    pub(super) fn beat(&self, answer: oneshot::Sender<()>) {
        let _ = self.beats.try_send(answer);
    }
}

impl Responder {
    pub(crate) fn new(board: Board, prober: Prober) -> (Desk, Self) {
        let (asks, asked) = channel(WAITING);
        let (beats, beaten) = channel(1);
        let responder = Self {
            asks: asked,
            beats: beaten,
            board,
            seen: None,
            prober: Some(prober),
            collecting: None,
            waiting: Vec::new(),
            probed: None,
        };
        (Desk { asks, beats }, responder)
    }

    /// Answers requests until all clients are gone.
    pub(crate) async fn run(mut self) {
        loop {
            let collected = async {
                match &mut self.collecting {
                    Some(collecting) => collecting.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(beat) = self.beats.recv() => drop(beat.send(())),
                ask = self.asks.recv() => match ask {
                    Some(ask) => ask(&mut self),
                    None => return,
                },
                (prober, found) = collected => self.collected(prober, found),
            }
        }
    }

    pub(super) fn live(&mut self) -> Vec<Check> {
        let now = Instant::now();
        self.facts(now).live(now)
    }

    pub(super) fn ready(&mut self) -> Vec<Check> {
        let now = Instant::now();
        self.facts(now).ready(now)
    }

    /// Returns the check whether reviews should be sent to this instance. It bypasses the cache, because each second counts after SIGTERM.
    pub(super) fn webhooks(&mut self) -> Vec<Check> {
        look(&self.board).webhooks()
    }

    /// Returns the status of the operator, or of the object with this uid.
    pub(super) fn status(&mut self, uid: Option<&str>) -> Value {
        let (now, board) = (Instant::now(), self.board.clone());
        let facts = self.facts(now);
        let known = board.known();
        match uid {
            Some(uid) => status_of(&known, facts, uid, now),
            None => status(&known, facts, now),
        }
    }

    fn probe(&mut self, answer: oneshot::Sender<AllProbed>) {
        if self.board.known().operator.phase == Phase::Starting {
            drop(answer.send(None));
            return;
        }
        if let Some((at, probed)) = &self.probed
            && at.elapsed() < FRESH
        {
            drop(answer.send(Some(probed.clone())));
            return;
        }
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting.push(answer);
        if let Some(mut prober) = self.prober.take() {
            let bound = self.board.bounds().probes;
            let collecting = async move {
                let probed = prober.collect(bound).await;
                (prober, probed)
            };
            self.collecting = Some(collecting.boxed());
        }
    }

    fn collected(&mut self, prober: Prober, found: Probed) {
        self.collecting = None;
        self.prober = Some(prober);
        let found = Arc::new(found);
        let is_well = found.checks.iter().all(|check| check.trouble.is_none());
        // A failure is not cached for later requests.
        self.probed = is_well.then(|| (Instant::now(), found.clone()));
        for answer in self.waiting.drain(..) {
            drop(answer.send(Some(found.clone())));
        }
    }

    /// Returns recent facts, possibly from the cache.
    fn facts(&mut self, now: Instant) -> &Facts {
        let seen = self.seen.take();
        let is_fresh = |at: &Instant| now.saturating_duration_since(*at) < SEEN;
        let seen = seen.filter(|(at, _)| is_fresh(at));
        let (_, facts) = self.seen.insert(seen.unwrap_or_else(|| (now, look(&self.board))));
        facts
    }
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
