//! Start on objects that were handled before.
//!
//! All contenders share one server, each with a namespace full of objects that carry its own marks: one object is
//! handled by the contender itself, and the others are copies of it under other names, so what each meets is exactly what it
//! wrote. Among them lie a few probes without a mark, spread evenly; a start is complete when all probes are handled and
//! the operator rests. That nothing but the probes was written is checked.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::bed::{Bed, collection, delete, get};
use crate::contender::Contender;
use crate::loader::{self, object};
use crate::observer::{Observer, Sign};
use crate::operator::Operator;
use crate::options::Options;
use crate::samples::{Run, log_of};

/// Objects without a mark among the handled ones.
const PROBES: usize = 20;

/// A server with all the handled objects.
pub struct Stage {
    bed: Bed,
    objects: usize,
    concurrency: usize,
}

impl Stage {
    /// Loads the handled objects of every contender.
    pub async fn set(options: &Options, contenders: &[Contender]) -> Result<Self> {
        let stage = Self {
            bed: Bed::start().await?,
            objects: options.start,
            concurrency: options.concurrency,
        };
        for contender in contenders {
            stage.bed.namespace(contender.slug()).await?;
            let handled = stage
                .handled_once(*contender)
                .await
                .with_context(|| contender.label())?;
            stage.copies(*contender, &handled).await?;
        }
        Ok(stage)
    }

    /// An object as the contender itself leaves it.
    async fn handled_once(&self, contender: Contender) -> Result<Value> {
        let objects = collection(contender.slug(), "benchobjs");
        let observer = Observer::start(
            &self.bed.admin,
            &objects,
            Sign::Annotation(contender.mark()),
        )
        .await?;
        let mut operator = self.operator(contender)?;
        let first = [("first".to_owned(), object("first", 0))];
        loader::create(&self.bed.admin, &objects, 1, first.into_iter()).await?;
        observer.until(1, &mut operator).await?;
        operator.until_rest().await?;
        let url = format!("{objects}/first");
        let handled = get(&self.bed.admin, &url).await?;
        delete(&self.bed.admin, &url).await?;
        Ok(serde_json::from_str(&handled)?)
    }

    async fn copies(&self, contender: Contender, handled: &Value) -> Result<()> {
        let objects = collection(contender.slug(), "benchobjs");
        let many = (0..self.objects).map(|number| {
            let name = format!("object-{number:06}");
            let body = copy(handled, &name);
            (name, body)
        });
        loader::create(&self.bed.admin, &objects, self.concurrency, many).await?;
        let stored: Value = serde_json::from_str(
            &get(&self.bed.admin, &format!("{objects}/object-000000")).await?,
        )?;
        for part in ["annotations", "labels", "finalizers"] {
            ensure!(
                stored["metadata"][part] == handled["metadata"][part],
                "a copy differs from its original in {part}"
            );
        }
        let managers = |object: &Value| {
            object["metadata"]["managedFields"]
                .as_array()
                .map_or(0, Vec::len)
        };
        ensure!(
            managers(&stored) == managers(handled),
            "a copy differs from its original in managedFields"
        );
        Ok(())
    }

    fn operator(&self, contender: Contender) -> Result<Operator> {
        Operator::spawn(
            contender.command(contender.slug()),
            &self.bed.kubeconfig(),
            log_of("start", contender)?,
        )
    }

    /// One start of one contender.
    pub async fn run(&mut self, contender: Contender) -> Result<Run> {
        let objects = collection(contender.slug(), "benchobjs");
        let probes = (0..PROBES).map(|number| {
            // The first just after the first object, the last after the last one.
            let place = (self.objects - 1) * number / (PROBES - 1);
            let name = format!("object-{place:06}-probe-{number:02}");
            let body = object(&name, 0);
            (name, body)
        });
        let probes = loader::create(&self.bed.admin, &objects, self.concurrency, probes).await?;
        let run = self.measure(contender, &objects).await;
        for name in probes.acknowledged.keys() {
            delete(&self.bed.admin, &format!("{objects}/{name}")).await?;
        }
        run
    }

    async fn measure(&self, contender: Contender, objects: &str) -> Result<Run> {
        let observer =
            Observer::start(&self.bed.admin, objects, Sign::Annotation(contender.mark())).await?;
        let mut operator = self.operator(contender)?;
        let last = observer.until(PROBES, &mut operator).await?;
        let rest = operator.until_rest().await?;
        let usage = operator.usage()?;
        let started = operator.started;
        drop(operator);
        let seen = observer.finish();
        ensure!(
            seen.modified == PROBES,
            "{} writes for {PROBES} unhandled objects",
            seen.modified
        );

        let mut run = Run {
            handled: PROBES,
            ..Run::default()
        };
        run.set("seen_s", (last - started).as_secs_f64());
        run.set("rest_s", (rest.max(last) - started).as_secs_f64());
        run.set("cpu_s", usage.cpu.as_secs_f64());
        run.set_memory(usage);
        Ok(run)
    }
}

/// The same object under another name, as a client may create it.
fn copy(handled: &Value, name: &str) -> Value {
    let mut copy = handled.clone();
    if let Some(metadata) = copy["metadata"].as_object_mut() {
        for theirs in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
            metadata.remove(theirs);
        }
        metadata.insert("name".to_owned(), name.into());
    }
    copy
}
