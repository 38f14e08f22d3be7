//! Every parser under random bytes and mutated inputs, from a seed: no panic, no hang, no memory without bounds.
//!
//! `KOPF_RS_FUZZ=10000000` says how many inputs all targets get together, `KOPF_RS_FUZZ_SEED=n` begins elsewhere,
//! `KOPF_RS_FUZZ_ONLY=yaml,cel` restricts it to some targets. An input that fails is printed; it comes again with the same seed.

mod mutate;
mod samples;
mod target;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::time::Instant;

use mutate::Dice;
use target::{TARGETS, Target};
use watch::Watch;

/// How many inputs there are in an ordinary test run.
const DEFAULT: u64 = 20_000;

/// What came of a target.
struct Report {
    line: String,
    failed: bool,
}

#[test]
fn no_input_breaks_a_parser() {
    let number = |name: &str, default: u64| {
        let given = std::env::var(name).ok().filter(|text| !text.is_empty());
        given.map_or(default, |text| text.parse().expect("a number"))
    };
    let (inputs, seed) = (
        number("KOPF_RS_FUZZ", DEFAULT),
        number("KOPF_RS_FUZZ_SEED", 1),
    );
    let only = std::env::var("KOPF_RS_FUZZ_ONLY").unwrap_or_default();
    let chosen: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| only.is_empty() || only.split(',').any(|name| name == target.name))
        .collect();
    let shares: u64 = chosen.iter().map(|target| target.share).sum();
    let watch = Watch::begin();
    let reports: Vec<Report> = chosen
        .iter()
        .map(|target| {
            attack(
                target,
                (inputs * target.share).div_ceil(shares),
                seed,
                &watch,
            )
        })
        .collect();
    for report in &reports {
        println!("{}", report.line);
    }
    let failed = reports.iter().filter(|report| report.failed).count();
    println!(
        "fuzz: {inputs} inputs from seed {seed} for {} targets: {failed} broke",
        reports.len()
    );
    assert_eq!(failed, 0);
}

fn attack(target: &Target, inputs: u64, seed: u64, watch: &Watch) -> Report {
    let mut dice = Dice::new(seed ^ name_as_number(target.name));
    let samples = (target.samples)();
    let mut run = (target.begin)();
    let mut slowest = Duration::ZERO;
    for number in 0..inputs {
        let input = mutate::input(&mut dice, &samples, target.tokens);
        watch.over(target.name, &input);
        let start = Instant::now();
        let survived = catch_unwind(AssertUnwindSafe(|| run(&input))).is_ok();
        slowest = slowest.max(start.elapsed());
        if !survived {
            let shown = input.escape_ascii();
            let line = format!("fuzz {}: input {number} PANICS: \"{shown}\"", target.name);
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

/// Targets begin at different places of one seed.
fn name_as_number(name: &str) -> u64 {
    name.bytes().fold(0, |sum: u64, byte| {
        sum.wrapping_mul(257).wrapping_add(u64::from(byte))
    })
}

#[test]
fn the_same_seed_makes_the_same_inputs() {
    let made = |seed| {
        let mut dice = Dice::new(seed);
        let samples = [&b"{\"a\":1}"[..]];
        let inputs = (0..100).map(|_| mutate::input(&mut dice, &samples, &["{", "}"]));
        inputs.collect::<Vec<_>>()
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
        samples: || vec![b"a calm sample"],
        begin: || Box::new(|input| assert!(!input.windows(4).any(|part| part == b"boom"))),
    };
    let report = attack(&fragile, 10_000, 1, &Watch::begin());
    assert!(
        report.failed && report.line.contains("boom"),
        "{}",
        report.line
    );
}
