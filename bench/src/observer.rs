//! The loader's watch, which records when each object gets its mark, and counts all writes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::{AsyncBufRead, AsyncBufReadExt as _};
use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::bench_cluster::{get, request};
use crate::operator::Operator;

/// The time after which an operator without progress counts as stalled.
const STALLED: Duration = Duration::from_secs(60);

/// The number of watches without a line in a row after which the observer gives up.
const PATIENCE: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);

type Lines = Pin<Box<dyn AsyncBufRead + Send>>;

/// The position from which a watch continues.
struct Place {
    client: Client,
    collection: String,
    version: String,
}

/// A watch that starts before the changes that it observes.
#[derive(Debug)]
pub struct Observer {
    seen: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    seen: Mutex<Seen>,
    changes: watch::Sender<()>,
}

/// The observations so far.
#[derive(Debug, Default)]
pub struct Seen {
    /// The time at which each object was first seen with the mark.
    pub marked: HashMap<String, Instant>,
    /// The number of changes, marks included.
    pub modified: usize,
    ended: Option<String>,
}

/// The sign of a handled object.
#[derive(Debug, Clone, Copy)]
pub enum Sign {
    /// The object has this annotation.
    Annotation(&'static str),
    /// The object exists.
    Existence,
    /// The object has a status with its present generation.
    Status,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: Object<'a>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(rename = "observedGeneration")]
    observed_generation: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(rename = "resourceVersion", borrow, default)]
    version: Cow<'a, str>,
    #[expect(clippy::zero_sized_map_values, reason = "serde skips a value only where its type says so")]
    #[serde(borrow, default)]
    annotations: HashMap<Cow<'a, str>, IgnoredAny>,
}

impl Observer {
    /// Watches a collection from now on.
    pub async fn start(client: &Client, collection: &str, sign: Sign) -> Result<Self> {
        let now: serde_json::Value =
            serde_json::from_str(&get(client, &format!("{collection}?limit=1")).await?)?;
        let version =
            now["metadata"]["resourceVersion"].as_str().context("a list without resourceVersion")?;
        let first =
            Place { client: client.clone(), collection: collection.to_owned(), version: version.to_owned() };
        // Open the watch before any creation, so that a refusal is reported at once.
        let lines = first.lines().await.context("the loader's watch")?;
        let seen = Arc::new(Shared { seen: Mutex::default(), changes: watch::Sender::new(()) });
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let why = shared.follow(first, Box::pin(lines), sign).await;
            shared.lock().ended = Some(format!("{why:#}"));
            shared.changes.send_replace(());
        });
        Ok(Self { seen, task })
    }

    /// Waits for this number of marked objects, and returns when the last of them was seen. Fails if the operator ends or stalls.
    pub async fn until(&self, many: usize, operator: &mut Operator) -> Result<Instant> {
        let mut changes = self.seen.changes.subscribe();
        let mut reported = 0;
        let mut since = Instant::now();
        loop {
            changes.borrow_and_update();
            let marked = {
                let seen = self.seen.lock();
                if let Some(why) = &seen.ended {
                    bail!("the loader's watch ended: {why}");
                }
                if seen.marked.len() >= many {
                    return seen.marked.values().max().copied().context("no marks to wait for");
                }
                seen.marked.len()
            };
            if marked > reported {
                (reported, since) = (marked, Instant::now());
            }
            operator.must_run()?;
            if since.elapsed() > STALLED {
                bail!(
                    "{marked} of {many} objects handled, then nothing for {STALLED:?}; it said:\n{}",
                    operator.last_words()
                );
            }
            // A timeout is not a failure, but a chance to check the operator.
            let _ = tokio::time::timeout(Duration::from_millis(200), changes.changed()).await;
        }
    }

    /// Ends the watch, and returns its observations.
    pub fn finish(self) -> Seen {
        self.task.abort();
        std::mem::take(&mut *self.seen.lock())
    }
}

impl Place {
    async fn lines(&self) -> Result<impl AsyncBufRead + Send + use<>> {
        let Self { client, collection, version } = self;
        let url = format!("{collection}?watch=true&resourceVersion={version}&timeoutSeconds=3600");
        Ok(client.request_stream(request("GET", &url, Vec::new())?).await?)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows a watch and restarts it when it ends, because a new server ends some watches while it settles. Continues after the last
    /// line, so no event is lost.
    async fn follow(&self, mut place: Place, mut lines: Lines, sign: Sign) -> anyhow::Error {
        let mut line = Vec::new();
        let mut failures = 0;
        loop {
            line.clear();
            let problem = match lines.read_until(b'\n', &mut line).await {
                Ok(0) => "the server ended it".to_owned(),
                Ok(_) => match self.take(&line, sign) {
                    Ok(version) => {
                        failures = 0;
                        place.version = version;
                        continue;
                    }
                    Err(error) => return error,
                },
                Err(error) => error.to_string(),
            };
            failures += 1;
            if failures > PATIENCE {
                return anyhow::anyhow!(problem);
            }
            tokio::time::sleep(PAUSE).await;
            if let Ok(again) = place.lines().await {
                lines = Box::pin(again);
            }
        }
    }

    /// Processes a line, and returns the version from which to continue.
    fn take(&self, line: &[u8], sign: Sign) -> Result<String> {
        let now = Instant::now();
        let Line { kind, object } = serde_json::from_slice(line).context("a watch line")?;
        let signed = match sign {
            Sign::Annotation(key) => object.metadata.annotations.contains_key(key),
            Sign::Existence => true,
            Sign::Status => object.status.observed_generation.is_some(),
        };
        match &*kind {
            "ERROR" => bail!("{}", String::from_utf8_lossy(line)),
            "ADDED" | "MODIFIED" => {
                let mut seen = self.lock();
                seen.modified += usize::from(kind == "MODIFIED");
                if signed {
                    seen.marked.entry(object.metadata.name.into_owned()).or_insert(now);
                }
            }
            _ => return Ok(object.metadata.version.into_owned()),
        }
        self.changes.send_replace(());
        Ok(object.metadata.version.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_taken_at_its_first_sight_and_writes_are_counted() {
        let shared = Shared { seen: Mutex::default(), changes: watch::Sender::new(()) };
        let sign = Sign::Annotation("x/handled");
        let lines = [
            r#"{"type":"ADDED","object":{"metadata":{"name":"a","annotations":{"y/handled":"1"}}}}"#,
            r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","annotations":{"x/handled":"{\"n\":1}"}}}}"#,
            r#"{"type":"MODIFIED","object":{"metadata":{"name":"b"}}}"#,
            r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#,
        ];
        for line in lines {
            shared.take(line.as_bytes(), sign).unwrap();
        }
        let seen = shared.lock();
        assert_eq!((seen.marked.len(), seen.modified), (1, 2));
        assert!(seen.marked.contains_key("a"));
        drop(seen);
        let status =
            br#"{"type":"MODIFIED","object":{"metadata":{"name":"c"},"status":{"observedGeneration":1}}}"#;
        shared.take(status, Sign::Status).unwrap();
        shared.take(lines[2].as_bytes(), Sign::Status).unwrap();
        let seen = shared.lock();
        assert!(seen.marked.contains_key("c") && !seen.marked.contains_key("b"));
        drop(seen);
        assert!(shared.take(br#"{"type":"ERROR","object":{"code":410}}"#, sign).is_err());
    }
}
