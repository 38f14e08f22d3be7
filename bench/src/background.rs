//! The costs of timers and daemons: memory for each, CPU, the delay of their calls, and the delay of other handlers meanwhile.
//!
//! Measures an operator with many objects, of which only a few have a timer or daemon, and again with one for each object; the difference
//! is their cost. The functions print the times of their calls. Must not know how any contender works inside.

mod calls;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::background::calls::Calls;
use crate::bench_cluster::{BenchCluster, collection, post};
use crate::beside_kopf::{prepared, rounds};
use crate::contender::{Contender, kopf_command, release_binary};
use crate::loader::{self, object};
use crate::operator::Operator;
use crate::options::Options;
use crate::report::median;
use crate::samples::{log_of, real};

const PACKAGE: &str = "bench-background";
/// The namespace of objects without a timer or daemon, except for the first ones.
const PLAIN: &str = "plain";
/// The namespace of objects with one each.
const FULL: &str = "full";
/// The number of objects with one each in both namespaces, so that code, connections and buffers for concurrent writes are not part of the
/// difference.
const WARM_UP: usize = 200;
/// The number of objects beside these at first, each with a handler call.
const WARM_UP_PROBES: usize = 5;
/// The deadline for the first call of all objects, which includes the writes of their finalizers.
const DEADLINE: Duration = Duration::from_secs(900);
/// The pause after an operator has come to rest.
const SETTLING: Duration = Duration::from_secs(20);
/// The interval between two probe objects.
const PROBING: Duration = Duration::from_secs(1);
/// The goals for the resident bytes of each timer and each daemon of kopf-rs.
const GOALS: [f64; 2] = [200.0, 2_000.0];
/// With fewer objects, the noise of the page allocation exceeds the measured cost.
const MEANINGFUL: usize = 1_000;

/// The measured kind of handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Timer,
    Daemon,
}

/// The results of one run.
#[derive(Clone, Copy, Debug)]
struct Figures {
    objects: usize,
    bytes_each: f64,
    rss_mib: f64,
    cpu_per_hour: f64,
    calls: usize,
    tick_late: f64,
    create_late: f64,
}

pub async fn run(options: &Options) -> Result<()> {
    let contenders = prepared(options, PACKAGE).await?;
    for sort in [Sort::Timer, Sort::Daemon] {
        print_head(sort, options);
        for contender in contenders.iter().copied() {
            let what = format!("with a {}", sort.label());
            let what = (sort.objects(options), what.as_str());
            let run = async |objects| measured(options, contender, sort, objects).await;
            let figures = rounds(options, contender, what, run).await?;
            print_rows(contender, &figures);
            if contender == Contender::Ours {
                print_goal(sort, &figures);
            }
        }
    }
    Ok(())
}

async fn measured(options: &Options, contender: Contender, sort: Sort, objects: usize) -> Result<Figures> {
    let cluster = BenchCluster::start().await?;
    let all = WARM_UP + objects;
    for (namespace, count) in [(PLAIN, WARM_UP), (FULL, all)] {
        cluster.namespace(namespace).await?;
        let label = |number| if number < count { sort.label() } else { "none" };
        load(&cluster, options, namespace, (label, all)).await?;
    }
    let plain = {
        let (mut operator, _) = started(&cluster, (options, contender), (PLAIN, WARM_UP)).await?;
        probe(&cluster, PLAIN, WARM_UP_PROBES).await?;
        tokio::time::sleep(SETTLING).await;
        operator.must_run()?;
        operator.usage()?.rss_mib
    };
    let (mut operator, log) = started(&cluster, (options, contender), (FULL, all)).await?;
    let (begun, before) = (now(), operator.usage()?);
    let probes = probe(&cluster, FULL, options.window).await?;
    let (ended, after) = (now(), operator.usage()?);
    tokio::time::sleep(SETTLING).await;
    operator.must_run()?;
    let calls = Calls::read(&log)?;
    let window = ended - begun;
    let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64();
    let interval = interval(options)?.as_secs_f64();
    Ok(Figures {
        objects,
        bytes_each: (after.rss_mib - plain) * 1_048_576.0 / real(objects),
        rss_mib: after.rss_mib,
        cpu_per_hour: cpu / window * 3_600.0,
        calls: calls.between(begun, ended),
        tick_late: calls.latest_tick(begun, ended, interval),
        create_late: calls.latest_create(&probes)?,
    })
}

/// Returns the interval between two calls for one object.
fn interval(options: &Options) -> Result<Duration> {
    Ok(Duration::from_secs(u64::try_from(options.interval)?))
}

/// Starts an operator for one namespace, and waits until each object has had its first call. Returns it with its output file.
async fn started(
    cluster: &BenchCluster,
    (options, contender): (&Options, Contender),
    (namespace, objects): (&str, usize),
) -> Result<(Operator, PathBuf)> {
    let (mut operator, log) = start(cluster, options, contender, namespace)?;
    until_called(&mut operator, &log, objects).await?;
    // By then the start is over, and each object has had a call at its own pace.
    tokio::time::sleep(SETTLING + interval(options)?).await;
    operator.must_run()?;
    Ok((operator, log))
}

/// Creates the objects.
async fn load(
    cluster: &BenchCluster,
    options: &Options,
    namespace: &str,
    (label, objects): (impl Fn(usize) -> &'static str, usize),
) -> Result<()> {
    let url = collection(namespace, "benchobjs");
    let all = (0..objects).map(|number| {
        let name = format!("object-{number:05}");
        let mut body = object(&name, number);
        body["metadata"]["labels"] = json!({"bench": label(number)});
        (name, body)
    });
    let created = loader::create(&cluster.admin, &url, options.concurrency, all).await;
    created.map(drop)
}

/// Starts an operator for one namespace, and returns it with its output file.
fn start(
    cluster: &BenchCluster,
    options: &Options,
    contender: Contender,
    namespace: &str,
) -> Result<(Operator, PathBuf)> {
    let mut command = if contender == Contender::Kopf {
        kopf_command(namespace, "background.py")?
    } else {
        let mut command = Command::new(release_binary(PACKAGE));
        command.args(["-n", namespace]);
        command
    };
    command.env("BENCH_INTERVAL", options.interval.to_string());
    let log = log_of(&format!("background-{namespace}"), contender.slug())?;
    let operator = Operator::spawn(command, &cluster.kubeconfig(), log.clone())?;
    Ok((operator, log))
}

/// Waits until each object has had its first call.
async fn until_called(operator: &mut Operator, log: &Path, objects: usize) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    let mut pulse = tokio::time::interval(Duration::from_secs(1));
    loop {
        pulse.tick().await;
        operator.must_run()?;
        let called = Calls::read(log)?.objects();
        if called >= objects {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "only {called} objects had a call within {DEADLINE:?}");
    }
}

/// Creates an object with a creation handler every second, and returns when the server has acknowledged each.
async fn probe(cluster: &BenchCluster, namespace: &str, seconds: usize) -> Result<Vec<(String, f64)>> {
    let url = collection(namespace, "benchobjs");
    let end = Instant::now() + Duration::from_secs(u64::try_from(seconds)?);
    let mut pulse = tokio::time::interval(PROBING);
    let mut probes = Vec::new();
    while Instant::now() < end {
        pulse.tick().await;
        let name = format!("probe-{:05}", probes.len());
        let mut body = object(&name, probes.len());
        body["metadata"]["labels"] = json!({"bench": "probe"});
        post(&cluster.admin, &url, &body).await.context("creating an object meanwhile")?;
        probes.push((name, now()));
    }
    Ok(probes)
}

/// Returns the seconds since 1970; operators print the same clock.
fn now() -> f64 {
    let now = SystemTime::UNIX_EPOCH.elapsed();
    now.unwrap_or_default().as_secs_f64()
}

impl Sort {
    fn label(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Daemon => "daemon",
        }
    }

    fn objects(self, options: &Options) -> usize {
        match self {
            Self::Timer => options.timers,
            Self::Daemon => options.daemons,
        }
    }
}

fn print_head(sort: Sort, options: &Options) {
    println!(
        "{} objects with a {} each, every {} seconds, measured for {} seconds; CPU is extrapolated from these to an hour\n{:<8}{:>7}{:>9}{:>12}{:>12}{:>13}{:>9}{:>15}{:>17}",
        sort.objects(options),
        sort.label(),
        options.interval,
        options.window,
        "",
        "round",
        "objects",
        "bytes each",
        "resident",
        "CPU s/hour",
        "calls",
        "latest call",
        "latest creation"
    );
}

fn print_rows(contender: Contender, figures: &[Figures]) {
    for (at, it) in figures.iter().enumerate() {
        println!(
            "{:<8}{:>7}{:>9}{:>12.0}{:>8.1} MiB{:>13.1}{:>9}{:>12.3} s{:>14.3} s",
            contender.label(),
            at + 1,
            it.objects,
            it.bytes_each,
            it.rss_mib,
            it.cpu_per_hour,
            it.calls,
            it.tick_late,
            it.create_late
        );
    }
}

fn print_goal(sort: Sort, figures: &[Figures]) {
    let goal = GOALS[usize::from(sort == Sort::Daemon)];
    let bytes = median(figures.iter().map(|it| it.bytes_each).collect()).unwrap_or_default();
    let few = figures.first().is_some_and(|it| it.objects < MEANINGFUL);
    let verdict = if few {
        "too few objects to tell"
    } else if bytes <= goal {
        "reached"
    } else {
        "NOT reached"
    };
    println!("goal: at most {goal:.0} bytes for each {}: {bytes:.0}, {verdict}", sort.label());
}
