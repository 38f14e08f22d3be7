//! Searches for differences with random scripts, and reduces the scripts that show one.
//!
//! A reduced script still shows the difference that the original one showed. Must not know the expected answers.

use std::path::Path;

use futures_util::StreamExt as _;

use super::generate::generate;
use super::ledger::Ledger;
use super::run::{Pair, run};
use super::script::Script;
use super::shrink::{cut, smaller};
use super::tally::Tally;
use super::told::forget;

/// The number of scripts that run at a time.
const AT_A_TIME: usize = 6;
/// The maximum number of scripts to reduce, because each one takes long.
const SHRUNK: usize = 3;
/// With more differences than this, scripts are not reduced: the cause must be obvious.
const MANY: usize = 12;
/// The maximum number of attempts to reduce one script.
const ATTEMPTS: usize = 60;

/// A difference that the hunt found.
#[derive(Debug, Clone)]
pub struct Catch {
    /// The seed of the script that showed it.
    pub seed: u64,
    /// The difference in the reduced script.
    pub pair: Pair,
    /// The reduced script.
    pub script: Script,
}

/// Runs the scripts of the seeds against both servers. Reduces differing scripts if more answers differ than the `known` number.
pub async fn hunt(
    seeds: &[u64],
    known: usize,
    ours: &Path,
    real: &Path,
    ledger: &Ledger,
) -> (Tally, Vec<Catch>) {
    let runs = seeds.iter().map(|seed| async move {
        let script = generate(*seed);
        let pairs = run(&script, ours, real, Some(ledger)).await;
        tokio::join!(forget(&script, ours), forget(&script, real));
        (*seed, pairs, script)
    });
    let mut found = futures_util::stream::iter(runs).buffer_unordered(AT_A_TIME);
    let (mut pairs, mut catches) = (Vec::new(), Vec::new());
    while let Some((seed, of_seed, script)) = found.next().await {
        if let Some(pair) = differing(&of_seed) {
            catches.push(Catch {
                seed,
                pair: pair.clone(),
                script,
            });
        }
        pairs.extend(of_seed);
    }
    catches.sort_by_key(|catch| catch.seed);
    let tally = Tally::of(&pairs);
    let is_news = tally.different > known && catches.len() <= MANY;
    let few = if is_news { SHRUNK } else { 0 };
    for catch in catches.iter_mut().take(few) {
        shrink(catch, ours, real, ledger).await;
    }
    (tally, catches)
}

/// Returns the first pair that differs.
fn differing(pairs: &[Pair]) -> Option<&Pair> {
    pairs.iter().find(|pair| !pair.differences.is_empty())
}

/// Returns a key that identifies the same difference in other scripts: the method and the pointer.
fn mark(pair: &Pair) -> String {
    let method = pair.request.split(' ').next().unwrap_or_default();
    let first = pair.differences.first();
    let at = first.map(|difference| difference.pointer.as_str());
    format!("{method} {}", at.unwrap_or_default())
}

async fn shrink(catch: &mut Catch, ours: &Path, real: &Path, ledger: &Ledger) {
    let wanted = mark(&catch.pair);
    let last = catch.pair.step.unwrap_or_default();
    let mut best = cut(&catch.script, last);
    let mut attempts = 0;
    let mut at = 0;
    loop {
        let candidates = if attempts == 0 {
            vec![best.clone()]
        } else {
            smaller(&best)
        };
        let Some(candidate) = candidates.get(at) else {
            break;
        };
        if attempts >= ATTEMPTS {
            break;
        }
        attempts += 1;
        let mut candidate = candidate.clone();
        // Definitions are cluster-wide, so each attempt needs its own API group.
        candidate.name = format!("seed-{}-{attempts}", catch.seed);
        let pairs = run(&candidate, ours, real, Some(ledger)).await;
        tokio::join!(forget(&candidate, ours), forget(&candidate, real));
        let found = differing(&pairs).filter(|pair| mark(pair) == wanted);
        if let Some(pair) = found {
            let last = pair.step.unwrap_or_default();
            best = cut(&candidate, last);
            catch.pair = pair.clone();
            catch.script = best.clone();
            at = 0;
        } else if attempts > 1 {
            at += 1;
        } else {
            break;
        }
    }
}
