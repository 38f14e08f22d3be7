//! Scenarios with contenders of their own: these take turns, round by round, and their runs make a table.
//!
//! Must not know what is measured.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::contender::root;
use crate::options::Options;
use crate::report::{median, spread};
use crate::samples::Run;
use crate::say;

/// Who takes part in a scenario.
pub trait Peer: Copy + Ord + 'static {
    const ALL: &'static [Self];

    fn label(self) -> &'static str;
}

/// The runs of each, by round.
pub type Rounds<P> = BTreeMap<P, Vec<Run>>;

/// A line of the table: measure, title, digits.
pub type Row = (&'static str, &'static str, usize);

/// What the first one may need at most, or must reach at least, as a part of the second one's.
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

/// The programs of all, built or installed.
pub async fn prepared<P: Peer + Send>(prepare: fn(P) -> Result<PathBuf>) -> Result<BTreeMap<P, PathBuf>> {
    let mut programs = BTreeMap::new();
    for peer in P::ALL.iter().copied() {
        say(&format!("preparing {}", peer.label()));
        let program = tokio::task::spawn_blocking(move || prepare(peer));
        programs.insert(peer, program.await??);
    }
    Ok(programs)
}

/// Each once per round, each round beginning with another one.
pub async fn in_turn<P: Peer>(
    options: &Options,
    what: &str,
    measured: impl AsyncFn(P) -> Result<Run>,
) -> Result<Rounds<P>> {
    let mut rounds = Rounds::new();
    for round in 0..options.rounds {
        for place in 0..P::ALL.len() {
            let peer = P::ALL[(round + place) % P::ALL.len()];
            say(&format!("round {}: {what}, {}", round + 1, peer.label()));
            let run = measured(peer).await.with_context(|| peer.label())?;
            rounds.entry(peer).or_default().push(run);
        }
    }
    Ok(rounds)
}

/// The runs as they are kept.
pub fn raw<P: Peer>(rounds: &Rounds<P>) -> Value {
    let raw: BTreeMap<_, _> = rounds.iter().map(|(peer, it)| (peer.label(), it)).collect();
    json!(raw)
}

/// Writes the raw samples to `results/NAME.json`.
pub fn keep(name: &str, options: &Options, rounds: &Value) -> Result<()> {
    let folder = root().join("results");
    std::fs::create_dir_all(&folder)?;
    let text = json!({"options": options, "rounds": rounds});
    let file = folder.join(format!("{name}.json"));
    std::fs::write(&file, format!("{text:#}\n")).with_context(|| file.display().to_string())
}

/// The line above a table, with these pairs of which the first is divided by the second.
pub fn print_head<P: Peer>(options: &Options, pairs: &[(P, P)]) {
    print!("{:<32}", format!("median of {} rounds", options.rounds));
    for peer in P::ALL {
        print!("{:>20}", peer.label());
    }
    for (one, other) in pairs {
        print!("  {:<25}", format!("{}/{}", one.label(), other.label()));
    }
    println!();
}

/// Lines of a table.
pub fn print_rows<P: Peer>(rounds: &Rounds<P>, rows: &[Row], pairs: &[(P, P)]) {
    for &(measure, title, digits) in rows {
        print!("  {title:<30}");
        for peer in P::ALL {
            let value = median(values(rounds, *peer, measure)).unwrap_or_default();
            print!("{value:>20.digits$}");
        }
        for pair in pairs {
            print!("  {:<25}", spread(ratios(rounds, *pair, measure)));
        }
        println!();
    }
}

/// Whether a goal is reached.
pub fn print_goal<P: Peer>(rounds: &Rounds<P>, (measure, title): (&str, &str), pair: (P, P), goal: &Goal) {
    let ratio = median(ratios(rounds, pair, measure)).unwrap_or(f64::NAN);
    let (is_reached, bound) = match goal {
        Goal::AtMost(bound) => (ratio <= *bound, format!("at most {bound:.2}")),
        Goal::AtLeast(bound) => (ratio >= *bound, format!("at least {bound:.2}")),
    };
    let verdict = if is_reached { "reached" } else { "NOT reached" };
    let (one, other) = (pair.0.label(), pair.1.label());
    println!("goal: {title}, {one}/{other} {bound}: {ratio:.2}, {verdict}");
}

fn values<P: Peer>(rounds: &Rounds<P>, peer: P, measure: &str) -> Vec<f64> {
    let runs = rounds.get(&peer).into_iter().flatten();
    runs.filter_map(|run| run.measures.get(measure).copied()).collect()
}

/// The first by the second, round by round.
fn ratios<P: Peer>(rounds: &Rounds<P>, (one, other): (P, P), measure: &str) -> Vec<f64> {
    let ones = values(rounds, one, measure);
    let others = values(rounds, other, measure);
    ones.iter().zip(others).map(|(a, b)| a / b).collect()
}
