//! The ledger of known differences in the output of clients; each entry names the row of FIDELITY.md that gives the reason.
//!
//! An entry covers only the lines and commands that it names. Must not know how clients are run.

use std::sync::atomic::{AtomicUsize, Ordering};

use kopf_rs_apiserver_tests::workspace;
use serde::Deserialize;

/// The known differences of a client.
#[derive(Debug)]
pub(super) struct Ledger {
    excuses: Vec<Excuse>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Excuse {
    /// The first words of the row in FIDELITY.md.
    fidelity: String,
    client: String,
    /// The script, for a client with several; absent means all scripts.
    script: Option<String>,
    /// A part of the command; empty means all commands.
    #[serde(default)]
    command: String,
    /// Parts of lines that only one server prints; empty means all lines.
    #[serde(default)]
    lines: Vec<String>,
    #[serde(skip)]
    used: AtomicUsize,
}

// === impl Ledger ===

impl Ledger {
    /// Reads the entries of a client.
    pub(super) fn of(client: &str) -> Self {
        let mut excuses = read();
        excuses.retain(|excuse| excuse.client == client);
        Self { excuses }
    }

    /// Returns the complaints that no entry covers.
    pub(super) fn without_excused(
        &self,
        (script, command): (&str, &str),
        complaints: Vec<String>,
    ) -> Vec<String> {
        let mut left = complaints;
        for excuse in &self.excuses {
            let is_other = excuse.script.as_ref().is_some_and(|it| it != script);
            if is_other || !command.contains(&excuse.command) {
                continue;
            }
            let before = left.len();
            left.retain(|line| !excuse.covers(line));
            if left.len() < before {
                excuse.used.fetch_add(1, Ordering::Relaxed);
            }
        }
        left
    }

    /// Returns the entries that matched no difference.
    pub(super) fn unused(&self) -> Vec<String> {
        let unused = |excuse: &&Excuse| excuse.used.load(Ordering::Relaxed) == 0;
        let shown = |excuse: &Excuse| format!("{}: {}", excuse.client, excuse.command);
        self.excuses.iter().filter(unused).map(shown).collect()
    }
}

// === impl Excuse ===

impl Excuse {
    fn covers(&self, complaint: &str) -> bool {
        self.lines.is_empty() || self.lines.iter().any(|part| complaint.contains(part))
    }
}

fn read() -> Vec<Excuse> {
    let path = workspace().join("tests/clients/ledger.yaml");
    let text = std::fs::read_to_string(path).expect("the ledger is readable");
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("ledger.yaml: {error}"))
}

#[test]
fn the_ledger_is_in_the_paper() {
    let paper = workspace().join("server/FIDELITY.md");
    let text = std::fs::read_to_string(paper).expect("FIDELITY.md is readable");
    let rows = read().into_iter().map(|excuse| excuse.fidelity);
    let missing: Vec<String> = rows
        .filter(|row| !text.contains(&format!("| {row} |")))
        .collect();
    assert_eq!(missing, Vec::<String>::new(), "rows that FIDELITY.md lacks");
}
