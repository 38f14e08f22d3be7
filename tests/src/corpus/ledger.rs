//! The ledger: differences that are known, each with the row of FIDELITY.md that gives the reason.
//!
//! Promise: an excuse covers only the pointers, scripts and texts it names. Must not know how answers come about.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::Value;

use super::compare::Difference;

/// Excuses for differences.
#[derive(Debug)]
pub struct Ledger {
    excuses: Vec<Excuse>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Excuse {
    /// The words of FIDELITY.md that this is about.
    fidelity: String,
    /// The name of the script; any where absent. A star stands for anything.
    #[serde(default)]
    script: Option<String>,
    /// Part of the request; any where absent.
    #[serde(default)]
    request: Option<String>,
    /// The pointer; a star stands for anything.
    at: String,
    /// What ours must contain there.
    #[serde(default)]
    ours: Option<String>,
    /// What the real one must contain there.
    #[serde(default)]
    real: Option<String>,
    #[serde(skip)]
    used: AtomicUsize,
}

// === impl Ledger ===

impl Ledger {
    /// Reads the ledger of a folder of scripts.
    ///
    /// # Panics
    ///
    /// Where it is absent or malformed: it is part of the tests.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let text =
            std::fs::read_to_string(folder.join("ledger.yaml")).expect("the ledger is readable");
        let excuses =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("ledger.yaml: {error}"));
        Self { excuses }
    }

    /// Whether a difference is excused.
    pub(super) fn excuses(&self, script: &str, request: &str, difference: &Difference) -> bool {
        let found = self
            .excuses
            .iter()
            .find(|excuse| excuse.covers(script, request, difference));
        if let Some(excuse) = found {
            excuse.used.fetch_add(1, Ordering::Relaxed);
        }
        found.is_some()
    }

    /// Excuses that excused nothing.
    #[must_use]
    pub fn unused(&self) -> Vec<String> {
        // Random scripts do not show all there is each time.
        let random = |excuse: &Excuse| {
            excuse
                .script
                .as_ref()
                .is_some_and(|name| name.starts_with("seed-"))
        };
        let unused = |excuse: &&Excuse| excuse.used.load(Ordering::Relaxed) == 0 && !random(excuse);
        let shown = |excuse: &Excuse| format!("{} at {}", excuse.fidelity, excuse.at);
        self.excuses.iter().filter(unused).map(shown).collect()
    }

    /// Rows the ledger names that FIDELITY.md does not have.
    #[must_use]
    pub fn unexplained(&self, fidelity: &str) -> Vec<String> {
        let rows = self.excuses.iter().map(|excuse| excuse.fidelity.clone());
        rows.filter(|row| !fidelity.contains(&format!("| {row} |")))
            .collect()
    }
}

// === impl Excuse ===

impl Excuse {
    fn covers(&self, script: &str, request: &str, difference: &Difference) -> bool {
        let says = |wanted: &Option<String>, found: &Option<Value>| {
            let text = found.as_ref().map(Value::to_string).unwrap_or_default();
            wanted.as_ref().is_none_or(|wanted| text.contains(wanted))
        };
        self.script.as_ref().is_none_or(|name| fits(name, script))
            && self
                .request
                .as_ref()
                .is_none_or(|part| request.contains(part))
            && fits(&self.at, &difference.pointer)
            && says(&self.ours, &difference.ours)
            && says(&self.real, &difference.real)
    }
}

/// Whether a text is as a pattern with stars says.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|tail| {
            (0..=tail.len())
                .filter(|at| tail.is_char_boundary(*at))
                .any(|at| fits(rest, &tail[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn stars_by_table() {
        for (pattern, text, expected) in [
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("/a/*/b", "/a/1/2/b", true),
            ("/a/*", "/b/1", false),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}
