//! An operator with a timer and a daemon, each for the objects with its label; they print the times of their calls and do nothing else.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use kopf_rs::prelude::*;

/// In seconds.
static INTERVAL: LazyLock<u64> = LazyLock::new(|| {
    let given = std::env::var("BENCH_INTERVAL");
    given.ok().and_then(|it| it.parse().ok()).unwrap_or(60)
});

fn say(word: &str, name: &str) {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    println!("{word} {name} {:.6}", now.as_secs_f64());
}

#[timer("bench.kopf.rs", "v1", "benchobjs", interval = |_| *INTERVAL, labels = {"bench": "timer"})]
#[expect(clippy::unused_async, reason = "as Kopf's: plain functions are called on threads")]
async fn ticked(name: &str) {
    say("tick", name);
}

#[daemon("bench.kopf.rs", "v1", "benchobjs", labels = {"bench": "daemon"})]
async fn lived(name: &str, stopped: &Stopped) {
    let interval = Duration::from_secs(*INTERVAL);
    loop {
        say("tick", name);
        if stopped.wait_for(interval).await {
            return;
        }
    }
}

#[on_create("bench.kopf.rs", "v1", "benchobjs", labels = {"bench": "probe"})]
#[expect(clippy::unused_async, reason = "as Kopf's: plain functions are called on threads")]
async fn created(name: &str) {
    say("created", name);
}

kopf_rs::main!();
