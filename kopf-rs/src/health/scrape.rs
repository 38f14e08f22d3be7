//! Answers a scrape with counted metrics and with current values from the board and from the process.
//!
//! Uses no other runtime, so that an operator with a blocked main thread can still be scraped. Serves one scrape at a time, and briefly
//! caches facts that require an iteration over all objects.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kopf_rs_schedule::HandlerKind;
use prometheus_client::registry::Unit;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::health::board::{Board, LeaseFacts, Listing, Phase, WatchFacts};
use crate::health::checks::Facts;
use crate::health::process::Process;
use crate::health::responder::look;
use crate::metrics::Series;
use crate::metrics::counted::Counted;
use crate::metrics::exposition::Format;
use crate::metrics::own::Metrics;
use crate::metrics::reading::{Reading, Readings};
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
        let mut latest = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = latest.take().filter(|(at, _)| at.elapsed() < SEEN);
        let (at, seen) = fresh.unwrap_or_else(|| (Instant::now(), Arc::new(self.look())));
        *latest = Some((at, seen.clone()));
        for watch in &seen.facts.watches {
            counted.serves(&watch.collection.resource);
        }
        let now = WallTime::now();
        let mut readings = Readings::default();
        self.read_operator(&mut readings, &seen);
        if let Some(lease) = &seen.facts.lease {
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
        let mut build = Reading::gauge("kopf_rs_build_info", "What this program is.");
        build.put(
            vec![
                ("version", env!("CARGO_PKG_VERSION").into()),
                ("operator", self.setup.operator.clone().into()),
            ],
            1.0,
        );
        readings.add(build);
        let holds = facts.lease.as_ref().is_none_or(LeaseFacts::is_held);
        let is_active = facts.phase == Phase::Serving && !facts.is_paused && holds;
        let help = "1 where the operator may call handlers now: it serves, is not paused, and holds the Lease if it shares one.";
        readings.add(Reading::gauge("kopf_rs_active", help).of(one_if(is_active)));
        let help = "1 where the operator is paused for another one, or for want of a peering.";
        readings.add(Reading::gauge("kopf_rs_peering_paused", help).of(one_if(facts.is_paused)));
    }

    fn read_handlers(&self, readings: &mut Readings, seen: &Seen, now: WallTime) {
        let help = "Calls of handlers that run now.";
        let mut running = Reading::gauge("kopf_rs_handler_running", help);
        let help = "When the oldest call that runs now has begun; 0 where none runs.";
        let name = "kopf_rs_handler_oldest_start_timestamp";
        let mut oldest = Reading::gauge(name, help).in_unit(Unit::Seconds);
        for (handler, calls) in self.setup.counted.running() {
            running.put(of_handler(&handler), f64::from(calls.count));
            oldest.put(of_handler(&handler), now.of(calls.oldest));
        }
        readings.add(running);
        readings.add(oldest);
        let kinds = [
            ("kopf_rs_daemons", "Daemons that run now.", &seen.daemons),
            ("kopf_rs_timers", "Calls of timers and of reconcile functions that run now.", &seen.timers),
        ];
        for (name, help, calls) in kinds {
            let mut reading = Reading::gauge(name, help);
            for (handler, count) in calls {
                reading.put(of_handler(handler), f64::from(*count));
            }
            readings.add(reading);
        }
        let mut entries = Reading::gauge("kopf_rs_index_entries", "Keys of indices.");
        for index in &seen.facts.indices {
            let labels = vec![("index", Cow::Owned(index.index.to_string()))];
            entries.put(labels, amount(index.keys));
        }
        readings.add(entries);
    }

    fn read_process(&self, readings: &mut Readings) {
        let process = Process::read();
        let gauges = [
            ("process_resident_memory", Unit::Bytes, "Resident memory.", process.resident),
            ("process_virtual_memory", Unit::Bytes, "Virtual memory.", process.virtually),
            (
                "process_start_time",
                Unit::Seconds,
                "When the process has begun, since the epoch.",
                process.begun,
            ),
        ];
        for (name, unit, help, value) in gauges {
            if let Some(value) = value {
                readings.add(Reading::gauge(name, help).in_unit(unit).of(value));
            }
        }
        if let Some(seconds) = process.processors {
            let help = "Time of processors that the process has had.";
            let reading = Reading::counter("process_cpu", help).in_unit(Unit::Seconds);
            readings.add(reading.of(seconds));
        }
        let files = [
            ("process_open_fds", "Open files.", process.files),
            ("process_max_fds", "Files that may be open.", process.most_files),
        ];
        for (name, help, value) in files {
            if let Some(value) = value {
                readings.add(Reading::gauge(name, help).of(value));
            }
        }
        let mut workers = Reading::gauge("tokio_workers", "Threads of a runtime.");
        let mut tasks = Reading::gauge("tokio_alive_tasks", "Tasks of a runtime.");
        let help = "Tasks that wait for a thread of a runtime, and for none in particular.";
        let mut waiting = Reading::gauge("tokio_global_queue_depth", help);
        for (name, runtime) in &self.setup.runtimes {
            let (labels, runtime) = (vec![("runtime", Cow::Borrowed(*name))], runtime.metrics());
            workers.put(labels.clone(), amount(runtime.num_workers()));
            tasks.put(labels.clone(), amount(runtime.num_alive_tasks()));
            waiting.put(labels, amount(runtime.global_queue_depth()));
        }
        readings.add(workers);
        readings.add(tasks);
        readings.add(waiting);
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
    let of_lease = || vec![("lease", Cow::Owned(lease.lease.clone()))];
    let help = "1 where this instance is the one at work: it holds the Lease, in time.";
    let mut at_work = Reading::gauge("kopf_rs_lease_held", help);
    at_work.put(of_lease(), one_if(lease.is_held()));
    let help = "Times that this instance has taken the Lease.";
    let mut taken = Reading::counter("kopf_rs_lease_transitions", help);
    taken.put(of_lease(), total(lease.terms));
    let help = "When this instance has last taken or renewed the Lease; 0 where it has not.";
    let name = "kopf_rs_lease_last_renew_timestamp";
    let mut renewed = Reading::gauge(name, help).in_unit(Unit::Seconds);
    renewed.put(of_lease(), now.of(lease.renewed));
    for reading in [at_work, taken, renewed] {
        readings.add(reading);
    }
}

fn read_watches(readings: &mut Readings, facts: &Facts, now: WallTime) {
    let mut kinds: BTreeMap<String, (bool, Instant)> = BTreeMap::new();
    for watch in &facts.watches {
        let name = watch.collection.resource.group_resource();
        let (is_up, heard) = kinds.entry(name).or_insert((true, watch.heard));
        *is_up &= goes_on(watch);
        *heard = (*heard).min(watch.heard);
    }
    let help = "1 where all watches of the resource go on, and all objects were listed.";
    let mut up = Reading::gauge("kopf_rs_watch_up", help);
    let help = "When the quietest watch of the resource was heard last, bookmarks included.";
    let name = "kopf_rs_watch_last_activity_timestamp";
    let mut heard_last = Reading::gauge(name, help).in_unit(Unit::Seconds);
    for (name, (is_up, heard)) in kinds {
        up.put(of_resource(&name), one_if(is_up));
        heard_last.put(of_resource(&name), now.of(Some(heard)));
    }
    readings.add(up);
    readings.add(heard_last);
    let help = "What watches have told, by type; LISTED is what listings have shown.";
    let mut events = Reading::counter("kopf_rs_watch_events", help);
    let mut listings = Reading::counter("kopf_rs_watch_listings", "Listings that have begun.");
    let help = "Times that a watch could not go on, or was renewed because nothing has come.";
    let mut restarts = Reading::counter("kopf_rs_watch_restarts", help);
    for (name, counts) in &facts.counts {
        let with = |key: &'static str, value: &'static str| {
            let mut labels = of_resource(name);
            labels.push((key, value.into()));
            labels
        };
        for (kind, count) in [
            ("LISTED", counts.listed),
            ("ADDED", counts.added),
            ("MODIFIED", counts.modified),
            ("DELETED", counts.deleted),
            ("BOOKMARK", counts.bookmarks),
        ] {
            events.put(with("type", kind), total(count));
        }
        listings.put(of_resource(name), total(counts.listings));
        restarts.put(with("reason", "failure"), total(counts.failures));
        restarts.put(with("reason", "silence"), total(counts.silences));
    }
    readings.add(events);
    readings.add(listings);
    readings.add(restarts);
}

fn read_queue(readings: &mut Readings, facts: &Facts, now: WallTime) {
    let queue = &facts.queue;
    let help = "Objects that the operator knows.";
    let mut objects = Reading::gauge("kopf_rs_objects", help);
    for name in facts.counts.keys() {
        let count = queue.kinds.get(name).copied().unwrap_or_default();
        objects.put(of_resource(name), amount(count));
    }
    readings.add(objects);
    let help = "Objects of which a state waits to be looked at.";
    readings.add(Reading::gauge("kopf_rs_queue_depth", help).of(amount(queue.waiting)));
    let help = "Objects that are worked on, or wait for the next attempt.";
    readings.add(Reading::gauge("kopf_rs_objects_busy", help).of(amount(queue.busy)));
    let help = "Objects at rest that will be due: their timers, and reconcile functions.";
    readings.add(Reading::gauge("kopf_rs_wakeups_pending", help).of(amount(queue.timers)));
    let help = "Since when the state waits that has waited for longest; 0 where none waits.";
    let oldest = Reading::gauge("kopf_rs_queue_oldest_timestamp", help).in_unit(Unit::Seconds);
    let since = queue.oldest.as_ref().map(|oldest| oldest.since);
    readings.add(oldest.of(now.of(since)));
}

fn goes_on(watch: &WatchFacts) -> bool {
    watch.trouble.is_none() && !watch.is_silent && watch.listing == Listing::Complete
}

fn of_resource(name: &str) -> Series {
    vec![("resource", Cow::Owned(name.to_owned()))]
}

fn of_handler(id: &Arc<str>) -> Series {
    vec![("handler", Cow::Owned(id.to_string()))]
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
