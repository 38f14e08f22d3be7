//! The ledger of known differences; each entry names the row of FIDELITY.md that gives the reason.
//!
//! An entry covers only the pointers, scripts and texts that it names. Must not know how answers come about.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::Value;

use super::compare::Difference;

/// The known differences.
#[derive(Debug)]
pub struct Ledger {
    excuses: Vec<Excuse>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Excuse {
    /// The title of the row in FIDELITY.md.
    fidelity: String,
    /// A pattern for the script name, where `*` matches any text; absent means all scripts.
    #[serde(default)]
    script: Option<String>,
    /// A part of the request; absent means all requests.
    #[serde(default)]
    request: Option<String>,
    /// A pattern for the pointer, where `*` matches any text.
    at: String,
    /// Text that our value must contain.
    #[serde(default)]
    ours: Option<String>,
    /// Text that the real server's value must contain.
    #[serde(default)]
    real: Option<String>,
    #[serde(skip)]
    used: AtomicUsize,
}

// === impl Ledger ===

impl Ledger {
    /// Reads the ledger in a folder of scripts.
    ///
    /// # Panics
    ///
    /// Panics if the file is missing or malformed, because it is part of the tests.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let text =
            std::fs::read_to_string(folder.join("ledger.yaml")).expect("the ledger is readable");
        let excuses =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("ledger.yaml: {error}"));
        Self { excuses }
    }

    /// Returns whether an entry covers a difference.
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

    /// Returns the entries that matched no difference.
    #[must_use]
    pub fn unused(&self) -> Vec<String> {
        // Random scripts do not show every difference in each run, so entries for them may stay unused.
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

    /// Returns the rows that the ledger names but FIDELITY.md lacks.
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

/// Returns whether a text matches a pattern, where `*` matches any text.
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
