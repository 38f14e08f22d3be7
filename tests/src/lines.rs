//! Lines as they are written, by an operator in the test or by a program beside it, to be awaited and asserted on.
//!
//! Promises that a wait ends: with the line, with the end of the writer, or at the deadline, the last two by a panic that
//! shows everything written so far. Must not know who writes.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;

/// A growing list of lines; clones share it.
#[derive(Debug, Clone)]
pub struct Lines {
    shared: Arc<Shared>,
    patience: Duration,
}

#[derive(Debug)]
struct Shared {
    lines: Mutex<Vec<String>>,
    /// Turns true when nobody will write any more; every change is a wake-up.
    ended: watch::Sender<bool>,
}

impl Lines {
    /// No lines yet; waits for one take at most `patience`.
    #[must_use]
    pub fn new(patience: Duration) -> Self {
        let shared = Shared {
            lines: Mutex::default(),
            ended: watch::Sender::new(false),
        };
        Self {
            shared: Arc::new(shared),
            patience,
        }
    }

    /// The same lines, awaited for another time.
    #[must_use]
    pub fn with_patience(&self, patience: Duration) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            patience,
        }
    }

    /// Appends a line.
    pub fn push(&self, line: impl Into<String>) {
        self.shared
            .lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line.into());
        self.shared.ended.send_modify(|_| {});
    }

    /// Says that no line will follow, so that nobody waits in vain.
    pub fn end(&self) {
        self.shared.ended.send_replace(true);
    }

    /// Awaits that nobody will write any more.
    ///
    /// # Panics
    ///
    /// At the deadline, showing all lines.
    pub async fn until_end(&self) {
        let mut changes = self.shared.ended.subscribe();
        let waited = tokio::time::timeout(self.patience, changes.wait_for(|ended| *ended)).await;
        assert!(
            waited.is_ok(),
            "the writer still runs; lines:\n{}",
            self.all().join("\n")
        );
    }

    /// How long is waited for a line.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// All lines so far.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.shared
            .lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How many lines so far satisfy the condition.
    #[must_use]
    pub fn count(&self, condition: impl Fn(&str) -> bool) -> usize {
        self.all().iter().filter(|line| condition(line)).count()
    }

    /// The first line, written already or still to come, that satisfies the condition; `what` names it in a failure.
    ///
    /// # Panics
    ///
    /// At the deadline or at the end of the writer, showing all lines.
    pub async fn until(&self, what: &str, condition: impl Fn(&str) -> bool) -> String {
        let mut changes = self.shared.ended.subscribe();
        let search = async {
            loop {
                let ended = *changes.borrow_and_update();
                if let Some(line) = self.all().into_iter().find(|line| condition(line)) {
                    return Ok(line);
                }
                if ended || changes.changed().await.is_err() {
                    return Err("the writer ended");
                }
            }
        };
        let found = tokio::time::timeout(self.patience, search)
            .await
            .unwrap_or(Err("the deadline passed"));
        found.unwrap_or_else(|why| {
            panic!("no line {what}: {why}; lines:\n{}", self.all().join("\n"))
        })
    }

    /// A subscriber that writes the events of kopf-rs and of the tests here, without times and colours.
    ///
    /// [`crate::play`] makes it the default on all threads of a scenario; elsewhere use `tracing::subscriber::set_default`.
    #[must_use]
    pub fn subscriber(&self) -> impl tracing::Subscriber + Send + Sync + use<> {
        let quiet = [
            "hyper",
            "hyper_util",
            "kube",
            "rustls",
            "tower",
            "tokio_util",
            "h2",
        ];
        let targets = Targets::new()
            .with_default(LevelFilter::DEBUG)
            .with_targets(quiet.map(|target| (target, LevelFilter::WARN)));
        let layer = tracing_subscriber::fmt::layer()
            .without_time()
            .with_ansi(false)
            .with_writer(self.clone());
        tracing_subscriber::registry().with(layer.with_filter(targets))
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter(self)
    }
}

/// Takes one formatted event per write.
#[derive(Debug)]
pub struct LineWriter<'a>(&'a Lines);

impl io::Write for LineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in String::from_utf8_lossy(bytes).lines() {
            self.0.push(line);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_is_awaited_and_found_later_too() {
        let lines = Lines::new(Duration::from_secs(3600));
        let _guard = tracing::subscriber::set_default(lines.subscriber());
        let writer = tokio::spawn(async {
            tokio::time::sleep(Duration::from_secs(1800)).await;
            tracing::info!("[default/a] hello");
        });
        let line = lines
            .until("with hello", |line| line.contains("hello"))
            .await;
        writer.await.unwrap();
        assert!(line.contains("[default/a] hello"), "{line}");
        assert_eq!(lines.count(|line| line.contains("hello")), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_fails_at_the_deadline_and_at_the_end_and_shows_the_lines() {
        for ended in [false, true] {
            let lines = Lines::new(Duration::from_secs(30));
            lines.push("something else");
            if ended {
                lines.end();
            }
            let wait =
                tokio::spawn(
                    async move { lines.until("with hello", |line| line == "hello").await },
                );
            let panic = wait.await.unwrap_err().into_panic();
            let text = panic.downcast_ref::<String>().unwrap();
            let why = if ended {
                "the writer ended"
            } else {
                "the deadline passed"
            };
            assert_eq!(
                *text,
                format!("no line with hello: {why}; lines:\nsomething else")
            );
        }
    }
}
