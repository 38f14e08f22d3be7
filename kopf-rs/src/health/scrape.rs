//! Answers a scrape with counted metrics and with current values from the board and from the process.
//!
//! Uses no other runtime, so that an operator with a blocked main thread can still be scraped. Serves one scrape at a time, and briefly
//! caches facts that require an iteration over all objects.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_rs_schedule::HandlerKind;
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::time::Instant;

use crate::health::board::{Board, LeaseFacts, Listing, Phase, WatchFacts};
use crate::health::checks::Facts;
use crate::health::process::Process;
use crate::health::responder::look;
use crate::metrics::counted::Counted;
use crate::metrics::exposition::Format;
use crate::metrics::labels;
use crate::metrics::own::Metrics;
use crate::metrics::reading::Readings;
use crate::rt::clock::Clock;

/// Facts are cached for this long.
const SEEN: Duration = Duration::from_millis(100);

/// Builds the text of a scrape.
#[derive(Debug)]
pub(crate) struct Scraper {
    setup: ScraperSetup,
    /// Locked during a scrape.
    seen: Mutex<Option<(Instant, Arc<Seen>)>>,
}

/// The sources of the metrics.
pub(crate) struct ScraperSetup {
    pub(crate) operator: String,
    pub(crate) counted: Arc<Counted>,
    pub(crate) own: Metrics,
    pub(crate) board: Board,
    /// The runtimes of the operator, by name.
    pub(crate) runtimes: Vec<(&'static str, Handle)>,
}

/// Facts that require an iteration over all objects.
struct Seen {
    facts: Facts,
    daemons: BTreeMap<Arc<str>, u32>,
    timers: BTreeMap<Arc<str>, u32>,
}

impl Scraper {
    pub(crate) fn new(setup: ScraperSetup) -> Self {
        Self { setup, seen: Mutex::default() }
    }

    /// Returns all metrics as text.
    pub(crate) fn text(&self, format: Format) -> Result<String, fmt::Error> {
        let ScraperSetup { counted, own, .. } = &self.setup;
        let mut latest = self.seen.lock();
        let fresh = latest.take().filter(|(at, _)| at.elapsed() < SEEN);
        let (at, seen) = fresh.unwrap_or_else(|| (Instant::now(), Arc::new(self.look())));
        *latest = Some((at, seen.clone()));
        for watch in &seen.facts.watches {
            counted.serves(&watch.collection.resource);
        }
        let now = WallTime::now();
        let mut readings = Readings::default();
        self.read_operator(&mut readings, &seen);
        if let Some(lease) = &seen.facts.operator.lease {
            read_lease(&mut readings, lease, now);
        }
        read_watches(&mut readings, &seen.facts, now);
        read_queue(&mut readings, &seen.facts, now);
        self.read_handlers(&mut readings, &seen, now);
        self.read_process(&mut readings);
        let readings = readings.registry();
        own.with_registry(|own| format.write(&[counted.registry(), &readings, own]))
    }

    fn look(&self) -> Seen {
        let facts = look(&self.setup.board);
        let engine = self.setup.board.known().engine.clone();
        let calls = engine.map_or_else(Vec::new, |engine| engine.calls_in_background());
        let none = |reason| {
            let handlers = self.setup.counted.handlers_for(reason);
            handlers.map(|id| (id.clone(), 0)).collect::<BTreeMap<_, _>>()
        };
        let (mut daemons, mut timers) = (none("daemon"), none("timer"));
        timers.extend(none("reconcile"));
        for call in calls {
            let of_kind = match call.handler.kind {
                HandlerKind::Daemon => &mut daemons,
                _ => &mut timers,
            };
            *of_kind.entry(call.handler.id.clone()).or_default() += 1;
        }
        Seen { facts, daemons, timers }
    }

    fn read_operator(&self, readings: &mut Readings, seen: &Seen) {
        let facts = &seen.facts;
        let operator = &self.setup.operator;
        let build = labels![version: env!("CARGO_PKG_VERSION"), operator = operator];
        readings.add("kopf_rs_build_info", "The versions of this program.", [(build, 1.0)]);
        let holds = facts.operator.lease.as_ref().is_none_or(LeaseFacts::is_held);
        let is_active = facts.operator.phase == Phase::Serving && !facts.operator.is_paused && holds;
        let help = "1 if the operator may call handlers: it serves, is not paused, and holds the Lease if it shares one.";
        readings.add_value("kopf_rs_active", help, one_if(is_active));
        let help = "1 if the operator is paused for another one, or because its peering does not exist.";
        readings.add_value("kopf_rs_peering_paused", help, one_if(facts.operator.is_paused));
    }

    fn read_handlers(&self, readings: &mut Readings, seen: &Seen, now: WallTime) {
        let running = self.setup.counted.running();
        let counts = running.iter().map(|(id, calls)| (labels![handler = id], f64::from(calls.count)));
        readings.add("kopf_rs_handler_running", "Running calls of handlers.", counts);
        let help = "Start of the oldest running call; 0 if none runs.";
        let oldest = running.iter().map(|(id, calls)| (labels![handler = id], now.of(calls.oldest)));
        readings.add("kopf_rs_handler_oldest_start_timestamp_seconds", help, oldest);
        let of_kind = |calls: &BTreeMap<Arc<str>, u32>| -> Vec<_> {
            calls.iter().map(|(id, count)| (labels![handler = id], f64::from(*count))).collect()
        };
        readings.add("kopf_rs_daemons", "Running daemons.", of_kind(&seen.daemons));
        let help = "Running calls of timers and reconcile functions.";
        readings.add("kopf_rs_timers", help, of_kind(&seen.timers));
        let indices = seen.facts.indices.iter();
        let keys = indices.map(|it| (labels![index = it.index], amount(it.keys)));
        readings.add("kopf_rs_index_entries", "Keys of indices.", keys);
    }

    fn read_process(&self, readings: &mut Readings) {
        let process = Process::read();
        readings.add_value("process_resident_memory_bytes", "Resident memory.", process.resident);
        readings.add_value("process_virtual_memory_bytes", "Virtual memory.", process.virtually);
        let help = "Start time of the process, since the epoch.";
        readings.add_value("process_start_time_seconds", help, process.begun);
        let help = "Processor time of the process.";
        readings.add_value("process_cpu_seconds_total", help, process.processors);
        readings.add_value("process_open_fds", "Open files.", process.files);
        readings.add_value("process_max_fds", "Maximum number of open files.", process.most_files);
        let of_runtimes = |value: fn(&RuntimeMetrics) -> usize| -> Vec<_> {
            let runtimes = self.setup.runtimes.iter();
            let value = |runtime: &Handle| amount(value(&runtime.metrics()));
            runtimes.map(|(name, runtime)| (labels![runtime: *name], value(runtime))).collect()
        };
        readings.add("tokio_workers", "Threads of a runtime.", of_runtimes(RuntimeMetrics::num_workers));
        let tasks = of_runtimes(RuntimeMetrics::num_alive_tasks);
        readings.add("tokio_alive_tasks", "Tasks of a runtime.", tasks);
        let help = "Tasks in the global queue of a runtime.";
        let waiting = of_runtimes(RuntimeMetrics::global_queue_depth);
        readings.add("tokio_global_queue_depth", help, waiting);
    }
}

impl fmt::Debug for ScraperSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScraperSetup").field("operator", &self.operator).finish_non_exhaustive()
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").finish_non_exhaustive()
    }
}

fn read_lease(readings: &mut Readings, lease: &LeaseFacts, now: WallTime) {
    let of_lease = |value| [(labels![lease = lease.lease], value)];
    let help = "1 if this instance is the leader: it holds the Lease, and its term has not ended.";
    readings.add("kopf_rs_lease_held", help, of_lease(one_if(lease.is_held())));
    let help = "Number of times that this instance has acquired the Lease.";
    readings.add("kopf_rs_lease_transitions_total", help, of_lease(total(lease.terms)));
    let help = "Time when this instance last acquired or renewed the Lease; 0 if it never did.";
    readings.add("kopf_rs_lease_last_renew_timestamp_seconds", help, of_lease(now.of(lease.renewed)));
}

fn read_watches(readings: &mut Readings, facts: &Facts, now: WallTime) {
    let mut kinds: BTreeMap<String, (bool, Instant)> = BTreeMap::new();
    for watch in &facts.watches {
        let name = watch.collection.resource.group_resource();
        let (is_up, heard) = kinds.entry(name).or_insert((true, watch.heard));
        *is_up &= goes_on(watch);
        *heard = (*heard).min(watch.heard);
    }
    let up = kinds.iter().map(|(name, (is_up, _))| (labels![resource = name], one_if(*is_up)));
    let help = "1 if all watches of the resource work, and all objects were listed.";
    readings.add("kopf_rs_watch_up", help, up);
    let heard = kinds.iter().map(|(name, (_, heard))| (labels![resource = name], now.of(Some(*heard))));
    let help = "Time of the last event of the quietest watch of the resource, bookmarks included.";
    readings.add("kopf_rs_watch_last_activity_timestamp_seconds", help, heard);
    let events = facts.counts.iter().flat_map(|(name, counts)| {
        let types = [
            ("LISTED", counts.listed),
            ("ADDED", counts.added),
            ("MODIFIED", counts.modified),
            ("DELETED", counts.deleted),
            ("BOOKMARK", counts.bookmarks),
        ];
        types.map(|(kind, count)| (labels![resource = name, type: kind], total(count)))
    });
    let help = "Events of watches by type; LISTED counts objects of listings.";
    readings.add("kopf_rs_watch_events_total", help, events);
    let listings = facts.counts.iter();
    let listings = listings.map(|(name, counts)| (labels![resource = name], total(counts.listings)));
    readings.add("kopf_rs_watch_listings_total", "Started listings.", listings);
    let restarts = facts.counts.iter().flat_map(|(name, counts)| {
        let reasons = [("failure", counts.failures), ("silence", counts.silences)];
        reasons.map(|(reason, count)| (labels![resource = name, reason: reason], total(count)))
    });
    let help = "Watches that failed, or were renewed after a silence.";
    readings.add("kopf_rs_watch_restarts_total", help, restarts);
}

fn read_queue(readings: &mut Readings, facts: &Facts, now: WallTime) {
    let queue = &facts.queue;
    let objects = facts.counts.keys().map(|name| {
        let count = queue.kinds.get(name).copied().unwrap_or_default();
        (labels![resource = name], amount(count))
    });
    readings.add("kopf_rs_objects", "Objects that the operator knows.", objects);
    let help = "Objects with a state that waits for a worker.";
    readings.add_value("kopf_rs_queue_depth", help, amount(queue.waiting));
    let help = "Objects with a worker, including those that wait for the next attempt.";
    readings.add_value("kopf_rs_objects_busy", help, amount(queue.busy));
    let help = "Resting objects with a due time, for timers and reconcile functions.";
    readings.add_value("kopf_rs_wakeups_pending", help, amount(queue.timers));
    let help = "Arrival of the state that has waited longest; 0 if none waits.";
    let since = queue.oldest.as_ref().map(|oldest| oldest.since);
    readings.add_value("kopf_rs_queue_oldest_timestamp_seconds", help, now.of(since));
}

fn goes_on(watch: &WatchFacts) -> bool {
    watch.trouble.is_none() && !watch.is_silent && watch.listing == Listing::Complete
}

fn one_if(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

fn amount(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Converts a count. Exact up to 2 to the power of 53, like all values in Prometheus.
fn total(count: u64) -> f64 {
    const HALF: f64 = 4_294_967_296.0;
    let (high, low) = (count >> 32, count & u64::from(u32::MAX));
    let part = |it: u64| f64::from(u32::try_from(it).unwrap_or(u32::MAX));
    part(high) * HALF + part(low)
}

/// One time on both clocks.
#[derive(Clone, Copy)]
struct WallTime {
    steady: Instant,
    wall: f64,
}

impl WallTime {
    fn now() -> Self {
        let since_epoch = Clock::start().now().duration_since(Timestamp::UNIX_EPOCH);
        Self { steady: Instant::now(), wall: since_epoch.as_secs_f64() }
    }

    /// Returns seconds since the epoch, or 0 without a time.
    fn of(self, then: Option<Instant>) -> f64 {
        then.map_or(0.0, |then| {
            let ago = self.steady.saturating_duration_since(then);
            self.wall - ago.as_secs_f64()
        })
    }
}
