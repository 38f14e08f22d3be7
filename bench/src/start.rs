//! Starts of an operator with objects that were handled before.
//!
//! All contenders share one server, each with a namespace full of objects that carry its own marks. The contender handles one object
//! itself; the others are copies of it with other names, so each contender meets exactly the objects that it would have written. A few
//! probes without a mark are spread evenly among them. A start is complete when all probes are handled and the operator rests. The scenario
//! checks that only the probes were written.

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use serde_json::{Map, Value, json};

use crate::bench_cluster::{BenchCluster, collection, delete, get, patch, post};
use crate::contender::Contender;
use crate::loader::{self, object};
use crate::observer::{Observer, Sign};
use crate::operator::Operator;
use crate::options::Options;
use crate::samples::{Run, log_of};

/// The number of objects without a mark among the handled ones.
const PROBES: usize = 20;

/// A server with all the handled objects.
pub struct Stage {
    cluster: BenchCluster,
    objects: usize,
    concurrency: usize,
}

impl Stage {
    /// Creates the handled objects of every contender.
    pub async fn set(options: &Options, contenders: &[Contender]) -> Result<Self> {
        let stage = Self {
            cluster: BenchCluster::start().await?,
            objects: options.start,
            concurrency: options.concurrency,
        };
        for contender in contenders {
            stage.cluster.namespace(contender.slug()).await?;
            let handled = stage.handled_once(*contender).await.with_context(|| contender.label())?;
            stage.copies(*contender, &handled).await?;
        }
        Ok(stage)
    }

    /// Returns an object that the contender has handled.
    async fn handled_once(&self, contender: Contender) -> Result<Value> {
        let objects = collection(contender.slug(), "benchobjs");
        let observer =
            Observer::start(&self.cluster.admin, &objects, Sign::Annotation(contender.mark())).await?;
        let mut operator = self.operator(contender)?;
        let first = [("first".to_owned(), object("first", 0))];
        loader::create(&self.cluster.admin, &objects, 1, first.into_iter()).await?;
        observer.until(1, &mut operator).await?;
        operator.until_rest().await?;
        let url = format!("{objects}/first");
        let handled = get(&self.cluster.admin, &url).await?;
        delete(&self.cluster.admin, &url).await?;
        Ok(serde_json::from_str(&handled)?)
    }

    /// Creates the copies in the same two steps as the original: the loader creates each, then marks it with the operator's field manager.
    async fn copies(&self, contender: Contender, handled: &Value) -> Result<()> {
        let objects = &collection(contender.slug(), "benchobjs");
        let mark = &mark_of(handled)?;
        let query = format!("fieldManager={}", marker_of(handled)?);
        let query = &query;
        let many = (0..self.objects).map(|number| async move {
            let name = format!("object-{number:06}");
            post(&self.cluster.admin, objects, &object(&name, 0)).await?;
            patch(&self.cluster.admin, &format!("{objects}/{name}?{query}"), mark).await
        });
        let mut running = futures::stream::iter(many).buffer_unordered(self.concurrency);
        while let Some(done) = running.next().await {
            done.context("loading handled objects")?;
        }
        let last = format!("{objects}/object-{:06}", self.objects - 1);
        let stored: Value = serde_json::from_str(&get(&self.cluster.admin, &last).await?)?;
        let (stored, handled) = (timeless(&stored), timeless(handled));
        for (part, original) in &handled {
            ensure!(
                stored.get(part) == Some(original),
                "{last} differs from the original in {part}: {original}"
            );
        }
        Ok(())
    }

    fn operator(&self, contender: Contender) -> Result<Operator> {
        Operator::spawn(
            contender.command(contender.slug())?,
            &self.cluster.kubeconfig(),
            log_of("start", contender.slug())?,
        )
    }

    /// Starts one contender once.
    pub async fn run(&mut self, contender: Contender) -> Result<Run> {
        let objects = collection(contender.slug(), "benchobjs");
        let probes = (0..PROBES).map(|number| {
            // The first lies after the first object, the last after the last one.
            let place = (self.objects - 1) * number / (PROBES - 1);
            let name = format!("object-{place:06}-probe-{number:02}");
            let body = object(&name, 0);
            (name, body)
        });
        let probes = loader::create(&self.cluster.admin, &objects, self.concurrency, probes).await?;
        let run = self.measure(contender, &objects).await;
        for name in probes.acknowledged.keys() {
            delete(&self.cluster.admin, &format!("{objects}/{name}")).await?;
        }
        run
    }

    async fn measure(&self, contender: Contender, objects: &str) -> Result<Run> {
        let observer =
            Observer::start(&self.cluster.admin, objects, Sign::Annotation(contender.mark())).await?;
        let mut operator = self.operator(contender)?;
        let last = observer.until(PROBES, &mut operator).await?;
        let rest = operator.until_rest().await?;
        let usage = operator.usage()?;
        let started = operator.started;
        drop(operator);
        let seen = observer.finish();
        ensure!(seen.modified == PROBES, "{} writes for {PROBES} unhandled objects", seen.modified);

        let mut run = Run { handled: PROBES, ..Run::default() };
        run.set("seen_s", (last - started).as_secs_f64());
        run.set("rest_s", (rest.max(last) - started).as_secs_f64());
        run.set("cpu_s", usage.cpu.as_secs_f64());
        run.set_memory(usage);
        Ok(run)
    }
}

/// Returns the operator's changes as a patch.
fn mark_of(handled: &Value) -> Result<Value> {
    let metadata = handled["metadata"].as_object().context("an object without metadata")?;
    let written =
        |(key, _): &(&String, &Value)| ["annotations", "labels", "finalizers"].contains(&key.as_str());
    let written: Map<_, _> =
        metadata.iter().filter(written).map(|(key, value)| (key.clone(), value.clone())).collect();
    Ok(json!({"metadata": written}))
}

/// Returns the field manager that wrote the annotations.
fn marker_of(handled: &Value) -> Result<&str> {
    let managers =
        handled["metadata"]["managedFields"].as_array().context("an object without managedFields")?;
    let marker = managers.iter().find(|one| one["fieldsV1"]["f:metadata"]["f:annotations"].is_object());
    marker.and_then(|one| one["manager"].as_str()).context("nobody manages the annotations")
}

/// Returns spec and metadata without the fields that differ between any two objects.
fn timeless(object: &Value) -> Map<String, Value> {
    let mut parts = object["metadata"].as_object().cloned().unwrap_or_default();
    for own in ["name", "uid", "resourceVersion", "creationTimestamp", "generation"] {
        parts.remove(own);
    }
    if let Some(managers) = parts.get_mut("managedFields").and_then(Value::as_array_mut) {
        for manager in managers.iter_mut().filter_map(Value::as_object_mut) {
            manager.remove("time");
        }
        // The server orders these by time in whole seconds.
        managers.sort_by_key(ToString::to_string);
    }
    parts.insert("spec".to_owned(), object["spec"].clone());
    parts
}
