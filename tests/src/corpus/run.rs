//! Scripts against both servers, several at a time.
//!
//! Promise: a script's steps run in order, on both servers at once; scripts do not see each other.
//! Must not know how scripts are written.

use std::fmt;
use std::path::Path;

use futures_util::StreamExt as _;

use super::compare::{Difference, Matches};
use super::exchange::{Answer, Side};
use super::ledger::Ledger;
use super::script::{Script, Step};

/// How many scripts run at a time.
const AT_A_TIME: usize = 6;

/// A request and what differs between its two answers.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The script.
    pub script: String,
    /// Which of the script's own steps it was; none for those that come before.
    pub step: Option<usize>,
    /// The request, as the script has it.
    pub request: String,
    /// Its body.
    pub body: String,
    /// The code that the real server answered.
    pub code: u16,
    /// What differs without an excuse.
    pub differences: Vec<Difference>,
    /// How many differences are excused.
    pub excused: usize,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} {}", self.script, self.request, self.body)?;
        // Where the codes differ, the rest follows: code and message tell enough.
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

/// Runs scripts against the servers of two kubeconfig files: ours, and the real one.
pub async fn run_all(scripts: &[Script], ours: &Path, real: &Path, ledger: &Ledger) -> Vec<Pair> {
    let runs = scripts
        .iter()
        .map(|script| run(script, ours, real, Some(ledger)));
    let all: Vec<Vec<Pair>> = futures_util::stream::iter(runs)
        .buffered(AT_A_TIME)
        .collect()
        .await;
    all.into_iter().flatten().collect()
}

/// Runs one script.
pub async fn run(script: &Script, ours: &Path, real: &Path, ledger: Option<&Ledger>) -> Vec<Pair> {
    let (mut ours, mut real) = (Side::new(ours, script).await, Side::new(real, script).await);
    let (mut pairs, mut matches) = (Vec::new(), Matches::default());
    for (at, step) in script.steps().into_iter().enumerate() {
        let (one, two) = tokio::join!(ours.play(&step), real.play(&step));
        let request = described(&step);
        for (one, two) in paired(&one, &two) {
            let all = matches.compare(one, two);
            let excused = |difference: &&Difference| {
                ledger.is_some_and(|ledger| ledger.excuses(&script.name, &request, difference))
            };
            let (known, differences): (Vec<&Difference>, Vec<&Difference>) =
                all.iter().partition(excused);
            pairs.push(Pair {
                script: script.name.clone(),
                step: at.checked_sub(script.prelude()),
                request: request.clone(),
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

/// Removes the kind a script brought: servers become slow with many.
pub(super) async fn forget(script: &Script, ours: &Path, real: &Path) {
    let gone = Step {
        request: "DELETE ${crds}/things.${group}".to_owned(),
        ..Step::default()
    };
    for kubeconfig in [ours, real] {
        Side::new(kubeconfig, script).await.play(&gone).await;
    }
}

/// Answers side by side; where one side has fewer, its last stands for what is missing.
fn paired<'a>(
    one: &'a [Answer],
    two: &'a [Answer],
) -> impl Iterator<Item = (&'a Answer, &'a Answer)> {
    let at = |all: &'a [Answer], at: usize| all.get(at).or(all.last());
    (0..one.len().max(two.len())).filter_map(move |index| Some((at(one, index)?, at(two, index)?)))
}

fn described(step: &Step) -> String {
    if step.take.is_empty() && step.read_up.is_empty() {
        return step.request.clone();
    }
    let watches = step.take.keys().chain(step.read_up.keys());
    let watches: Vec<&str> = watches.map(String::as_str).collect();
    format!("event of {}", watches.join(", "))
}
