//! Log lines to be awaited and asserted on: those of a test, or those of a program beside it.
//!
//! Promises that a wait ends: with the line, with the end of the writer, or at the deadline, the last two by a panic that
//! shows everything written so far. Must not know who writes.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;

use crate::testing::deadline::within;

/// A growing list of lines. Clones share it.
#[derive(Clone, Debug)]
pub struct Lines {
    shared: Arc<Shared>,
    patience: Duration,
}

#[derive(Debug)]
pub(super) struct Shared {
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

    pub(super) fn of(shared: Arc<Shared>, patience: Duration) -> Self {
        Self { shared, patience }
    }

    pub(super) fn shared(&self) -> Weak<Shared> {
        Arc::downgrade(&self.shared)
    }

    /// Append a line.
    pub fn push(&self, line: impl Into<String>) {
        self.shared.push(line.into());
    }

    /// Say that no line will follow, so that nobody waits in vain.
    pub fn end(&self) {
        self.shared.ended.send_replace(true);
    }

    /// Wait until nobody will write any more.
    ///
    /// # Panics
    /// At the deadline, showing all lines.
    pub async fn until_end(&self) {
        let mut changes = self.shared.ended.subscribe();
        let waited = within(self.patience, changes.wait_for(|ended| *ended)).await;
        assert!(waited.is_some(), "the writer still runs\n{}", self.shown());
    }

    /// For how long is waited for a line.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// All lines so far.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.shared.all()
    }

    /// How many lines so far satisfy the condition.
    #[must_use]
    pub fn count(&self, condition: impl Fn(&str) -> bool) -> usize {
        self.all().iter().filter(|line| condition(line)).count()
    }

    /// The first line, written already or still to come, that satisfies the condition; `what` names it in a failure.
    ///
    /// # Panics
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
        let found = within(self.patience, search).await;
        let found = found.unwrap_or(Err("the deadline passed"));
        found.unwrap_or_else(|why| panic!("no line {what}: {why}; {}", self.shown()))
    }

    /// All lines, for a failure.
    pub(super) fn shown(&self) -> String {
        let mut shown = "lines:".to_owned();
        for line in self.all() {
            // A String takes everything.
            let _ = write!(shown, "\n{line}");
        }
        shown
    }
}

impl Shared {
    pub(super) fn push(&self, line: String) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line);
        drop(lines);
        self.ended.send_modify(|_| {});
    }

    fn all(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_is_awaited_and_found_later_too() {
        let lines = Lines::new(Duration::from_secs(30));
        let sink = lines.clone();
        let writer = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1800)).await;
            sink.push("[default/a] hello");
        });
        let line = lines.until("with hello", |it| it.contains("hello")).await;
        writer.await.unwrap();
        assert_eq!(line, "[default/a] hello");
        assert_eq!(lines.count(|line| line.contains("hello")), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_fails_at_the_deadline_and_at_the_end_and_shows_the_lines() {
        for (ended, why) in [(false, "the deadline passed"), (true, "the writer ended")] {
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
            let expected = format!("no line with hello: {why}; lines:\nsomething else");
            assert_eq!(*text, expected);
        }
    }
}
