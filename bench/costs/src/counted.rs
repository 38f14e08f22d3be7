//! Counts allocations, and separates those of the API server in the same process from those of the operator.
//!
//! The server works only while it is polled, on the only thread of the runtime. [`in_server`] encloses each of its polls, and the
//! allocations inside are subtracted. Callgrind (`crate::limits`) knows the names of [`measured`] and [`served`] and toggles its counting
//! when it enters and leaves them. Must not know the scenario.

use std::alloc::System;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

static SERVER: [AtomicI64; 3] = [const { AtomicI64::new(0) }; 3];
static PEAK: AtomicI64 = AtomicI64::new(0);
static IN_SERVER: AtomicBool = AtomicBool::new(false);
static IS_MEASURED: AtomicBool = AtomicBool::new(false);

/// The number of allocations so far, their total bytes, and the bytes that are live now.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub allocations: i64,
    pub bytes: i64,
    pub live: i64,
}

/// Returns the operator's numbers so far.
pub fn counts() -> Counts {
    let [allocations, bytes, live] = of_process();
    Counts {
        allocations: allocations - SERVER[0].load(Relaxed),
        bytes: bytes - SERVER[1].load(Relaxed),
        live: live - SERVER[2].load(Relaxed),
    }
}

fn of_process() -> [i64; 3] {
    let stats = ALLOCATOR.stats();
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let (allocated, freed) = (stats.bytes_allocated, stats.bytes_deallocated);
    [
        number(stats.allocations) + number(stats.reallocations),
        number(allocated),
        number(allocated) - number(freed),
    ]
}

/// Samples the live bytes; the largest sample is the peak.
pub fn look() {
    if !IN_SERVER.load(Relaxed) {
        PEAK.fetch_max(counts().live, Relaxed);
    }
}

/// Returns the largest sample since the previous call, and resets it.
pub fn peak() -> i64 {
    look();
    PEAK.swap(0, Relaxed)
}

/// Runs some work of the server or of the load generator, without counting it.
pub fn in_server<T>(work: impl FnOnce() -> T) -> T {
    if IN_SERVER.swap(true, Relaxed) {
        return work();
    }
    let before = of_process();
    let mut work = Some(work);
    let mut done = None;
    let mut run = || done = work.take().map(|it| it());
    if IS_MEASURED.load(Relaxed) {
        served(&mut run);
    } else {
        prepared(&mut run);
    }
    for (sum, (after, before)) in SERVER.iter().zip(of_process().into_iter().zip(before)) {
        sum.fetch_add(after - before, Relaxed);
    }
    IN_SERVER.store(false, Relaxed);
    done.expect("work is done once")
}

/// Runs the measured part.
pub fn measure(run: &mut dyn FnMut()) {
    IS_MEASURED.store(true, Relaxed);
    measured(run);
    IS_MEASURED.store(false, Relaxed);
}

#[inline(never)]
fn measured(run: &mut dyn FnMut()) {
    run();
    // Makes the two functions different, so that the compiler does not merge them.
    std::hint::black_box("measured");
}

#[inline(never)]
fn served(run: &mut dyn FnMut()) {
    run();
    std::hint::black_box("served");
}

/// Does the same as `served` outside of the measured part, where entering `served` would make callgrind start to count.
fn prepared(run: &mut dyn FnMut()) {
    run();
}
