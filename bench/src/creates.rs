//! Objects created with the operator running, on a server of their own.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::bench_cluster::{BenchCluster, collection, get};
use crate::contender::Contender;
use crate::loader::{self, Created, object};
use crate::observer::{Observer, Seen, Sign};
use crate::operator::Operator;
use crate::options::Options;
use crate::samples::{Run, log_of, real};
use crate::usage::Usage;

pub const NAMESPACE: &str = "bench";
/// Handled before the measurement begins, so that it holds no start and no first connection.
pub const WARM_UP: usize = 20;

/// One run of one contender.
pub async fn run(options: &Options, contender: Contender) -> Result<Run> {
    let command = contender.command(NAMESPACE)?;
    let log = log_of("creates", contender.slug())?;
    measured(options, command, contender.mark(), log).await
}

/// One run of an operator that is started so, and leaves this mark.
pub async fn measured(options: &Options, command: Command, mark: &'static str, log: PathBuf) -> Result<Run> {
    let cluster = BenchCluster::start().await?;
    cluster.namespace(NAMESPACE).await?;
    let objects = collection(NAMESPACE, "benchobjs");
    let observer = Observer::start(&cluster.admin, &objects, Sign::Annotation(mark)).await?;
    let mut operator = Operator::spawn(command, &cluster.kubeconfig(), log)?;
    let warm_up = (0..WARM_UP).map(|number| named("warm-up", number));
    loader::create(&cluster.admin, &objects, options.concurrency, warm_up).await?;
    observer.until(WARM_UP, &mut operator).await?;
    operator.until_rest().await?;

    let (before, asked_before) = (operator.usage()?, cluster.requests());
    let measured = (0..options.objects).map(|number| named("object", number));
    let created = loader::create(&cluster.admin, &objects, options.concurrency, measured).await?;
    let last = observer.until(WARM_UP + options.objects, &mut operator).await?;
    operator.until_rest().await?;
    let (after, asked_after) = (operator.usage()?, cluster.requests());

    let handled = marks(&get(&cluster.admin, &objects).await?, mark)?;
    let expected = WARM_UP + options.objects;
    ensure!(handled == expected, "{handled} of {expected} objects carry the mark in the end");
    let mut run = measures(&created, &observer.finish(), last, (before, after))?;
    run.handled = options.objects;
    run.set_requests(&asked_before, &asked_after, options.objects);
    Ok(run)
}

fn named(stem: &str, number: usize) -> (String, Value) {
    let name = format!("{stem}-{number:05}");
    let body = object(&name, number);
    (name, body)
}

/// What a run comes to, by what the loader has seen and what the operator has used until then and in all.
pub fn measures(created: &Created, seen: &Seen, last: Instant, usage: (Usage, Usage)) -> Result<Run> {
    let mut latencies = Vec::with_capacity(created.acknowledged.len());
    for (name, acknowledged) in &created.acknowledged {
        let Some(marked) = seen.marked.get(name) else {
            anyhow::bail!("{name} was never seen with its mark");
        };
        // The mark may arrive on the watch before the answer to the create does.
        latencies.push(marked.saturating_duration_since(*acknowledged));
    }
    latencies.sort_unstable();
    let objects = real(latencies.len());
    let (before, after) = usage;
    let mut run = Run::default();
    run.set("throughput", objects / (last - created.began).as_secs_f64());
    run.set("create_rate", objects / (created.ended - created.began).as_secs_f64());
    run.set("cpu_us", after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6 / objects);
    run.set("latency_p50_ms", percentile(&latencies, 50).as_secs_f64() * 1e3);
    run.set("latency_p99_ms", percentile(&latencies, 99).as_secs_f64() * 1e3);
    run.set_memory(after);
    run.set("writes", real(seen.modified.saturating_sub(WARM_UP)) / objects);
    Ok(run)
}

/// The smallest value that this share of all does not exceed.
pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Objects of a list that carry the mark.
fn marks(list: &str, mark: &str) -> Result<usize> {
    let list: Value = serde_json::from_str(list)?;
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(items.iter().filter(|item| item["metadata"]["annotations"][mark].is_string()).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let sorted: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&sorted, 50), Duration::from_millis(100));
        assert_eq!(percentile(&sorted, 99), Duration::from_millis(198));
        assert_eq!(percentile(&sorted[..1], 99), Duration::from_millis(1));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }

    #[test]
    fn marks_are_counted_by_their_annotation() {
        let list = r#"{"items":[{"metadata":{"annotations":{"a/b":"x"}}},{"metadata":{}},{"metadata":{"annotations":{"c":"x"}}}]}"#;
        assert_eq!(marks(list, "a/b").unwrap(), 1);
        assert_eq!(marks("{}", "a/b").unwrap(), 0);
    }
}
