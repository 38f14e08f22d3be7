//! Random histories: dice, seeds, the search for a failure and its reduction, virtual time.
//!
//! `KOPF_RS_HISTORIES=n` sets their number, `KOPF_RS_FIRST=n` the first seed. A failure is reduced, printed from its
//! start, and named by a seed; `KOPF_RS_SEED=n@size` plays that seed again and includes the log of the operator. This
//! module must not depend on the subject of the histories.

pub(crate) mod dice;
pub(crate) mod door;
pub(crate) mod story;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kopf_rs_tests::{Lines, say, subscriber};

/// The seed of a history. Written as `number@size`, or as the number alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed {
    pub(crate) number: u64,
    /// The size limit of all parts of the history.
    pub(crate) size: usize,
}

/// The violation, and the story up to it.
pub(crate) struct Failure {
    pub(crate) why: String,
    pub(crate) story: Vec<String>,
}

/// Plays the number of histories that the environment sets, or the single one that it names, and passes each result to `add`. Returns the
/// number, or `None` for a single one. Panics with the story of a reduced history that fails.
pub(crate) fn explore<T>(
    default: u64,
    play: impl Fn(Seed, Option<&Lines>) -> Result<T, Failure> + Sync,
    add: impl Fn(T) + Sync,
) -> Option<u64> {
    if let Ok(seed) = std::env::var("KOPF_RS_SEED") {
        let seed = seed.parse().expect("a seed such as 12 or 12@3");
        replay(seed, play);
        return None;
    }
    let number = |name, default| match std::env::var(name) {
        Ok(it) => it.parse().expect("a number of histories"),
        Err(_) => default,
    };
    let (count, first) = (number("KOPF_RS_HISTORIES", default), number("KOPF_RS_FIRST", 0));
    let (next, end) = (AtomicU64::new(first), first + count);
    let failed = Mutex::new(None);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end {
                return;
            }
            match play(Seed::of(number), None) {
                Ok(outcome) => add(outcome),
                Err(failure) => {
                    next.store(end, Ordering::Relaxed);
                    let mut failed = failed.lock().expect("no panics here");
                    failed.get_or_insert((Seed::of(number), failure));
                }
            }
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(work);
        }
    });
    if let Some((seed, failure)) = failed.into_inner().expect("no panics here") {
        let (seed, failure) = smaller(seed, &play).unwrap_or((seed, failure));
        panic!("{}", told(seed, &failure));
    }
    Some(count)
}

/// Asserts that each seed gives the same story twice, including requests, calls and times. Without this, a failure could not be reproduced.
pub(crate) fn assert_told_again(seeds: impl IntoIterator<Item = Seed>, story: impl Fn(Seed) -> Vec<String>) {
    for seed in seeds {
        let (first, again) = (story(seed), story(seed));
        let mut lines = first.iter().zip(&again);
        let parted = lines.position(|(first, again)| first != again);
        let parted = parted.or((first.len() != again.len()).then_some(first.len().min(again.len())));
        if let Some(place) = parted {
            let from = place.saturating_sub(10);
            let tail = |story: &[String]| story[from..story.len().min(place + 5)].join("\n");
            let (first, again) = (tail(&first), tail(&again));
            panic!("history {seed} is told in two ways:\n{first}\n\nand:\n{again}");
        }
    }
}

/// Runs `play` under virtual time on this thread and returns a panic as an error. With `lines`, captures the log of the operator.
pub(crate) fn in_virtual_time<T>(
    lines: Option<&Lines>,
    play: impl AsyncFnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let _default = lines.map(|lines| tracing::subscriber::set_default(subscriber(lines)));
    let played = catch_unwind(AssertUnwindSafe(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime can be built").block_on(play())
    }));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.unwrap_or_else(|| "a panic".to_owned()))
    })
}

/// Plays a history under virtual time. `begin` creates it, and a handle on what it shares with its handlers, which outlives a panic. Returns
/// the `sum` of a good history, or what is wrong and what is `told`.
pub(crate) fn perform<S, H, R>(
    lines: Option<&Lines>,
    begin: impl FnOnce() -> (S, H),
    act: impl AsyncFnOnce(&mut H) -> Result<(), String>,
    told: impl FnOnce(&S) -> Vec<String>,
    sum: impl FnOnce(&S) -> R,
) -> Result<R, Failure> {
    let made = Mutex::new(None);
    let played = in_virtual_time(lines, async || {
        let (shared, mut history) = begin();
        *made.lock().unwrap_or_else(PoisonError::into_inner) = Some(shared);
        act(&mut history).await
    });
    let shared = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    let shared = shared.expect("the history has begun");
    played.map(|()| sum(&shared)).map_err(|why| Failure { why, story: told(&shared) })
}

/// Returns the complaints as an error, if there are any.
pub(crate) fn verdict(wrong: &[String]) -> Result<(), String> {
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Searches a smaller history that fails, too.
fn smaller<T>(
    seed: Seed,
    play: impl Fn(Seed, Option<&Lines>) -> Result<T, Failure>,
) -> Option<(Seed, Failure)> {
    const TRIES: u64 = 400;
    let candidates = (1..=seed.size)
        .flat_map(|size| (0..TRIES).map(move |number| Seed { number: seed.number + number, size }));
    let mut failing = candidates.filter_map(|seed| Some((seed, play(seed, None).err()?)));
    failing.next()
}

fn replay<T>(seed: Seed, play: impl Fn(Seed, Option<&Lines>) -> Result<T, Failure>) {
    let lines = Lines::new(Duration::from_secs(1));
    if let Err(failure) = play(seed, Some(&lines)) {
        panic!("{}", told(seed, &failure));
    }
    say(&format!("history {seed}: nothing is wrong with it"));
}

fn told(seed: Seed, failure: &Failure) -> String {
    let Failure { why, story } = failure;
    let story = story.join("\n");
    format!("history {seed}:\n{story}\n\nwrong:\n{why}\n\nplay it again with KOPF_RS_SEED={seed}")
}

// === impl Seed ===

impl Seed {
    /// Returns a seed whose size cycles from 1 to 8.
    pub(crate) fn of(number: u64) -> Self {
        let size = usize::try_from(number % 8).expect("below 8") + 1;
        Self { number, size }
    }
}

impl FromStr for Seed {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('@') {
            Some((number, size)) => Ok(Self { number: number.parse()?, size: size.parse()? }),
            None => Ok(Self::of(text.parse()?)),
        }
    }
}

impl std::fmt::Display for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.number, self.size)
    }
}
