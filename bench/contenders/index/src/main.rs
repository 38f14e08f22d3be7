//! An operator with an index of objects by number: it prints when the index is complete, and the speed of lookups.

use std::time::{Duration, Instant, SystemTime};

use kopf_rs::prelude::*;

/// The duration of the lookups.
const SPAN: Duration = Duration::from_secs(2);
/// The number of lookups between two reads of the clock.
const BATCH: u64 = 1_000;

#[index("bench.kopf.rs", "v1", "benchobjs")]
fn names(#[from(spec.n)] n: u64, name: String) -> (u64, String) {
    (n, name)
}

#[on_create("bench.kopf.rs", "v1", "myapps")]
fn asked(name: &str, names: &Index<u64, String>) -> HandlerResult {
    let count = u64::try_from(names.len())?;
    if name == "ready" {
        let now = SystemTime::UNIX_EPOCH.elapsed()?;
        println!("ready {count} {:.6}", now.as_secs_f64());
        return Ok(());
    }
    let began = Instant::now();
    let mut found = 0;
    while began.elapsed() < SPAN {
        for n in found..found + BATCH {
            if names.get(&(n % count)).first().is_none() {
                fail!("{} is not there", n % count);
            }
        }
        found += BATCH;
    }
    println!("lookups {found} {:.6}", began.elapsed().as_secs_f64());
    Ok(())
}

kopf_rs::main!();
