//! The printed calls of an operator's functions: `tick NAME SECONDS` and `created NAME SECONDS`.
//!
//! Must not know the other measurements.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The times of calls, by object.
#[derive(Debug, Default)]
pub struct Calls {
    /// The calls of its timer or daemon, in order.
    ticks: BTreeMap<String, Vec<f64>>,
    created: BTreeMap<String, f64>,
}

impl Calls {
    pub fn read(log: &Path) -> Result<Self> {
        let bytes = std::fs::read(log).with_context(|| log.display().to_string())?;
        Ok(Self::of(&String::from_utf8_lossy(&bytes)))
    }

    fn of(text: &str) -> Self {
        let mut calls = Self::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            let (Some(word), Some(name), Some(at), None) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Ok(at) = at.parse::<f64>() else {
                continue;
            };
            match word {
                "tick" => calls.ticks.entry(name.to_owned()).or_default().push(at),
                "created" => {
                    calls.created.insert(name.to_owned(), at);
                }
                _ => {}
            }
        }
        calls
    }

    /// Returns the number of objects with a call of their timer or daemon.
    pub fn objects(&self) -> usize {
        self.ticks.len()
    }

    /// Returns the number of timer or daemon calls between these times.
    pub fn between(&self, begun: f64, ended: f64) -> usize {
        let all = self.ticks.values().flatten();
        all.filter(|at| (begun..ended).contains(*at)).count()
    }

    /// Returns the largest delay of a call, which is the time since the previous call minus the interval. A call that is missing at the end
    /// counts, too.
    pub fn latest_tick(&self, begun: f64, ended: f64, interval: f64) -> f64 {
        let mut latest = 0.0_f64;
        for ticks in self.ticks.values() {
            let next = ticks.iter().skip(1).copied();
            for (former, at) in ticks.iter().zip(next.chain([f64::INFINITY])) {
                let at = at.min(ended);
                if at >= begun {
                    latest = latest.max(at - former - interval);
                }
            }
        }
        latest
    }

    /// Returns the longest time between the server's acknowledgement of an object and the call of its handler.
    pub fn latest_create(&self, probes: &[(String, f64)]) -> Result<f64> {
        let mut latest = 0.0_f64;
        for (name, acknowledged) in probes {
            let at = self.created.get(name);
            let at = at.with_context(|| format!("{name} was not handled"))?;
            latest = latest.max(at - acknowledged);
        }
        Ok(latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str =
        "INFO something else\ntick a 1.0\ntick b 2.0\ntick a 6.5\ncreated p 7.25\ntick a 11.5\ntick a b c\n";

    #[test]
    fn the_latest_call_is_found() {
        let calls = Calls::of(LOG);
        assert_eq!((calls.objects(), calls.between(2.0, 7.0)), (2, 2));
        let late = |ended| (calls.latest_tick(6.0, ended, 5.0) * 1_000.0).round();
        assert!((late(7.0) - 500.0).abs() < 1.0, "of a");
        assert!((late(12.0) - 5_000.0).abs() < 1.0, "of b, which has not come");
    }

    #[test]
    fn creations_that_are_not_handled_are_failures() {
        let calls = Calls::of(LOG);
        let late = calls.latest_create(&[("p".to_owned(), 7.0)]);
        assert!((late.unwrap() - 0.25).abs() < 0.001);
        assert!(calls.latest_create(&[("q".to_owned(), 7.0)]).is_err());
    }
}
