//! Fuzzes parsers with random and mutated inputs from a seed, to find panics, hangs and unbounded memory use.
//!
//! `KOPF_RS_FUZZ=10000000` sets the total number of inputs for the targets of a test, `KOPF_RS_FUZZ_SEED=n` sets the seed, and
//! `KOPF_RS_FUZZ_ONLY=yaml,cel` selects targets. A failing input is printed; the same seed reproduces it. Must not depend on any parser.

mod damage;
mod dice;
mod input;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::time::Instant;

use crate::input::Inputs;
use crate::watch::Watch;

/// A parser to fuzz.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name in the summary.
    pub name: &'static str,
    /// The target's share of the inputs, relative to the other targets of the test.
    pub share: u64,
    /// Tokens of the parsed language.
    pub tokens: &'static [&'static str],
    /// Valid inputs, which are mutated; those in JSON also as trees.
    pub samples: fn() -> Vec<Vec<u8>>,
    /// Prepares the target and returns a function that runs an input.
    pub begin: fn() -> Run,
}

/// The number of bytes that the report of a failing input shows; the seed reproduces the rest.
const SHOWN: usize = 2000;

/// Runs one input.
pub type Run = Box<dyn FnMut(&[u8])>;

/// The result of a target.
struct Report {
    line: String,
    failed: bool,
}

/// Returns these texts as samples.
#[must_use]
pub fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Fuzzes the targets with `ordinary` inputs, unless the environment sets another number. Prints a line per target and a summary to
/// standard output.
///
/// # Panics
/// If an input makes a target panic. If an input takes too long or needs too much memory, the process aborts.
pub fn attack(targets: &[Target], ordinary: u64) {
    let number = |name: &str, default: u64| {
        let given = std::env::var(name).ok().filter(|text| !text.is_empty());
        given.map_or(default, |text| {
            text.parse()
                .unwrap_or_else(|_| panic!("{name}: expected a number, found {text:?}"))
        })
    };
    let (inputs, seed) = (
        number("KOPF_RS_FUZZ", ordinary),
        number("KOPF_RS_FUZZ_SEED", 1),
    );
    let only = std::env::var("KOPF_RS_FUZZ_ONLY").unwrap_or_default();
    let is_chosen =
        |target: &&Target| only.is_empty() || only.split(',').any(|name| name == target.name);
    let chosen: Vec<&Target> = targets.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        return;
    }
    let shares: u64 = chosen.iter().map(|target| target.share).sum();
    let watch = Watch::begin();
    let reports = chosen.iter().map(|target| {
        let inputs = (inputs * target.share).div_ceil(shares);
        attack_one(target, inputs, seed, &watch)
    });
    let reports: Vec<Report> = reports.collect();
    let failed = reports.iter().filter(|report| report.failed).count();
    let mut lines: Vec<&str> = reports.iter().map(|it| it.line.as_str()).collect();
    let closing = format!(
        "fuzz: {inputs} inputs from seed {seed} for {} targets: {failed} broke",
        reports.len()
    );
    lines.push(&closing);
    // Print all lines in one call, because other tests print at the same time.
    say(&lines.join("\n"));
    assert_eq!(failed, 0, "{}", lines.join("\n"));
}

#[expect(clippy::print_stdout, reason = "lines for who runs the test")]
fn say(lines: &str) {
    println!("{lines}");
}

fn attack_one(target: &Target, inputs: u64, seed: u64, watch: &Watch) -> Report {
    let seed = seed ^ name_as_number(target.name);
    let mut made = Inputs::new((target.samples)(), target.tokens, seed);
    let mut run = (target.begin)();
    let mut slowest = Duration::ZERO;
    for number in 0..inputs {
        let input = made.next();
        watch.over(target.name, &input);
        let start = Instant::now();
        let survived = catch_unwind(AssertUnwindSafe(|| run(&input))).is_ok();
        slowest = slowest.max(start.elapsed());
        if !survived {
            let start = input.get(..SHOWN).unwrap_or(&input).escape_ascii();
            let line = format!(
                "fuzz {}: input {number} of {} bytes PANICS: \"{start}\"",
                target.name,
                input.len()
            );
            return Report { line, failed: true };
        }
    }
    watch.rest();
    Report {
        line: format!(
            "fuzz {}: {inputs} inputs, no panic, the slowest took {slowest:.1?}",
            target.name
        ),
        failed: false,
    }
}

/// Returns a number for the name, so that each target gets a different seed.
fn name_as_number(name: &str) -> u64 {
    name.bytes().fold(0, |sum: u64, byte| {
        sum.wrapping_mul(257).wrapping_add(u64::from(byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs() {
        let made = |seed| {
            let samples = texts(&["{\"a\":1}"]);
            let mut inputs = Inputs::new(samples, &["{", "}"], seed);
            (0..100).map(|_| inputs.next()).collect::<Vec<_>>()
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }

    #[test]
    fn a_panic_is_found_and_shown() {
        let fragile = Target {
            name: "fragile",
            share: 1,
            tokens: &["boom"],
            samples: || texts(&["a calm sample"]),
            begin: || Box::new(|input| assert!(!input.windows(4).any(|part| part == b"boom"))),
        };
        let report = attack_one(&fragile, 10_000, 1, &Watch::begin());
        assert!(
            report.failed && report.line.contains("boom"),
            "{}",
            report.line
        );
    }

    #[test]
    fn trees_stay_json_and_lose_members_and_gain_odd_values() {
        let sample = r#"{"a":{"b":[1,2,{"c":"text"}]},"d":null}"#;
        let mut inputs = Inputs::new(texts(&[sample]), &[], 1);
        let made: Vec<_> = (0..2000).map(|_| inputs.next()).collect();
        let trees = made
            .iter()
            .filter_map(|it| serde_json::from_slice(it).ok())
            .collect::<Vec<serde_json::Value>>();
        assert!(trees.len() > 500, "{}", trees.len());
        for (what, is_seen) in [
            (
                "lost",
                (|it| it.get("a").is_none()) as fn(&serde_json::Value) -> bool,
            ),
            ("other", |it| it["a"].is_number()),
            ("deep", |it| it.to_string().starts_with("[[")),
        ] {
            assert!(trees.iter().any(is_seen), "{what}");
        }
    }
}
