//! Scenarios that only this project and Kopf run, each with the largest possible number of objects.
//!
//! Must not know the measurement.

use anyhow::Result;

use crate::contender::{Contender, build_release};
use crate::options::Options;
use crate::say;

/// The divisor of the number of objects when Kopf fails with all of them.
const PART: usize = 5;

/// Builds or installs the selected contenders among these two, and returns them.
pub async fn prepared(options: &Options, package: &'static str) -> Result<Vec<Contender>> {
    let all = options.contenders().into_iter();
    let contenders: Vec<_> = all.filter(|one| matches!(one, Contender::Ours | Contender::Kopf)).collect();
    for contender in &contenders {
        let contender = *contender;
        say(&format!("preparing {}", contender.label()));
        let prepared = tokio::task::spawn_blocking(move || match contender {
            Contender::Kopf => contender.prepare(),
            _ => build_release(package),
        });
        prepared.await??;
    }
    Ok(contenders)
}

/// Returns the results of all rounds of a contender with this number of objects, or fewer if Kopf fails with all of them.
pub async fn rounds<T>(
    options: &Options,
    contender: Contender,
    (mut objects, what): (usize, &str),
    measured: impl AsyncFn(usize) -> Result<T>,
) -> Result<Vec<T>> {
    let label = contender.label();
    let mut all = Vec::new();
    while all.len() < options.rounds {
        let round = all.len() + 1;
        say(&format!("round {round}: {objects} objects {what}, {label}"));
        match measured(objects).await {
            Ok(figures) => all.push(figures),
            Err(error) if contender == Contender::Kopf && objects >= PART => {
                println!("{label} cannot go on with {objects} objects: {error:#}");
                objects /= PART;
                all.clear();
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}
