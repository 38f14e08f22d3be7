//! The ledger: each numbered scenario and defect of Kopf, and each row of the deviation table, with the test that covers it.
//!
//! The test fails if `tests/ledger.yaml` lacks a number, if no test run covers a number, or if a row is not in the table that users read.
//! With `--nocapture`, it prints the runs that cover each number.

use std::collections::BTreeMap;
use std::path::Path;

use kopf_rs_tests::{documents, say};
use serde::Deserialize;

use crate::twin::scenario::Scenario;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ledger {
    scenarios: BTreeMap<String, Entry>,
    defects: BTreeMap<String, Entry>,
    /// Scenarios of the parts besides changes of objects, and of children: letters and a number.
    engines: BTreeMap<String, Entry>,
    rows: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// A short description; rows have theirs in the table.
    is: Option<String>,
    twin: Option<String>,
    /// `path/of/a/file.rs::function`
    test: Option<String>,
    row: Option<u32>,
    /// The reason why the project does not do this.
    against: Option<String>,
}

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The letters of the scenarios in `engines`, and the last number of each.
const ENGINES: [(&str, u32); 21] = [
    ("A", 13),
    ("AD", 36),
    ("C", 3),
    ("CH", 64),
    ("CV", 17),
    ("D", 19),
    ("FA", 8),
    ("I", 10),
    ("L", 7),
    ("LE", 29),
    ("LI", 1),
    ("M", 3),
    ("ME", 7),
    ("P", 10),
    ("S", 4),
    ("T", 13),
    ("TG", 1),
    ("TR", 3),
    ("W", 16),
    ("WH", 8),
    ("PO", 14),
];

#[test]
fn every_number_has_its_proof() {
    let text = read("tests/ledger.yaml");
    let [document]: [_; 1] = documents(&text).try_into().expect("one document");
    let ledger: Ledger = serde_json::from_value(document).expect("entries as described here");
    let rows = table_rows();
    let twins: Vec<String> = Scenario::all().into_iter().map(|it| it.name).collect();
    let mut wrong = Vec::new();
    // Additional scenario numbers with letters.
    let special = ["16b", "77b", "E1", "E2", "E3", "E4", "H1", "H2"].map(str::to_owned);
    wrong.extend(missing("scenario", 87, &ledger.scenarios, &special));
    wrong.extend(missing("defect", 32, &ledger.defects, &[]));
    wrong.extend(missing("row", 39, &ledger.rows, &[]));
    let numbers = ENGINES.map(|(letter, last)| (1..=last).map(move |it| format!("{letter}{it}")));
    let numbers = numbers.into_iter().flatten();
    // These two numbers are part of others.
    let numbers: Vec<_> = numbers.filter(|it| !["CH22", "CH53"].contains(&it.as_str())).collect();
    wrong.extend(missing("scenario", 0, &ledger.engines, &numbers));
    let listed = listed_runs();
    let mut against = 0;
    let parts = [
        ("scenario", &ledger.scenarios),
        ("defect", &ledger.defects),
        ("scenario", &ledger.engines),
        ("row", &ledger.rows),
    ];
    for (kind, entries) in parts {
        for (number, entry) in entries {
            match entry.check(&twins, &rows, &listed, kind == "row") {
                Ok(runs) => println!("{kind} {number}: {runs}"),
                Err(complaint) => wrong.push(format!("{kind} {number}: {complaint}")),
            }
            against += usize::from(entry.against.is_some());
            let shown = rows.contains(&number.parse().unwrap_or_default());
            if kind == "row" && !shown {
                wrong.push(format!("row {number}: the table of the guide lacks it"));
            }
        }
    }
    let all = parts.iter().map(|(_, entries)| entries.len()).sum::<usize>();
    let line = format!(
        "ledger: {all} numbers, {} shown, {against} decided against, {} wrong",
        all - against,
        wrong.len()
    );
    say(&line);
    assert!(wrong.is_empty(), "{}\n{line}", wrong.join("\n"));
}

impl Entry {
    /// Returns the runs that cover the entry, or the problem with it.
    fn check(
        &self,
        twins: &[String],
        rows: &[u32],
        listed: &[String],
        is_row: bool,
    ) -> Result<String, String> {
        if self.is.is_none() && !is_row {
            return Err("`is` says what it is".into());
        }
        if let Some(row) = self.row.filter(|row| !rows.contains(row)) {
            return Err(format!("the guide has no row {row}"));
        }
        match (&self.twin, &self.test, &self.against) {
            (Some(twin), None, None) if twins.contains(twin) => Ok(format!("twin {twin:?}")),
            (Some(twin), None, None) => Err(format!("no twin is named {twin:?}")),
            (None, Some(test), None) => {
                let runs = runs_of(test, listed);
                runs.ok_or_else(|| format!("no test run is named {test}"))
            }
            (None, None, Some(why)) => Ok(format!("decided against: {why}")),
            _ => Err("expected exactly one of `twin`, `test` and `against`".into()),
        }
    }
}

/// Returns the names of all tests of this program, one for each server of a scenario.
fn listed_runs() -> Vec<String> {
    let this = std::env::current_exe().expect("the path of this program");
    let mut list = std::process::Command::new(this);
    let output = list.args(["--list", "--format", "terse"]).output();
    let output = output.expect("this program lists its tests");
    let text = String::from_utf8(output.stdout).expect("names of tests");
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    names.map(str::to_owned).collect()
}

/// Returns the test runs of `path/of/a/file.rs::function`: for this program by its own list, for a unit test by its attribute.
fn runs_of(test: &str, listed: &[String]) -> Option<String> {
    let (file, function) = test.split_once("::")?;
    let Some(path) = file.strip_prefix("tests/it/") else {
        return is_unit_test(file, function).then(|| format!("unit test {test}"));
    };
    let module = path.strip_suffix(".rs")?.replace('/', "::");
    let is_run = |name: &&String| first_segment(name, &module) == Some(function);
    let runs: Vec<_> = listed.iter().filter(is_run).map(String::as_str).collect();
    (!runs.is_empty()).then(|| runs.join(", "))
}

/// Returns the segment after the module in the name of a run: the test, or the scenario, whose server follows it.
fn first_segment<'a>(name: &'a str, module: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(module)?.strip_prefix("::")?;
    rest.split("::").next()
}

#[test]
fn a_run_is_of_its_file_and_not_of_one_beside_or_below_it() {
    let listed = ["peering::pause::it_waits::tcp", "peering::it_ends", "peers::it_ends"];
    let listed = listed.map(str::to_owned);
    for (test, expected) in [
        ("tests/it/peering.rs::it_ends", Some("peering::it_ends")),
        ("tests/it/peering/pause.rs::it_waits", Some("peering::pause::it_waits::tcp")),
        // A file below it, a file with the same prefix, a part of a name, and a server.
        ("tests/it/peering.rs::it_waits", None),
        ("tests/it/peer.rs::it_ends", None),
        ("tests/it/peering.rs::it", None),
        ("tests/it/peering/pause.rs::tcp", None),
    ] {
        assert_eq!(runs_of(test, &listed).as_deref(), expected, "{test}");
    }
}

fn is_unit_test(file: &str, function: &str) -> bool {
    let source = std::fs::read_to_string(Path::new(ROOT).join(file)).unwrap_or_default();
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let is_declaration = |line: &&str| line.contains(&format!("fn {function}("));
    let Some(at) = lines.iter().position(is_declaration) else {
        return false;
    };
    let attributes = lines[..at].iter().rev();
    let mut attributes = attributes.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    attributes.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

fn missing(kind: &str, last: u32, entries: &BTreeMap<String, Entry>, special: &[String]) -> Vec<String> {
    let numbers = (1..=last).map(|number| number.to_string());
    let wanted: Vec<String> = numbers.chain(special.iter().cloned()).collect();
    let absent = wanted.iter().filter(|number| !entries.contains_key(*number));
    let strange = entries.keys().filter(|number| !wanted.contains(number));
    absent
        .map(|number| format!("{kind} {number} is not in the ledger"))
        .chain(strange.map(|number| format!("there is no {kind} {number}")))
        .collect()
}

/// Returns the row numbers of the table in the guide for Kopf's users.
fn table_rows() -> Vec<u32> {
    let text = read("docs/coming-from-kopf.md");
    let first_cell = |line: &str| line.strip_prefix("| ")?.split(' ').next()?.parse().ok();
    text.lines().filter_map(first_cell).collect()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
