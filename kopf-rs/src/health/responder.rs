//! Answers what the listener asks, on the operator's own runtime and under its time.
//!
//! That it answers at all says that the runtime goes on. Must not know HTTP.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::health::board::{Board, Phase};
use crate::health::checks::{Check, Facts};
use crate::health::probes::{Probed, Prober};
use crate::health::status::status;

/// Results of probes are good for so long, as in Kopf.
const FRESH: Duration = Duration::from_secs(10);

/// What is asked, and where the answer goes.
pub(super) enum Ask {
    Beat(oneshot::Sender<()>),
    Live(oneshot::Sender<Vec<Check>>),
    Ready(oneshot::Sender<Vec<Check>>),
    Status(oneshot::Sender<Value>),
    /// `None` while startup handlers are called: probes may need what these make.
    Probes(oneshot::Sender<Option<Arc<Probed>>>),
}

/// Where to ask. Clones ask the same responder.
#[derive(Clone)]
pub(crate) struct Desk(UnboundedSender<Ask>);

/// Answers. Runs for as long as anybody may ask.
pub(crate) struct Responder {
    asks: UnboundedReceiver<Ask>,
    board: Board,
    /// `None` while it collects.
    prober: Option<Prober>,
    collecting: Option<BoxFuture<'static, (Prober, Probed)>>,
    waiting: Vec<oneshot::Sender<Option<Arc<Probed>>>>,
    probed: Option<(Instant, Arc<Probed>)>,
}

impl Desk {
    /// Ask; where nobody is there any more, the answer never comes.
    pub(super) fn ask(&self, ask: Ask) {
        let _ = self.0.send(ask);
    }
}

impl Responder {
    pub(crate) fn new(board: Board, prober: Prober) -> (Desk, Self) {
        let (desk, asks) = unbounded_channel();
        let responder = Self {
            asks,
            board,
            prober: Some(prober),
            collecting: None,
            waiting: Vec::new(),
            probed: None,
        };
        (Desk(desk), responder)
    }

    /// Answer until nobody can ask any more.
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
                ask = self.asks.recv() => match ask {
                    Some(ask) => self.answer(ask),
                    None => return,
                },
                (prober, found) = collected => self.collected(prober, found),
            }
        }
    }

    /// Who has asked may have gone meanwhile.
    fn answer(&mut self, ask: Ask) {
        let now = Instant::now();
        match ask {
            Ask::Beat(answer) => drop(answer.send(())),
            Ask::Live(answer) => drop(answer.send(self.facts().live(now))),
            Ask::Ready(answer) => drop(answer.send(self.facts().ready(now))),
            Ask::Status(answer) => {
                let facts = self.facts();
                drop(answer.send(status(&self.board.known(), &facts, now)));
            }
            Ask::Probes(answer) => self.probe(answer),
        }
    }

    fn probe(&mut self, answer: oneshot::Sender<Option<Arc<Probed>>>) {
        if self.board.known().phase == Phase::Starting {
            drop(answer.send(None));
            return;
        }
        if let Some((at, probed)) = &self.probed
            && at.elapsed() < FRESH
        {
            drop(answer.send(Some(probed.clone())));
            return;
        }
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
        // A failure is no answer to whoever asks later.
        self.probed = is_well.then(|| (Instant::now(), found.clone()));
        for answer in self.waiting.drain(..) {
            drop(answer.send(Some(found.clone())));
        }
    }

    fn facts(&self) -> Facts {
        let known = self.board.known();
        let engine = known.engine.as_ref();
        let calls = engine.map(Engine::calls_in_flight).unwrap_or_default();
        Facts {
            bounds: known.bounds,
            phase: known.phase,
            discovered: known.discovered,
            knows_namespaces: known.knows_namespaces,
            unserved: known.unserved.clone(),
            watches: known.watches(),
            queue: engine.map(|it| it.queue_facts(&calls)).unwrap_or_default(),
            calls,
        }
    }
}
