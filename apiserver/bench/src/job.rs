//! The job: the requests that every server receives, with their durations.
//!
//! Each measurement starts after the previous one is complete. Must not know which server it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use kopf_rs_apiserver_bench::connection::{Connection, Place};
use kopf_rs_apiserver_bench::{API_VERSION, object, real, usage};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::Figures;
use crate::contender::{Running, Server};
use crate::options::Options;

/// The number of concurrent watches.
const WATCHERS: usize = 100;
/// The number of changes that each watch receives.
const CHANGES: usize = 300;
/// The number of lists of the whole collection.
const LISTS: usize = 5;
/// The deadline for a server to serve a new kind.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);

/// Runs the job on a fresh server.
pub async fn run(options: &Options, server: Server) -> Result<Figures> {
    let running = tokio::task::spawn_blocking(move || server.start()).await??;
    let place = Place::of(&running.kubeconfig).await?;
    let mut job = Job {
        figures: Figures::new(),
        objects: format!("/apis/{API_VERSION}/namespaces/default/benchobjs"),
        place,
        running,
        options,
    };
    let ready = job.running.ready.as_secs_f64() * 1000.0;
    job.figures.insert("ready_ms", ready);
    job.define().await?;
    let idle = job.memory()?;
    job.figures.insert("idle_mib", idle);
    job.writes("POST", "creates_per_s", "create_cpu_us").await?;
    let full = job.memory()?;
    job.figures.insert("full_mib", full);
    job.figures.insert("grown_mib", full - idle);
    job.writes("PATCH", "patches_per_s", "patch_cpu_us").await?;
    job.writes("GET", "gets_per_s", "get_cpu_us").await?;
    job.lists().await?;
    job.fan_out().await?;
    let end = job.memory()?;
    job.figures.insert("end_mib", end);
    Ok(job.figures)
}

struct Job<'a> {
    figures: Figures,
    objects: String,
    place: Place,
    running: Running,
    options: &'a Options,
}

impl Job<'_> {
    /// Defines the kind, and waits until the server serves it.
    async fn define(&self) -> Result<()> {
        let properties = json!({"n": {"type": "integer"}, "text": {"type": "string"}});
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "benchobjs.bench.kopf.rs"},
            "spec": {
                "group": "bench.kopf.rs", "scope": "Namespaced",
                "names": {"kind": "BenchObj", "plural": "benchobjs", "singular": "benchobj"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let mut connection = self.place.connect().await?;
        connection.ask("POST", all, &definition.to_string()).await?;
        let deadline = Instant::now() + SETTLED_WITHIN;
        let mut pulse = tokio::time::interval(Duration::from_millis(20));
        loop {
            pulse.tick().await;
            let mut connection = self.place.connect().await?;
            let probe = object("probe", 0).to_string();
            // A new server lists a kind before it accepts objects of it.
            match connection.ask("POST", &self.objects, &probe).await {
                Ok(_) => break,
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => {}
            }
        }
        let probe = format!("{}/probe", self.objects);
        connection.ask("DELETE", &probe, "").await?;
        Ok(())
    }

    /// Returns the resident memory of the server's processes, in MiB.
    fn memory(&self) -> Result<f64> {
        let mut sum = 0.0;
        for process in &self.running.processes {
            sum += usage::of(*process)?.rss_mib;
        }
        Ok(sum)
    }

    fn cpu(&self) -> Result<Duration> {
        let mut sum = Duration::ZERO;
        for process in &self.running.processes {
            sum += usage::cpu(*process)?;
        }
        Ok(sum)
    }

    /// Sends one write per object, with a fixed number of requests in flight.
    async fn writes(
        &mut self,
        method: &'static str,
        rate: &'static str,
        cost: &'static str,
    ) -> Result<()> {
        let many = self.options.stored;
        let next = Arc::new(AtomicUsize::new(0));
        let connections = (0..self.options.concurrency).map(|_| self.place.connect());
        let connections = try_join_all(connections).await?;
        let before = self.cpu()?;
        let began = Instant::now();
        let workers = connections.into_iter().map(|connection| {
            let (next, objects) = (next.clone(), self.objects.clone());
            tokio::spawn(work(connection, method, objects, next, many))
        });
        for worker in workers.collect::<Vec<_>>() {
            worker.await??;
        }
        let seconds = began.elapsed().as_secs_f64();
        let cpu = self.cpu()?.saturating_sub(before).as_secs_f64();
        self.figures.insert(rate, real(many) / seconds);
        self.figures.insert(cost, cpu * 1e6 / real(many));
        Ok(())
    }

    async fn lists(&mut self) -> Result<()> {
        let mut connection = self.place.connect().await?;
        let mut times = Vec::new();
        for _ in 0..LISTS {
            let began = Instant::now();
            let list = connection.ask("GET", &self.objects, "").await?;
            times.push(began.elapsed().as_secs_f64() * 1000.0);
            let items = list.windows(6).filter(|part| part == b"\"uid\":").count();
            ensure!(items == self.options.stored, "{items} objects are listed");
        }
        times.sort_unstable_by(f64::total_cmp);
        self.figures.insert("list_ms", times[LISTS / 2]);
        Ok(())
    }

    /// Measures changes that many watchers receive.
    async fn fan_out(&mut self) -> Result<()> {
        let mut connection = self.place.connect().await?;
        let page = format!("{}?limit=1", self.objects);
        let page: Value = serde_json::from_slice(&connection.ask("GET", &page, "").await?)?;
        let version = page["metadata"]["resourceVersion"].as_str();
        let version = version.context("a list without resourceVersion")?;
        let url = format!("{}?watch=true&resourceVersion={version}", self.objects);
        let open = Arc::new(Barrier::new(WATCHERS + 1));
        let mut watchers = Vec::new();
        for _ in 0..WATCHERS {
            let connection = self.place.connect().await?;
            watchers.push(tokio::spawn(follow(connection, url.clone(), open.clone())));
        }
        open.wait().await;
        let next = Arc::new(AtomicUsize::new(0));
        let mut writers = Vec::new();
        let began = Instant::now();
        for _ in 0..4 {
            let connection = self.place.connect().await?;
            let (next, objects) = (next.clone(), self.objects.clone());
            writers.push(tokio::spawn(work(
                connection, "MARK", objects, next, CHANGES,
            )));
        }
        for task in writers.into_iter().chain(watchers) {
            task.await??;
        }
        let seconds = began.elapsed().as_secs_f64();
        self.figures
            .insert("events_per_s", real(WATCHERS * CHANGES) / seconds);
        Ok(())
    }
}

/// Takes numbers from a shared counter, and sends one request for each.
async fn work(
    mut connection: Connection,
    method: &'static str,
    objects: String,
    next: Arc<AtomicUsize>,
    many: usize,
) -> Result<()> {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= many {
            return Ok(());
        }
        let name = format!("object-{number:06}");
        let one = format!("{objects}/{name}");
        let (method, path, body) = match method {
            "POST" => ("POST", &objects, object(&name, number).to_string()),
            "PATCH" => (
                "PATCH",
                &one,
                json!({"spec": {"n": number + 1}}).to_string(),
            ),
            "MARK" => {
                let mark = json!({"metadata": {"annotations": {"mark": "1"}}});
                ("PATCH", &one, mark.to_string())
            }
            other => (other, &one, String::new()),
        };
        connection.ask(method, path, &body).await?;
    }
}

/// Reads a watch until it has received all changes.
async fn follow(mut connection: Connection, url: String, open: Arc<Barrier>) -> Result<()> {
    connection.open("GET", &url, "").await?;
    open.wait().await;
    let mut seen = 0;
    while seen < CHANGES {
        let bytes = connection.part().await?;
        ensure!(!bytes.is_empty(), "the watch ended");
        seen += bytes.split(|byte| *byte == b'\n').count() - 1;
    }
    ensure!(seen == CHANGES, "{seen} events of {API_VERSION}");
    Ok(())
}
