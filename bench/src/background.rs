//! What timers and daemons cost: memory for each, CPU, and how late their calls are, and the handlers of others meanwhile.
//!
//! An operator is measured beside objects of which but a few have either, and again beside as many that have one each; the difference is theirs.
//! The functions print when they are called. Must not know how any contender works inside.

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
/// Objects without a timer or a daemon, but for the first ones.
const PLAIN: &str = "plain";
/// Objects with one each.
const FULL: &str = "full";
/// So many have one each in both: code, connections, and memory for as many as are written at a time are no part of the difference.
const WARM_UP: usize = 200;
/// Objects that are created beside these at first, each with a handler that is called.
const WARM_UP_PROBES: usize = 5;
/// Until all objects had a call, and their finalizers before that.
const DEADLINE: Duration = Duration::from_secs(900);
/// After an operator has come to rest.
const SETTLING: Duration = Duration::from_secs(20);
/// Between two objects that are created meanwhile.
const PROBING: Duration = Duration::from_secs(1);
/// Resident bytes for each timer and each daemon of ours.
const GOALS: [f64; 2] = [200.0, 2_000.0];
/// With fewer objects, what pages of memory are taken for differs more than what is measured.
const MEANINGFUL: usize = 1_000;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Timer,
    Daemon,
}

/// One run.
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

async fn measured(
    options: &Options,
    contender: Contender,
    sort: Sort,
    objects: usize,
) -> Result<Figures> {
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

/// Between two calls of one object.
fn interval(options: &Options) -> Result<Duration> {
    Ok(Duration::from_secs(u64::try_from(options.interval)?))
}

/// An operator over one namespace, where each of so many objects has had its first call. With the file that holds what it says.
async fn started(
    cluster: &BenchCluster,
    (options, contender): (&Options, Contender),
    (namespace, objects): (&str, usize),
) -> Result<(Operator, PathBuf)> {
    let (mut operator, log) = start(cluster, options, contender, namespace)?;
    until_called(&mut operator, &log, objects).await?;
    // What all do at the start is over, and each has had a call at its own pace.
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

/// Starts an operator over one namespace; with the file that holds what it says.
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

/// Waits until each object had its first call.
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
        ensure!(
            Instant::now() < deadline,
            "only {called} objects had a call within {DEADLINE:?}"
        );
    }
}

/// Creates an object every second that is nobody's but a handler's: when the server has acknowledged each.
async fn probe(
    cluster: &BenchCluster,
    namespace: &str,
    seconds: usize,
) -> Result<Vec<(String, f64)>> {
    let url = collection(namespace, "benchobjs");
    let end = Instant::now() + Duration::from_secs(u64::try_from(seconds)?);
    let mut pulse = tokio::time::interval(PROBING);
    let mut probes = Vec::new();
    while Instant::now() < end {
        pulse.tick().await;
        let name = format!("probe-{:05}", probes.len());
        let mut body = object(&name, probes.len());
        body["metadata"]["labels"] = json!({"bench": "probe"});
        post(&cluster.admin, &url, &body)
            .await
            .context("creating an object meanwhile")?;
        probes.push((name, now()));
    }
    Ok(probes)
}

/// Seconds since 1970: operators print the same clock.
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
    println!(
        "goal: at most {goal:.0} bytes for each {}: {bytes:.0}, {verdict}",
        sort.label()
    );
}
