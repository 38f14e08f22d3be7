//! The story of a history: lines with their virtual times, between those that the operator has logged.
//!
//! This module must not depend on what is told.

use kopf_rs_tests::Lines;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Story {
    began: Instant,
    told: Vec<String>,
    /// The log of the operator, and the number of its lines that are in the story.
    log: Option<(Lines, usize)>,
}

impl Story {
    /// Must be called within the runtime of the history, because the story has the runtime's times.
    pub(crate) fn new(log: Option<&Lines>) -> Self {
        let mut story = Self { began: Instant::now(), told: Vec::new(), log: None };
        story.listen(log);
        story
    }

    /// Includes the log lines from now on.
    pub(crate) fn listen(&mut self, log: Option<&Lines>) {
        self.log = log.map(|log| (log.clone(), 0));
    }

    pub(crate) fn tell(&mut self, line: impl AsRef<str>) {
        if let Some((log, told)) = &mut self.log {
            let lines = log.all();
            self.told.extend(lines[*told..].iter().map(|line| format!("           | {line}")));
            *told = lines.len();
        }
        let now = self.began.elapsed().as_secs_f64();
        self.told.push(format!("{now:>10.3} {}", line.as_ref()));
    }

    pub(crate) fn told(&self) -> Vec<String> {
        self.told.clone()
    }
}
