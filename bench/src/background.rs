//! What timers and daemons cost: memory for each, CPU, and how late their calls are, and the handlers of others meanwhile.
//!
//! An operator is measured at rest beside objects that have neither, and again beside as many that have one each; the difference is theirs. The
//! functions print when they are called. Must not know how any contender works inside.

mod calls;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::background::calls::Calls;
use crate::bench_cluster::{BenchCluster, collection, post};
use crate::contender::{Contender, build_release, kopf_command, release_binary};
use crate::loader::{self, object};
use crate::operator::Operator;
use crate::options::Options;
use crate::report::median;
use crate::samples::{log_of, real};
use crate::say;

const PACKAGE: &str = "bench-background";
/// Objects without a timer or a daemon.
const PLAIN: &str = "plain";
/// Objects with one each.
const FULL: &str = "full";
/// Until all objects had a call, and their finalizers before that.
const DEADLINE: Duration = Duration::from_secs(900);
/// After an operator has come to rest.
const SETTLING: Duration = Duration::from_secs(20);
/// Between two objects that are created meanwhile.
const PROBING: Duration = Duration::from_secs(1);
/// Where Kopf cannot go on with so many objects, it is measured with this part of them.
const PART: usize = 5;
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
    let all = options.contenders().into_iter();
    let contenders: Vec<_> = all
        .filter(|one| matches!(one, Contender::Ours | Contender::Kopf))
        .collect();
    for contender in &contenders {
        let contender = *contender;
        say(&format!("preparing {}", contender.label()));
        let prepared = tokio::task::spawn_blocking(move || match contender {
            Contender::Kopf => contender.prepare(),
            _ => build_release(PACKAGE),
        });
        prepared.await??;
    }
    for sort in [Sort::Timer, Sort::Daemon] {
        print_head(sort, options);
        for contender in &contenders {
            let figures = rounds(options, *contender, sort).await?;
            print_rows(*contender, &figures);
            if *contender == Contender::Ours {
                print_goal(sort, &figures);
            }
        }
    }
    Ok(())
}

/// All rounds of a contender: of Kopf with fewer objects where it cannot go so far.
async fn rounds(options: &Options, contender: Contender, sort: Sort) -> Result<Vec<Figures>> {
    let mut objects = sort.objects(options);
    let mut all = Vec::new();
    while all.len() < options.rounds {
        let round = all.len() + 1;
        say(&format!(
            "round {round}: {objects} objects with a {}, {}",
            sort.label(),
            contender.label()
        ));
        match measured(options, contender, sort, objects).await {
            Ok(figures) => all.push(figures),
            Err(error) if contender == Contender::Kopf && objects >= PART => {
                println!(
                    "{} cannot go on with {objects} objects: {error:#}",
                    contender.label()
                );
                objects /= PART;
                all.clear();
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

async fn measured(
    options: &Options,
    contender: Contender,
    sort: Sort,
    objects: usize,
) -> Result<Figures> {
    let cluster = BenchCluster::start().await?;
    for (namespace, label) in [(PLAIN, "none"), (FULL, sort.label())] {
        cluster.namespace(namespace).await?;
        load(&cluster, options, namespace, label, objects).await?;
    }
    let plain = {
        let (mut operator, _) = start(&cluster, options, contender, PLAIN)?;
        // A resting operator may also be one that has not begun: its first request comes before its listing.
        tokio::time::sleep(Duration::from_secs(5)).await;
        operator.until_rest().await?;
        tokio::time::sleep(SETTLING).await;
        operator.usage()?.rss_mib
    };
    let (mut operator, log) = start(&cluster, options, contender, FULL)?;
    until_called(&mut operator, &log, objects).await?;
    // What all do at the start is over, and each has had a call at its own pace.
    let interval = Duration::from_secs(u64::try_from(options.interval)?);
    tokio::time::sleep(SETTLING + interval).await;
    operator.must_run()?;
    let (begun, before) = (now(), operator.usage()?);
    let probes = probe(&cluster, options).await?;
    let (ended, after) = (now(), operator.usage()?);
    tokio::time::sleep(SETTLING).await;
    operator.must_run()?;
    let calls = Calls::read(&log)?;
    let window = ended - begun;
    let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64();
    Ok(Figures {
        objects,
        bytes_each: (after.rss_mib - plain) * 1_048_576.0 / real(objects),
        rss_mib: after.rss_mib,
        cpu_per_hour: cpu / window * 3_600.0,
        calls: calls.between(begun, ended),
        tick_late: calls.latest_tick(begun, ended, interval.as_secs_f64()),
        create_late: calls.latest_create(&probes)?,
    })
}

/// Creates the objects.
async fn load(
    cluster: &BenchCluster,
    options: &Options,
    namespace: &str,
    label: &str,
    objects: usize,
) -> Result<()> {
    let url = collection(namespace, "benchobjs");
    let all = (0..objects).map(|number| {
        let name = format!("object-{number:05}");
        let mut body = object(&name, number);
        body["metadata"]["labels"] = json!({"bench": label});
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
    let log = log_of(&format!("background-{namespace}"), contender)?;
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

/// For the window, creates an object every second that is nobody's but a handler's: when the server has acknowledged each.
async fn probe(cluster: &BenchCluster, options: &Options) -> Result<Vec<(String, f64)>> {
    let url = collection(FULL, "benchobjs");
    let end = Instant::now() + Duration::from_secs(u64::try_from(options.window)?);
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
