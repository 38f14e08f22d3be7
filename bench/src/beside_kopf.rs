//! Scenarios that only this project and Kopf run, each with as many objects as it can.
//!
//! Must not know what is measured.

use anyhow::Result;

use crate::contender::{Contender, build_release};
use crate::options::Options;
use crate::say;

/// Where Kopf cannot go on with so many objects, it is measured with this part of them.
const PART: usize = 5;

/// What of the two was asked for, built or installed.
pub async fn prepared(options: &Options, package: &'static str) -> Result<Vec<Contender>> {
    let all = options.contenders().into_iter();
    let contenders: Vec<_> = all
        .filter(|one| matches!(one, Contender::Ours | Contender::Kopf))
        .collect();
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

/// All rounds of a contender with so many objects: of Kopf with fewer where it cannot go so far.
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
