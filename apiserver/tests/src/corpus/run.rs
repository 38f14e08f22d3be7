//! Compares the answers of two servers to the same scripts.
//!
//! Compares every answer of either server with one of the other. Must not know how scripts are written, nor whether the answers are
//! recorded or fresh.

use std::fmt;
use std::path::Path;

use super::compare::{Difference, Matches};
use super::exchange::Answer;
use super::ledger::Ledger;
use super::script::Script;
use super::told::{Told, told};

/// A request and the differences between its two answers.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The name of the script.
    pub script: String,
    /// The index of the step within the script; `None` for the steps that set the script up.
    pub step: Option<usize>,
    /// The request as the script has it.
    pub request: String,
    /// The request body.
    pub body: String,
    /// The status code of the real server.
    pub code: u16,
    /// The differences that the ledger does not cover.
    pub differences: Vec<Difference>,
    /// The number of differences that the ledger covers.
    pub excused: usize,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} {}", self.script, self.request, self.body)?;
        // If the status codes differ, show only code and message, because the other differences follow from them.
        let telling = |difference: &&Difference| {
            self.differences
                .iter()
                .all(|difference| difference.pointer != "/code")
                || matches!(
                    difference.pointer.as_str(),
                    "/code" | "/body/message" | "/body"
                )
        };
        for difference in self.differences.iter().filter(telling) {
            writeln!(f, "    {difference}")?;
        }
        Ok(())
    }
}

/// Compares the answers of our server and the real one to several scripts.
#[must_use]
pub fn compared_all(
    scripts: &[Script],
    ours: &[Vec<Told>],
    real: &[Vec<Told>],
    ledger: &Ledger,
) -> Vec<Pair> {
    let all = scripts.iter().zip(ours.iter().zip(real));
    all.flat_map(|(script, (ours, real))| compared(script, ours, real, Some(ledger)))
        .collect()
}

/// Compares the answers of two servers to one script.
pub(super) fn compared(
    script: &Script,
    ours: &[Told],
    real: &[Told],
    ledger: Option<&Ledger>,
) -> Vec<Pair> {
    let (mut pairs, mut matches) = (Vec::new(), Matches::default());
    let told = ours.iter().zip(real);
    for (at, (step, (ours, real))) in script.steps().iter().zip(told).enumerate() {
        for (one, two) in paired(&ours.answers, &real.answers) {
            let all = matches.compare(one, two);
            let excused = |difference: &&Difference| {
                ledger.is_some_and(|ledger| ledger.excuses(&script.name, &ours.step, difference))
            };
            let (known, differences): (Vec<&Difference>, Vec<&Difference>) =
                all.iter().partition(excused);
            pairs.push(Pair {
                script: script.name.clone(),
                step: at.checked_sub(script.prelude()),
                request: ours.step.clone(),
                body: step
                    .whole_body()
                    .map(|body| body.to_string())
                    .unwrap_or_default(),
                code: two.code,
                excused: known.len(),
                differences: differences.into_iter().cloned().collect(),
            });
        }
    }
    pairs
}

/// Returns whether a server gave the same answers in two runs, apart from values that depend on the time.
#[must_use]
pub fn same(script: &Script, one: &[Told], two: &[Told]) -> bool {
    unlike(script, one, two).is_empty()
}

/// Returns the differences between a recorded run and a new run of one server. Tolerates parts that a server omits at random in either run.
#[must_use]
pub fn unlike(script: &Script, recorded: &[Told], now: &[Told]) -> Vec<Pair> {
    let back = compared(script, now, recorded, None);
    let pairs = compared(script, recorded, now, None).into_iter().zip(back);
    let differ =
        pairs.filter(|(one, two)| !one.differences.is_empty() && !two.differences.is_empty());
    differ.map(|(one, _)| one).collect()
}

/// Runs one script against two servers at once.
pub(super) async fn run(
    script: &Script,
    ours: &Path,
    real: &Path,
    ledger: Option<&Ledger>,
) -> Vec<Pair> {
    let (ours, real) = tokio::join!(told(script, ours), told(script, real));
    compared(script, &ours, &real, ledger)
}

/// Pairs the answers of two servers. If one side has fewer answers, its last answer is repeated.
fn paired<'a>(
    one: &'a [Answer],
    two: &'a [Answer],
) -> impl Iterator<Item = (&'a Answer, &'a Answer)> {
    let at = |all: &'a [Answer], at: usize| all.get(at).or(all.last());
    (0..one.len().max(two.len())).filter_map(move |index| Some((at(one, index)?, at(two, index)?)))
}
