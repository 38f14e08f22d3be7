//! The memory that a burst of failures leaves in an operator.
//!
//! A fresh operator lists handled objects, and a few of them fail, so that all code and every connection is in memory. Its memory at rest
//! is the start value. Then every object changes, and its handler fails: two fifths succeed after some failures, two fifths fail until the
//! next change, one fifth fails permanently. At the end, the operator rests with the same objects, and its resident memory is compared with
//! the start value. There is no comparison with other contenders.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use crate::bench_cluster::{BenchCluster, collection, get, patch};
use crate::contender::{build_release, release_binary, root};
use crate::loader::{self, object};
use crate::operator::Operator;
use crate::options::Options;
use crate::report::median;
use crate::say;
use crate::usage::Usage;

const NAMESPACE: &str = "bench";
const PACKAGE: &str = "bench-failing";
const PREFIX: &str = "bench-failing.kopf.rs/";
/// The name of the operator is that of its package.
const MARK: &str = "bench-failing.kopf.rs/last-handled-configuration";
const MARKER: &str = "bench-failing.kopf.rs/kopf-managed";
/// The number of objects that fail before the start, so that the code and the one-time allocations of failures are in memory.
const WARM_UP: usize = 20;
/// The sorts of `contenders/failing` by an object's number; those in `ENDLESS` fail until the object changes to another sort.
const SORTS: usize = 5;
const ENDLESS: [usize; 2] = [2, 3];
const DEADLINE: Duration = Duration::from_secs(600);
/// The pause after the operator has come to rest.
const SETTLING: Duration = Duration::from_secs(20);
/// The goal for the resident memory at the end, relative to the start.
const GOAL: f64 = 1.10;

/// Resident memory in MiB at the stages of a run.
struct Stages {
    /// After the list of all objects, before any work.
    listed: f64,
    start: f64,
    peak: f64,
    rest: f64,
    end: f64,
}

pub async fn run(options: &Options) -> Result<()> {
    say("building the operator that fails");
    tokio::task::spawn_blocking(|| build_release(PACKAGE)).await??;
    let mut ratios = Vec::new();
    println!(
        "failures of {} objects: resident memory of the operator, MiB\n{:<8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}{:>18}",
        options.failing,
        "round",
        "listed",
        "start",
        "peak",
        "at rest",
        "later",
        "later/start",
        "peak, KiB/object"
    );
    for round in 1..=options.rounds {
        let Stages { listed, start, peak, rest, end } = measured(options).await?;
        println!(
            "{round:<8}{listed:>10.1}{start:>10.1}{peak:>10.1}{rest:>10.1}{end:>10.1}{:>12.2}{:>18.1}",
            end / start,
            (peak - start) * 1024.0 / f64::from(u32::try_from(options.failing)?)
        );
        ratios.push(end / start);
    }
    let ratio = median(ratios).unwrap_or_default();
    let verdict = if ratio <= GOAL { "reached" } else { "NOT reached" };
    println!("goal: memory after the failures at most {GOAL:.2} of the start: {ratio:.2}, {verdict}");
    Ok(())
}

async fn measured(options: &Options) -> Result<Stages> {
    let cluster = BenchCluster::start().await?;
    cluster.namespace(NAMESPACE).await?;
    let objects = collection(NAMESPACE, "benchobjs");
    let (warm_up, burst) = (0..WARM_UP, WARM_UP..WARM_UP + options.failing);
    let all = (0..burst.end).map(|number| (name(number), object(&name(number), number)));
    loader::create(&cluster.admin, &objects, options.concurrency, all).await?;
    say("handling the objects for the first time");
    let mut first = operator(&cluster)?;
    until_done(&cluster, &objects, &mut first, |_| true).await?;
    drop(first);

    let mut operator = operator(&cluster)?;
    // An operator that has not started looks at rest, too: it sends its first request before its list.
    tokio::time::sleep(Duration::from_secs(2)).await;
    operator.until_rest().await?;
    let listed = operator.usage()?.rss_mib;
    fail(&cluster, &objects, options, warm_up, &mut operator).await?;
    operator.until_rest().await?;
    tokio::time::sleep(SETTLING).await;
    let start = operator.usage()?.rss_mib;
    say(&format!("{start:.1} MiB at the start; all objects fail"));
    fail(&cluster, &objects, options, burst, &mut operator).await?;
    operator.until_rest().await?;
    let rest = operator.usage()?.rss_mib;
    tokio::time::sleep(SETTLING).await;
    operator.must_run()?;
    let Usage { rss_mib, peak_mib, .. } = operator.usage()?;
    Ok(Stages { listed, start, peak: peak_mib, rest, end: rss_mib })
}

/// Makes the objects with these numbers fail, each as its sort does, until all have finished.
async fn fail(
    cluster: &BenchCluster,
    objects: &str,
    options: &Options,
    numbers: Range<usize>,
    operator: &mut Operator,
) -> Result<()> {
    // Adding a multiple of `SORTS` changes the number, but not the sort.
    let (once, again) = (SORTS * 100_000, SORTS * 200_000);
    let first = numbers.clone().map(|number| (number, number + once));
    change(cluster, objects, options, first).await?;
    until_done(cluster, objects, operator, |number| !is_endless(number)).await?;
    say("changing what goes on failing");
    let endless = numbers.filter(|number| is_endless(*number));
    let first_sort = endless.map(|number| (number, number / SORTS * SORTS + again));
    change(cluster, objects, options, first_sort).await?;
    until_done(cluster, objects, operator, |_| true).await
}

/// Sets another number in the `spec` of each object.
async fn change(
    cluster: &BenchCluster,
    objects: &str,
    options: &Options,
    numbers: impl Iterator<Item = (usize, usize)>,
) -> Result<()> {
    let changes = numbers.map(|(number, n)| {
        let url = format!("{objects}/{}", name(number));
        async move { patch(&cluster.admin, &url, &json!({"spec": {"n": n}})).await }
    });
    let changes = futures::stream::iter(changes).buffer_unordered(options.concurrency);
    changes.try_collect::<()>().await
}

fn operator(cluster: &BenchCluster) -> Result<Operator> {
    let mut command = std::process::Command::new(release_binary(PACKAGE));
    command.args(["-n", NAMESPACE]);
    let folder = root().join("results/logs");
    std::fs::create_dir_all(&folder)?;
    Operator::spawn(command, &cluster.kubeconfig(), folder.join("failures.log"))
}

fn name(number: usize) -> String {
    format!("object-{number:05}")
}

fn is_endless(number: usize) -> bool {
    ENDLESS.contains(&(number % SORTS))
}

/// Waits until every existing object with a chosen number is handled and has no progress left.
async fn until_done(
    cluster: &BenchCluster,
    objects: &str,
    operator: &mut Operator,
    is_chosen: fn(usize) -> bool,
) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    let mut pulse = tokio::time::interval(Duration::from_secs(1));
    loop {
        pulse.tick().await;
        operator.must_run()?;
        let left = unhandled(&get(&cluster.admin, objects).await?, is_chosen)?;
        if left == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{left} objects are not done within {DEADLINE:?}");
    }
}

fn unhandled(list: &str, is_chosen: fn(usize) -> bool) -> Result<usize> {
    let list: Value = serde_json::from_str(list)?;
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let chosen = items.iter().filter(|item| {
        let number = item["metadata"]["name"].as_str().and_then(|name| name.rsplit_once('-')?.1.parse().ok());
        number.is_some_and(is_chosen)
    });
    Ok(chosen.filter(|item| !is_done(item)).count())
}

/// Returns whether the object's state is the one handled last, and no progress record is left.
fn is_done(object: &Value) -> bool {
    let annotations = &object["metadata"]["annotations"];
    let last = annotations[MARK].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let names = annotations.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let mut records = names.filter(|name| name.starts_with(PREFIX) && *name != MARK && *name != MARKER);
    last.is_some_and(|last| last["spec"] == object["spec"]) && records.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_done_when_it_was_handled_as_it_is_and_carries_no_record() {
        let object = |n: u64, record: &str| {
            json!({"metadata": {"name": "object-00002", "annotations": {
                MARK: r#"{"spec":{"n":1}}"#, MARKER: "yes", record: "{}",
            }}, "spec": {"n": n}})
        };
        assert!(is_done(&object(1, "other/updated")));
        assert!(!is_done(&object(1, "bench-failing.kopf.rs/updated")));
        assert!(!is_done(&object(2, "other/updated")));
        let list = json!({"items": [object(2, "a/b")]}).to_string();
        assert_eq!(unhandled(&list, |_| true).unwrap(), 1);
        assert_eq!(unhandled(&list, |number| !is_endless(number)).unwrap(), 0);
    }
}
