//! Reviews answered by servers of admission webhooks: ours, controller-runtime's and Kopf's.
//!
//! Each is asked the same by as many connections, each of which asks when it was answered. Promises that every answer was right. Must not know
//! how any of them works inside.

mod asked;
mod server;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kopf_rs_apiserver_bench::connection::{Connection, Place};
use rustls::CipherSuite;
use rustls::crypto::ring;
use serde_json::{Map, json};

use crate::bench_cluster::BenchCluster;
use crate::creates::{NAMESPACE, percentile};
use crate::operator::{Operator, free_port};
use crate::options::Options;
use crate::peers::{self, Goal, Peer as _, Row, in_turn, keep, prepared, raw};
use crate::samples::{Run, log_of, real};
use asked::{Asked, Sort, reviews};
use server::{Certificate, Server};

/// What is asked before the measurement begins.
const WARM_UP: Duration = Duration::from_secs(2);
/// Until a server answers.
const DEADLINE: Duration = Duration::from_secs(60);

const ROWS: [Row; 6] = [
    ("rate", "reviews per second", 0),
    ("cpu_us", "CPU per review, us", 0),
    ("p50_ms", "answer, p50, ms", 2),
    ("p99_ms", "answer, p99, ms", 2),
    ("peak_mib", "peak memory, MiB", 1),
    ("rss_mib", "memory after, MiB", 1),
];

const PAIRS: [(Server, Server); 2] =
    [(Server::Ours, Server::ControllerRuntime), (Server::Ours, Server::Kopf)];

const CASES: [(&str, Sort, usize); 4] = [
    ("validating, 1 kB", Sort::Validating, 1_000),
    ("mutating, 1 kB", Sort::Mutating, 1_000),
    ("validating, 100 kB", Sort::Validating, 100_000),
    ("mutating, 100 kB", Sort::Mutating, 100_000),
];

/// What all runs of a case share.
struct Stage<'a> {
    options: &'a Options,
    cluster: &'a BenchCluster,
    certificate: &'a Certificate,
    sort: Sort,
    asked: Arc<Vec<Asked>>,
}

pub async fn run(options: &Options) -> Result<()> {
    let programs = prepared(Server::prepare).await?;
    let certificate = Certificate::make()?;
    // Servers ask it when they start, and hardly anything while they are measured.
    let cluster = BenchCluster::start().await?;
    cluster.namespace(NAMESPACE).await?;
    let mut samples = Map::new();
    let mut cases = Vec::new();
    for (title, sort, bytes) in CASES {
        let stage = Stage {
            options,
            cluster: &cluster,
            certificate: &certificate,
            sort,
            asked: Arc::new(reviews(bytes)),
        };
        let run = async |server| stage.measured(server, &programs[&server]).await;
        let rounds = in_turn(options, title, run).await?;
        samples.insert(title.to_owned(), raw(&rounds));
        keep("reviews", options, &json!(samples))?;
        cases.push((title, rounds));
    }
    peers::print_head(options, &PAIRS);
    for (title, rounds) in &cases {
        println!("{title}, {} connections", options.concurrency);
        peers::print_rows(rounds, &ROWS, &PAIRS);
    }
    for (title, rounds) in &cases {
        for (row, goal) in [(0, Goal::AtLeast(2.0)), (4, Goal::AtMost(0.5))] {
            let (measure, name, _) = ROWS[row];
            let name = format!("{title}, {name}");
            peers::print_goal(rounds, (measure, &name), PAIRS[0], &goal);
        }
    }
    Ok(())
}

impl Stage<'_> {
    async fn measured(&self, server: Server, program: &Path) -> Result<Run> {
        let port = free_port()?;
        let command = server.command(program, NAMESPACE, self.certificate, port)?;
        let log = log_of("reviews", server.label())?;
        let mut operator = Operator::spawn(command, &self.cluster.kubeconfig(), log)?;
        let mut provider = ring::default_provider();
        // What an API server and a server in Go agree on.
        let suite = CipherSuite::TLS13_AES_128_GCM_SHA256;
        provider.cipher_suites.retain(|it| it.suite() == suite);
        let place = Place::at(
            format!("127.0.0.1:{port}"),
            String::new(),
            vec![self.certificate.der.clone()],
            provider,
        )?;
        let path = server.path(self.sort);
        self.until_ready(&place, path, &mut operator).await?;
        let mut connections = Vec::new();
        for _ in 0..self.options.concurrency {
            connections.push(place.connect().await?);
        }
        let (connections, _) = self.load(connections, path, WARM_UP).await?;
        let before = operator.usage()?;
        let began = Instant::now();
        let window = Duration::from_secs(u64::try_from(self.options.window)?);
        let (_, mut times) = self.load(connections, path, window).await?;
        let seconds = began.elapsed().as_secs_f64();
        operator.must_run()?;
        let after = operator.usage()?;
        times.sort_unstable();
        let many = real(times.len());
        let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64();
        let mut run = Run { handled: times.len(), ..Run::default() };
        run.set("rate", many / seconds);
        run.set("cpu_us", cpu * 1e6 / many);
        run.set("p50_ms", percentile(&times, 50).as_secs_f64() * 1e3);
        run.set("p99_ms", percentile(&times, 99).as_secs_f64() * 1e3);
        run.set_memory(after);
        Ok(run)
    }

    /// Asks until there is an answer, and it is right.
    async fn until_ready(&self, place: &Place, path: &str, operator: &mut Operator) -> Result<()> {
        let deadline = Instant::now() + DEADLINE;
        let asked = &self.asked[0];
        let mut pulse = tokio::time::interval(Duration::from_millis(50));
        loop {
            pulse.tick().await;
            operator.must_run()?;
            let answer = async { place.connect().await?.ask("POST", path, &asked.body).await };
            match answer.await {
                Ok(answer) => return right(self.sort, &answer, asked),
                Err(error) if Instant::now() > deadline => {
                    return Err(error).with_context(|| operator.last_words());
                }
                Err(_) => {}
            }
        }
    }

    /// Asks over all connections for so long; how long each answer has taken.
    async fn load(
        &self,
        connections: Vec<Connection>,
        path: &'static str,
        span: Duration,
    ) -> Result<(Vec<Connection>, Vec<Duration>)> {
        let until = Instant::now() + span;
        let workers = connections.into_iter().enumerate();
        let workers = workers.map(|(first, connection)| {
            let (sort, asked) = (self.sort, self.asked.clone());
            tokio::spawn(work(connection, path, (sort, asked), first, until))
        });
        let (mut connections, mut all) = (Vec::new(), Vec::new());
        for worker in workers.collect::<Vec<_>>() {
            let (connection, times) = worker.await??;
            connections.push(connection);
            all.extend(times);
        }
        Ok((connections, all))
    }
}

/// One review after the other, until the time is over.
async fn work(
    mut connection: Connection,
    path: &'static str,
    (sort, asked): (Sort, Arc<Vec<Asked>>),
    first: usize,
    until: Instant,
) -> Result<(Connection, Vec<Duration>)> {
    let mut times = Vec::new();
    for asked in asked.iter().cycle().skip(first) {
        let began = Instant::now();
        if began >= until {
            break;
        }
        let answer = connection.ask("POST", path, &asked.body).await?;
        times.push(began.elapsed());
        right(sort, &answer, asked)?;
    }
    Ok((connection, times))
}

fn right(sort: Sort, answer: &[u8], asked: &Asked) -> Result<()> {
    ensure!(
        sort.is_right(answer, asked),
        "expected another answer than {} to {:.700}",
        String::from_utf8_lossy(answer),
        asked.body
    );
    Ok(())
}
