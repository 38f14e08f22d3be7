//! The costs of an index: memory for each object in it, the delay of the first handler, and lookups.
//!
//! Measures an operator with an index of few objects, and again with one of all objects; the difference is the cost of the others. Must not
//! know how any contender works inside.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::bench_cluster::{API_VERSION, BenchCluster, collection, post};
use crate::beside_kopf::{prepared, rounds};
use crate::contender::{Contender, kopf_command, release_binary};
use crate::loader::{self, object};
use crate::operator::Operator;
use crate::options::Options;
use crate::report::{median, spread};
use crate::samples::{log_of, real};

const PACKAGE: &str = "bench-index";
const FEW: &str = "few";
const ALL: &str = "all";
/// The number of objects in the small index, which suffices to load all code into memory.
const WARM_UP: usize = 20;
/// The deadline for the index to be complete.
const DEADLINE: Duration = Duration::from_secs(900);
/// The pause after the lookups.
const SETTLING: Duration = Duration::from_secs(20);

/// The results of one run.
#[derive(Clone, Copy, Debug)]
struct Figures {
    objects: usize,
    bytes_each: f64,
    rss_mib: f64,
    peak_mib: f64,
    ready_s: f64,
    ready_cpu_s: f64,
    lookups: f64,
}

/// The output of an operator's functions: `ready COUNT TIME` and `lookups COUNT SECONDS`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Printed {
    /// The number of objects in the complete index, and the time.
    ready: Option<(usize, f64)>,
    /// The number of lookups per second.
    lookups: Option<f64>,
}

pub async fn run(options: &Options) -> Result<()> {
    let contenders = prepared(options, PACKAGE).await?;
    println!(
        "an index of {} objects\n{:<8}{:>7}{:>9}{:>12}{:>16}{:>13}{:>11}{:>14}{:>16}",
        options.indexed,
        "",
        "round",
        "objects",
        "bytes each",
        "resident",
        "peak",
        "ready in",
        "CPU until",
        "lookups/s"
    );
    let mut all = Vec::new();
    for contender in contenders {
        let what = (options.indexed, "in an index");
        let run = async |objects| measured(options, contender, objects).await;
        let figures = rounds(options, contender, what, run).await?;
        print_rows(contender, &figures);
        all.push(figures);
    }
    if let [ours, kopf] = &all[..] {
        print_ratios(ours, kopf);
    }
    Ok(())
}

async fn measured(options: &Options, contender: Contender, objects: usize) -> Result<Figures> {
    let cluster = BenchCluster::start().await?;
    for (namespace, count) in [(FEW, WARM_UP), (ALL, WARM_UP + objects)] {
        cluster.namespace(namespace).await?;
        let url = collection(namespace, "benchobjs");
        let all = (0..count).map(|number| {
            let name = format!("object-{number:05}");
            let body = object(&name, number);
            (name, body)
        });
        loader::create(&cluster.admin, &url, options.concurrency, all).await?;
        ask(&cluster, namespace, "ready").await?;
    }
    let few = looked_up(&cluster, contender, (FEW, WARM_UP)).await?;
    let all = looked_up(&cluster, contender, (ALL, WARM_UP + objects)).await?;
    let grown = all.rss_mib - few.rss_mib;
    Ok(Figures { objects, bytes_each: grown * 1_048_576.0 / real(objects), ..all })
}

/// Runs an operator from its start until it has made its lookups and come to rest.
async fn looked_up(
    cluster: &BenchCluster,
    contender: Contender,
    (namespace, objects): (&str, usize),
) -> Result<Figures> {
    let log = log_of(&format!("index-{namespace}"), contender.slug())?;
    let began = now();
    let mut operator = Operator::spawn(command(contender, namespace)?, &cluster.kubeconfig(), log.clone())?;
    let ready = |printed: Printed| printed.ready;
    let (count, at) = until(&mut operator, &log, ready).await?;
    let ready_cpu_s = operator.usage()?.cpu.as_secs_f64();
    ensure!(count == objects, "a handler was called with {count} of {objects} objects in the index");
    ask(cluster, namespace, "lookups").await?;
    let lookups = until(&mut operator, &log, |printed| printed.lookups).await?;
    tokio::time::sleep(SETTLING).await;
    operator.must_run()?;
    let usage = operator.usage()?;
    Ok(Figures {
        objects,
        bytes_each: 0.0,
        rss_mib: usage.rss_mib,
        peak_mib: usage.peak_mib,
        ready_s: at - began,
        ready_cpu_s,
        lookups,
    })
}

/// Creates an object whose handler does what the name says.
async fn ask(cluster: &BenchCluster, namespace: &str, name: &str) -> Result<()> {
    let app = json!({"apiVersion": API_VERSION, "kind": "MyApp", "metadata": {"name": name}, "spec": {}});
    post(&cluster.admin, &collection(namespace, "myapps"), &app).await
}

fn command(contender: Contender, namespace: &str) -> Result<Command> {
    if contender == Contender::Kopf {
        return kopf_command(namespace, "index.py");
    }
    let mut command = Command::new(release_binary(PACKAGE));
    command.args(["-n", namespace]);
    Ok(command)
}

/// Waits until the operator has printed a value.
async fn until<T>(operator: &mut Operator, log: &Path, wanted: impl Fn(Printed) -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + DEADLINE;
    let mut pulse = tokio::time::interval(Duration::from_millis(20));
    loop {
        pulse.tick().await;
        operator.must_run()?;
        if let Some(found) = wanted(Printed::read(log)?) {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "no handler was called within {DEADLINE:?}");
    }
}

/// Returns the seconds since 1970; operators print the same clock.
fn now() -> f64 {
    let now = SystemTime::UNIX_EPOCH.elapsed();
    now.unwrap_or_default().as_secs_f64()
}

impl Printed {
    fn read(log: &Path) -> Result<Self> {
        let bytes = std::fs::read(log).with_context(|| PathBuf::from(log).display().to_string())?;
        Ok(Self::of(&String::from_utf8_lossy(&bytes)))
    }

    fn of(text: &str) -> Self {
        let mut printed = Self::default();
        for line in text.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let [word, count, seconds] = words[..] else {
                continue;
            };
            let (Ok(count), Ok(seconds)) = (count.parse(), seconds.parse::<f64>()) else {
                continue;
            };
            match word {
                "ready" => printed.ready = Some((count, seconds)),
                "lookups" => printed.lookups = Some(real(count) / seconds),
                _ => {}
            }
        }
        printed
    }
}

fn print_rows(contender: Contender, figures: &[Figures]) {
    for (at, it) in figures.iter().enumerate() {
        println!(
            "{:<8}{:>7}{:>9}{:>12.0}{:>12.1} MiB{:>9.1} MiB{:>9.2} s{:>12.2} s{:>16.0}",
            contender.label(),
            at + 1,
            it.objects,
            it.bytes_each,
            it.rss_mib,
            it.peak_mib,
            it.ready_s,
            it.ready_cpu_s,
            it.lookups
        );
    }
}

/// Prints the ratios by round, if both contenders have had the same number of objects.
fn print_ratios(ours: &[Figures], kopf: &[Figures]) {
    let measures: [(&str, fn(&Figures) -> f64); 4] = [
        ("bytes each", |it| it.bytes_each),
        ("ready in", |it| it.ready_s),
        ("CPU until", |it| it.ready_cpu_s),
        ("lookups/s", |it| it.lookups),
    ];
    for (title, of) in measures {
        let pairs = ours.iter().zip(kopf);
        let pairs = pairs.filter(|(ours, kopf)| ours.objects == kopf.objects);
        let ratios: Vec<_> = pairs.map(|(ours, kopf)| of(ours) / of(kopf)).collect();
        if median(ratios.clone()).is_some() {
            println!("ours/Kopf, {title}: {}", spread(ratios));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_among_other_lines() {
        let text = "[INFO] ready to go\nready 20 1.5\nlookups 300 2\nlookups x 2\n";
        let expected = Printed { ready: Some((20, 1.5)), lookups: Some(150.0) };
        assert_eq!(Printed::of(text), expected);
        assert_eq!(Printed::of("ready"), Printed::default());
    }
}
