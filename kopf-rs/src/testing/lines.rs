//! Log lines that a test can await and assert on, from the test itself or from a separate program.
//!
//! Every wait ends: with the line, with the end of the writer, or at the deadline. The latter two panic and show all
//! lines so far. This module does not depend on the writer.

use std::fmt::Write as _;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
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
    /// True once no more lines can follow. Every change wakes the waiters.
    ended: watch::Sender<bool>,
    operators: watch::Sender<Operators>,
}

/// The operators of a test.
#[derive(Debug, Default)]
struct Operators {
    started: u64,
    running: usize,
    /// Operators that ended with an error which the test has not retrieved yet.
    failed: Vec<(u64, String)>,
}

/// Registration of a running operator; ends when dropped.
#[derive(Debug)]
pub(super) struct RunningOperator {
    shared: Arc<Shared>,
    number: u64,
}

impl Lines {
    /// Creates an empty list, with a time limit for waits.
    #[must_use]
    pub fn new(patience: Duration) -> Self {
        let shared = Shared {
            lines: Mutex::default(),
            ended: watch::Sender::new(false),
            operators: watch::Sender::default(),
        };
        Self { shared: Arc::new(shared), patience }
    }

    /// Returns the same lines with another time limit for waits.
    #[must_use]
    pub fn with_patience(&self, patience: Duration) -> Self {
        Self { shared: Arc::clone(&self.shared), patience }
    }

    pub(super) fn of(shared: Arc<Shared>, patience: Duration) -> Self {
        Self { shared, patience }
    }

    pub(super) fn shared(&self) -> Weak<Shared> {
        Arc::downgrade(&self.shared)
    }

    /// Appends a line.
    pub fn push(&self, line: impl Into<String>) {
        self.shared.push(line.into());
    }

    /// Marks the end of the lines, so that waits fail early.
    pub fn end(&self) {
        self.shared.ended.send_replace(true);
    }

    /// Waits for the end of the lines.
    ///
    /// # Panics
    /// Panics at the deadline, showing all lines.
    pub async fn until_end(&self) {
        let mut changes = self.shared.ended.subscribe();
        let waited = within(self.patience, changes.wait_for(|ended| *ended)).await;
        assert!(waited.is_some(), "the writer still runs\n{}", self.shown());
    }

    /// Returns the time limit for waits.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Returns all lines so far.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.shared.all()
    }

    /// Returns the number of lines so far that satisfy the condition.
    #[must_use]
    pub fn count(&self, condition: impl Fn(&str) -> bool) -> usize {
        self.all().iter().filter(|line| condition(line)).count()
    }

    /// Returns the first line that satisfies the condition; waits for it if necessary. `what` describes it in a
    /// failure message.
    ///
    /// # Panics
    /// Panics at the deadline or at the end of the writer, showing all lines.
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
        let found = self.wait(search).await;
        let in_vain = || {
            let error = self.shared.lost_operator()?;
            Some(format!("the operator has ended: {error}"))
        };
        let found = found.map_or_else(
            || Err(in_vain().unwrap_or_else(|| "the deadline passed".to_owned())),
            |found| found.map_err(str::to_owned),
        );
        found.unwrap_or_else(|why| panic!("no line {what}: {why}; {}", self.shown()))
    }

    /// Returns the output of `wait`; `None` if it takes longer than the limit, or if all operators have ended and one
    /// of them failed.
    pub(super) async fn wait<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        let mut operators = self.shared.operators.subscribe();
        tokio::select! {
            biased;
            done = within(self.patience, wait) => done,
            Ok(_) = operators.wait_for(|it| it.running == 0 && !it.failed.is_empty()) => None,
        }
    }

    /// Describes why a wait failed.
    pub(super) fn in_vain(&self) -> String {
        match self.shared.lost_operator() {
            Some(error) => format!("since the operator has ended: {error}"),
            None => format!("after {:?}", self.patience),
        }
    }

    /// Registers a new operator of this test; returns its number.
    pub(super) fn operator_starts(&self) -> (RunningOperator, u64) {
        let mut number = 0;
        self.shared.operators.send_modify(|operators| {
            operators.started += 1;
            operators.running += 1;
            number = operators.started;
        });
        let shared = Arc::clone(&self.shared);
        (RunningOperator { shared, number }, number)
    }

    /// Discards the error of that operator, because the test has retrieved it or ignores it.
    pub(super) fn forget_operator(&self, number: u64) {
        let operators = &self.shared.operators;
        operators.send_modify(|it| it.failed.retain(|(failed, _)| *failed != number));
    }

    /// Formats all lines for a failure message.
    pub(super) fn shown(&self) -> String {
        let mut shown = "lines:".to_owned();
        for line in self.all() {
            // Writing to a `String` cannot fail.
            let _ = write!(shown, "\n{line}");
        }
        shown
    }
}

impl RunningOperator {
    /// Records the error with which the operator ended.
    pub(super) fn failed(&self, error: String) {
        let failure = (self.number, error);
        self.shared.operators.send_modify(|it| it.failed.push(failure));
    }
}

impl Drop for RunningOperator {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.failed("it has panicked".to_owned());
        }
        self.shared.operators.send_modify(|it| it.running -= 1);
    }
}

impl Shared {
    /// Returns the error of the last operator, if no operator is running.
    fn lost_operator(&self) -> Option<String> {
        let operators = self.operators.borrow();
        let failed = operators.failed.last().filter(|_| operators.running == 0);
        failed.map(|(_, error)| error.clone())
    }

    pub(super) fn push(&self, line: String) {
        let mut lines = self.lines.lock();
        lines.push(line);
        drop(lines);
        self.ended.send_modify(|_| {});
    }

    fn all(&self) -> Vec<String> {
        let lines = self.lines.lock();
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
            let wait = tokio::spawn(async move { lines.until("with hello", |line| line == "hello").await });
            let panic = wait.await.unwrap_err().into_panic();
            let text = panic.downcast_ref::<String>().unwrap();
            let expected = format!("no line with hello: {why}; lines:\nsomething else");
            assert_eq!(*text, expected);
        }
    }
}
