//! Compares kopf-rs with its peers on a real kube-apiserver, in one command.
//!
//! Runs the same job in the style of each contender, in rotating order, round by round, checks its results, and prints medians and ratios.
//! Gives no verdict on absolute times. Must not know how any contender works inside.

mod background;
mod bench_cluster;
mod beside_kopf;
mod contender;
mod creates;
mod failures;
mod footprint;
mod index;
mod loader;
mod observability;
mod observer;
mod operator;
mod options;
mod peers;
mod report;
mod reviews;
mod samples;
mod start;
mod webapps;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use kopf_rs_apiserver_bench::usage;

use contender::Contender;
use options::{Only, Options, Scenario};
use samples::Samples;

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    if options.only_measures(Only::Failures) {
        return failures::run(&options).await;
    }
    if options.only_measures(Only::Background) {
        return background::run(&options).await;
    }
    if options.only_measures(Only::Index) {
        return index::run(&options).await;
    }
    if options.only_measures(Only::Webapps) {
        return webapps::run(&options).await;
    }
    if options.only_measures(Only::Reviews) {
        return reviews::run(&options).await;
    }
    if options.only_measures(Only::Observability) {
        return observability::run(&options).await;
    }
    let mut samples = Samples::new(&options)?;
    let contenders = prepared(&options, &mut samples).await?;
    if options.runs(Scenario::Creates) {
        creates(&options, &contenders, &mut samples).await?;
    }
    if options.runs(Scenario::Start) {
        start(&options, &contenders, &mut samples).await?;
    }
    if options.runs(Scenario::Footprint) {
        footprint(&options, &contenders, &mut samples).await?;
    }
    print!("{}", report::render(&samples, &options));
    anyhow::ensure!(samples.failures.is_empty(), "{} runs failed", samples.failures.len());
    Ok(())
}

/// Builds all contenders; skips one whose language is missing here, and reports it at the end.
async fn prepared(options: &Options, samples: &mut Samples) -> Result<Vec<Contender>> {
    let mut ready = Vec::new();
    for contender in options.contenders() {
        say(&format!("preparing {}", contender.label()));
        match tokio::task::spawn_blocking(move || contender.prepare()).await? {
            Ok(()) => ready.push(contender),
            Err(error) if contender == Contender::Kopf => {
                samples.skipped.push(format!("{}: {error:#}", contender.label()));
            }
            Err(error) => return Err(error.context(format!("preparing {}", contender.label()))),
        }
    }
    Ok(ready)
}

async fn creates(options: &Options, contenders: &[Contender], samples: &mut Samples) -> Result<()> {
    for (round, contender) in turns(options.rounds, contenders) {
        say(&format!("round {round}: creates, {}", contender.label()));
        let run = creates::run(options, contender).await;
        samples.take(Scenario::Creates, contender, round, run)?;
    }
    Ok(())
}

async fn start(options: &Options, contenders: &[Contender], samples: &mut Samples) -> Result<()> {
    say(&format!("loading {} handled objects per contender", options.start));
    let mut stage = start::Stage::set(options, contenders).await.context("loading handled objects")?;
    for (round, contender) in turns(options.rounds, contenders) {
        say(&format!("round {round}: start, {}", contender.label()));
        let run = stage.run(contender).await;
        samples.take(Scenario::Start, contender, round, run)?;
    }
    Ok(())
}

async fn footprint(options: &Options, contenders: &[Contender], samples: &mut Samples) -> Result<()> {
    let contenders: Vec<_> = contenders.iter().copied().filter(|one| one.my_app().is_some()).collect();
    let stage = footprint::Stage::set(&contenders).await.context("preparing the MyApp operators")?;
    for (round, contender) in turns(options.rounds, &contenders) {
        say(&format!("round {round}: clean debug build and idle memory, {}", contender.label()));
        let run = stage.run(contender).await;
        samples.take(Scenario::Footprint, contender, round, run)?;
    }
    Ok(())
}

/// Returns every contender once per round, and starts each round with another one.
fn turns(rounds: usize, contenders: &[Contender]) -> Vec<(usize, Contender)> {
    let many = contenders.len();
    let turn = |round: usize| (0..many).map(move |place| (round + 1, contenders[(round + place) % many]));
    (0..rounds).flat_map(turn).collect()
}

/// Prints progress to standard error, so that standard output contains only the table.
fn say(line: &str) {
    eprintln!("bench: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_begins_with_another_contender() {
        let order = turns(3, &[Contender::Ours, Contender::KubeRs, Contender::Floor]);
        let firsts: Vec<_> = order.chunks(3).map(|round| round[0].1).collect();
        assert_eq!(firsts, [Contender::Ours, Contender::KubeRs, Contender::Floor]);
        assert_eq!(order.len(), 9);
    }
}
