//! The command-line options.

use clap::{Parser, ValueEnum};
use serde::Serialize;

use crate::contender::Contender;

/// One of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// Objects created with the operator running.
    Creates,
    /// Start on objects handled before.
    Start,
    /// Build time, size, idle memory.
    Footprint,
}

/// A scenario or a contender, as `--only` takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Only {
    Creates,
    Start,
    Footprint,
    Ours,
    KubeRs,
    Floor,
    RawFloor,
    Kopf,
    /// What a burst of failures leaves in our memory: nothing else runs then.
    Failures,
    /// What timers and daemons cost, ours and Kopf's: nothing else runs then.
    Background,
    /// What an index costs, ours and Kopf's: nothing else runs then.
    Index,
    /// Reconcilers with children and a status, ours, controller-runtime's and kube-rs': nothing else runs then.
    Webapps,
    /// Servers of admission webhooks, ours, controller-runtime's and Kopf's: nothing else runs then.
    Reviews,
    /// What metrics and traces cost us: nothing else runs then.
    Observability,
}

/// Measures kopf-rs, kube-rs' Controller, Kopf and a bare watch-and-PATCH loop on a real kube-apiserver.
#[derive(Debug, Parser, Serialize)]
pub struct Options {
    /// Times that everything is measured.
    #[arg(long, default_value_t = 3, value_parser = positive)]
    pub rounds: usize,
    /// Objects created with the operator running.
    #[arg(long, default_value_t = 2_000, value_parser = positive)]
    pub objects: usize,
    /// Handled objects on which an operator starts.
    #[arg(long, default_value_t = 20_000, value_parser = positive)]
    pub start: usize,
    /// Objects whose handlers fail.
    #[arg(long, default_value_t = 5_000, value_parser = positive)]
    pub failing: usize,
    /// Objects with a timer each.
    #[arg(long, default_value_t = 200, value_parser = positive)]
    pub timers: usize,
    /// Objects with a daemon each.
    #[arg(long, default_value_t = 100, value_parser = positive)]
    pub daemons: usize,
    /// Seconds between the calls of a timer, and between the wake-ups of a daemon.
    #[arg(long, default_value_t = 5, value_parser = positive)]
    pub interval: usize,
    /// Seconds for which timers, daemons and each server of webhooks are measured.
    #[arg(long, default_value_t = 20, value_parser = positive)]
    pub window: usize,
    /// Objects in an index.
    #[arg(long, default_value_t = 20_000, value_parser = positive)]
    pub indexed: usize,
    /// Objects with two children each.
    #[arg(long, default_value_t = 1_000, value_parser = positive)]
    pub apps: usize,
    /// Creates in flight, or reviews.
    #[arg(long, default_value_t = 16, value_parser = positive)]
    pub concurrency: usize,
    /// Scenarios and contenders to run, separated by commas; without any of a sort, all of that sort.
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<Only>,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

impl Options {
    pub fn runs(&self, scenario: Scenario) -> bool {
        let named = |only: &Only| match only {
            Only::Creates => Some(Scenario::Creates),
            Only::Start => Some(Scenario::Start),
            Only::Footprint => Some(Scenario::Footprint),
            _ => None,
        };
        let mut chosen = self.only.iter().filter_map(named).peekable();
        chosen.peek().is_none() || chosen.any(|one| one == scenario)
    }

    /// Returns whether `--only` selects this measurement, which is not a [`Scenario`].
    pub fn only_measures(&self, only: Only) -> bool {
        self.only.contains(&only)
    }

    pub fn contenders(&self) -> Vec<Contender> {
        let named = |only: &Only| match only {
            Only::Ours => Some(Contender::Ours),
            Only::KubeRs => Some(Contender::KubeRs),
            Only::Floor => Some(Contender::Floor),
            Only::RawFloor => Some(Contender::RawFloor),
            Only::Kopf => Some(Contender::Kopf),
            _ => None,
        };
        let chosen: Vec<_> = self.only.iter().filter_map(named).collect();
        let all = Contender::ALL.into_iter();
        all.filter(|one| chosen.is_empty() || chosen.contains(one)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Options {
        Options::parse_from(["bench"].iter().chain(args))
    }

    #[test]
    fn without_only_everything_runs() {
        let all = options(&[]);
        assert!(all.runs(Scenario::Creates) && all.runs(Scenario::Start) && all.runs(Scenario::Footprint));
        assert_eq!(all.contenders(), Contender::ALL);
    }

    #[test]
    fn only_restricts_each_sort_by_itself() {
        let some = options(&["--only", "creates,floor,ours"]);
        assert!(some.runs(Scenario::Creates) && !some.runs(Scenario::Start));
        assert_eq!(some.contenders(), [Contender::Ours, Contender::Floor]);
        assert_eq!(options(&["--only", "start"]).contenders(), Contender::ALL);
        assert!(!options(&[]).only_measures(Only::Background));
        assert!(options(&["--only", "background,ours"]).only_measures(Only::Background));
    }
}
