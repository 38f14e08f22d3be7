//! Measures all costs, and compares each with its limit in `limits.txt`.
//!
//! Each scenario runs with a number of objects and with twice as many. The difference is the cost of the additional objects, without the
//! start and other fixed costs. Must not know the scenarios.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::scenario::Scenario;
use crate::sizes::size;

/// The number of objects for the counts of allocations: far from the powers of two near which tables grow, which would hide the peak.
const MANY: u32 = 1500;
/// The number of objects for the counts of instructions, which take fifty times as long.
const SOME: u32 = 150;
/// If a figure falls below this share of its limit, the limit must be lowered.
const MUCH: f64 = 0.93;

/// A figure's name and value.
pub type Figure = (String, f64);

/// Prints all figures, and returns whether all are within their limits.
pub fn check() -> Result<bool> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("limits.txt");
    let text = std::fs::read_to_string(&path).context("limits.txt")?;
    let is_good = are_within(measured()?, parsed(&text)?);
    if !is_good {
        println!(
            "costs: figures are above their limits. Make the change cheaper; or, where what it does is worth its costs, raise the limits in {} and say \
             why in the commit",
            path.display()
        );
    }
    Ok(is_good)
}

/// Prints each figure beside its limit, and returns whether each has a limit and is within it, and each limit has a figure.
fn are_within(figures: Vec<Figure>, mut limits: BTreeMap<String, f64>) -> bool {
    let mut is_good = true;
    println!("{:32} {:>12} {:>12}  ratio", "figure", "measured", "limit");
    for (name, value) in figures {
        let Some(limit) = limits.remove(&name) else {
            println!("{name:32} {value:12.0}               no limit in limits.txt");
            is_good = false;
            continue;
        };
        let ratio = value / limit;
        let verdict = if ratio > 1.0 {
            is_good = false;
            "  above the limit"
        } else if ratio < MUCH {
            "  lower the limit"
        } else {
            ""
        };
        println!("{name:32} {value:12.0} {limit:12.0}  {ratio:.3}{verdict}");
    }
    for name in limits.keys() {
        println!("{name:32} is in limits.txt, and nothing measures it");
        is_good = false;
    }
    is_good
}

/// Parses lines with a name and a limit; the text after `#` is a comment.
fn parsed(text: &str) -> Result<BTreeMap<String, f64>> {
    let mut limits = BTreeMap::new();
    for line in text.lines() {
        let content = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = content.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [name, limit] => {
                let limit = limit.parse().with_context(|| line.to_owned())?;
                ensure!(limits.insert((*name).to_owned(), limit).is_none(), "{name} has two limits");
            }
            _ => bail!("expected a name and a limit: {line}"),
        }
    }
    Ok(limits)
}

fn measured() -> Result<Vec<Figure>> {
    let valgrind = valgrind()?;
    let valgrind = valgrind.as_path();
    // All at once: counts do not depend on what else runs.
    let figures = std::thread::scope(|scope| {
        let scenarios = Scenario::ALL.map(|it| scope.spawn(move || figures(valgrind, it)));
        let figures = scenarios.into_iter().map(|it| it.join().expect("no panic while measuring"));
        figures.collect::<Result<Vec<_>>>()
    });
    let mut figures = figures?.concat();
    figures.push(("program.bytes".to_owned(), size()?));
    Ok(figures)
}

fn figures(valgrind: &Path, scenario: Scenario) -> Result<Vec<Figure>> {
    let (less, more) = (numbers(scenario, MANY)?, numbers(scenario, 2 * MANY)?);
    let (few, many) = (instructions(valgrind, scenario, SOME)?, instructions(valgrind, scenario, 2 * SOME)?);
    let each = |at: usize| (more[at] - less[at]) / (more[0] - less[0]);
    let objects = f64::from(MANY);
    let figures = [
        ("instructions", (many[1] - few[1]) / (many[0] - few[0])),
        ("allocations", each(1)),
        ("bytes", each(2)),
        ("kept", (more[3] - less[3]) / objects),
        ("peak", (more[4] - less[4]) / objects),
    ];
    Ok(figures.map(|(what, figure)| (format!("{}.{what}", scenario.name()), figure)).into())
}

/// Returns the median of each number of three runs: the uids of objects are random, and so are the sizes of the tables that they order.
fn numbers(scenario: Scenario, objects: u32) -> Result<Vec<f64>> {
    let runs = (0..3).map(|_| {
        let mut command = Command::new(std::env::current_exe()?);
        run(command.args([scenario.name(), &objects.to_string()]))
    });
    let runs: Vec<Vec<f64>> = runs.collect::<Result<_>>()?;
    let median = |at: usize| {
        let mut values = [runs[0][at], runs[1][at], runs[2][at]];
        values.sort_unstable_by(f64::total_cmp);
        values[1]
    };
    Ok((0..runs[0].len()).map(median).collect())
}

/// Returns the number of units, and the number of the operator's instructions for them.
fn instructions(valgrind: &Path, scenario: Scenario, objects: u32) -> Result<[f64; 2]> {
    let name = scenario.name();
    let profile = std::env::temp_dir().join(format!("kopf-rs-costs-{}-{name}-{objects}", std::process::id()));
    let mut command = Command::new(valgrind);
    command
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .args(["measured", "served"].map(|it| format!("--toggle-collect=kopf_rs_costs::counted::{it}")))
        .arg(std::env::current_exe()?)
        .args([name, &objects.to_string()]);
    let units = run(&mut command)?[0];
    let text = std::fs::read_to_string(&profile).context("the profile of callgrind")?;
    std::fs::remove_file(&profile)?;
    let total = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    let total: f64 = total.context("a profile without totals")?.trim().parse()?;
    ensure!(
        total > 0.0,
        "callgrind has counted nothing: does it know the functions of counted.rs by other names?"
    );
    Ok([units, total])
}

fn run(command: &mut Command) -> Result<Vec<f64>> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("{command:?}: {}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let numbers = said.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
    numbers.with_context(|| format!("{command:?} has printed: {said}"))
}

fn valgrind() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|it| it.join("valgrind"));
    found.into_iter().find(|it| it.is_file()).context(
        "valgrind is not installed, and counts the instructions: install it (apt-get install valgrind) and run this again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_without_a_limit_or_above_it_fail_and_so_do_limits_without_a_figure() {
        for (measured, limits, is_good) in [
            (&[("a", 100.0), ("b", 1.0)][..], "a 100 # each\n\nb 2", true),
            (&[("a", 100.5)], "a 100", false),
            (&[("a", 1.0), ("b", 1.0)], "a 1", false),
            (&[("a", 1.0)], "a 1\nb 1", false),
        ] {
            let figures = measured.iter().map(|(name, it)| ((*name).to_owned(), *it));
            let are_within = are_within(figures.collect(), parsed(limits).unwrap());
            assert_eq!(are_within, is_good, "{measured:?}, {limits}");
        }
    }
}
