//! What it costs an operator to tell of itself: the creates, as they are, with metrics that are asked for, and with traces that are sent.
//!
//! Must not know what is in either.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::contender::{Contender, build_release, release_binary};
use crate::creates::{self, NAMESPACE, WARM_UP};
use crate::operator::free_port;
use crate::options::Options;
use crate::peers::{self, Goal, Peer as _, Row, in_turn, keep, prepared, raw};
use crate::samples::{Run, log_of};

/// How often metrics are asked for: a run takes seconds, so this is oftener than Prometheus' default.
const SCRAPED_EVERY: Duration = Duration::from_secs(1);
/// What every page of metrics has.
const FAMILY: &str = "kopf_rs_handler_attempts_total";
/// The root span of a trace.
const ROOT: &[u8] = b"handle benchobjs";
/// Spans wait so long until they are sent, in milliseconds: the last ones go before the operator counts as at rest.
const SENT_AFTER: &str = "400";

const ROWS: [Row; 5] = [
    ("cpu_us", "operator CPU per object, us", 0),
    ("throughput", "objects per second", 0),
    ("peak_mib", "peak memory, MiB", 1),
    ("latency_p50_ms", "create to mark, p50, ms", 1),
    ("latency_p99_ms", "create to mark, p99, ms", 1),
];

const PAIRS: [(Way, Way); 2] = [(Way::Metrics, Way::Plain), (Way::Traces, Way::Plain)];

/// What the operator tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Plain,
    Metrics,
    Traces,
}

pub async fn run(options: &Options) -> Result<()> {
    let programs = prepared(Way::prepare).await?;
    let run = async |way| measured(options, way, &programs[&way]).await;
    let rounds = in_turn(options, "creates", run).await?;
    keep("observability", options, &raw(&rounds))?;
    peers::print_head(options, &PAIRS);
    println!("{} creates with the operator running", options.objects);
    peers::print_rows(&rounds, &ROWS, &PAIRS);
    for pair in PAIRS {
        let measure = ("cpu_us", "CPU per object");
        peers::print_goal(&rounds, measure, pair, &Goal::AtMost(1.03));
    }
    Ok(())
}

async fn measured(options: &Options, way: Way, program: &Path) -> Result<Run> {
    let mut command = Command::new(program);
    let ours = Contender::Ours;
    // The mark has the name of the program otherwise.
    command.args(["-n", NAMESPACE, "--name", "bench-ours"]);
    let told = Arc::new(AtomicUsize::new(0));
    // Its task ends with it.
    let mut beside = JoinSet::new();
    match way {
        Way::Plain => {}
        Way::Metrics => {
            let address = format!("127.0.0.1:{}", free_port()?);
            command.args(["--metrics", &address]);
            beside.spawn(scrape(address, told.clone()));
        }
        Way::Traces => {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let url = format!("http://{}", listener.local_addr()?);
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", url);
            command.env("OTEL_BSP_SCHEDULE_DELAY", SENT_AFTER);
            beside.spawn(receive(listener, told.clone()));
        }
    }
    let log = log_of("observability", way.label())?;
    let mut run = creates::measured(options, command, ours.mark(), log).await?;
    let told = told.load(Ordering::Relaxed);
    run.detail.insert("told".to_owned(), told.into());
    match way {
        Way::Plain => {}
        Way::Metrics => ensure!(told > 0, "there was no page of metrics"),
        Way::Traces => {
            let expected = WARM_UP + options.objects;
            ensure!(told == expected, "{told} of {expected} traces were sent");
        }
    }
    Ok(run)
}

/// Asks for metrics again and again, and counts the pages.
async fn scrape(address: String, pages: Arc<AtomicUsize>) {
    let mut pulse = tokio::time::interval(SCRAPED_EVERY);
    loop {
        pulse.tick().await;
        // Before the operator listens, there is none.
        if page(&address).await.is_ok_and(|page| page.contains(FAMILY)) {
            pages.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn page(address: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let asked = format!(
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAccept: application/openmetrics-text; version=1.0.0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(asked.as_bytes()).await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    Ok(page)
}

/// A collector that takes everything, and counts traces by their root spans.
async fn receive(listener: TcpListener, traces: Arc<AtomicUsize>) {
    let mut clients = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        clients.spawn(take(stream, traces.clone()));
    }
}

async fn take(mut stream: TcpStream, traces: Arc<AtomicUsize>) -> Result<()> {
    let mut input = Vec::new();
    while stream.read_buf(&mut input).await? > 0 {
        while let Some(size) = request_size(&input)?
            && size <= input.len()
        {
            let roots = input[..size].windows(ROOT.len()).filter(|it| *it == ROOT);
            traces.fetch_add(roots.count(), Ordering::Relaxed);
            input.drain(..size);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer).await?;
        }
    }
    Ok(())
}

/// How many bytes the first request has, once its head is there.
fn request_size(input: &[u8]) -> Result<Option<usize>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = request.parse(input)? else {
        return Ok(None);
    };
    let mut headers = request.headers.iter();
    let length = headers.find(|it| it.name.eq_ignore_ascii_case("content-length"));
    let length = length.context("a request without its length")?;
    let length: usize = std::str::from_utf8(length.value)?.parse()?;
    Ok(Some(head + length))
}

impl peers::Peer for Way {
    const ALL: &'static [Self] = &[Self::Plain, Self::Metrics, Self::Traces];

    fn label(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Metrics => "metrics",
            Self::Traces => "traces",
        }
    }
}

impl Way {
    /// Builds the operator. Where its program lies.
    fn prepare(self) -> Result<PathBuf> {
        let package = match self {
            Self::Plain => "bench-ours",
            Self::Metrics | Self::Traces => "bench-observed",
        };
        build_release(package)?;
        Ok(release_binary(package))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_with_its_body() {
        let head = "POST /v1/traces HTTP/1.1\r\nContent-Length: 3\r\n\r\n";
        let size = |text: &str| request_size(text.as_bytes()).unwrap();
        assert_eq!(size(&head[..head.len() - 1]), None);
        assert_eq!(size(head), Some(head.len() + 3));
        assert!(request_size(b"GET / HTTP/1.1\r\n\r\n").is_err());
    }
}
