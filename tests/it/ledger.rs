//! The ledger: each numbered scenario and defect of Kopf, and each row of the deviation table, with the test that covers it.
//!
//! `tests/ledger.yaml` fails here when a number is missing, when no run of a test covers it, or when a row is not in the table that users
//! read. With `--nocapture`, the test prints the runs that cover each number.

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
    /// Scenarios of what there is beside the changes of objects, and of children: letters and a number.
    engines: BTreeMap<String, Entry>,
    rows: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// What it is, in a few words; rows have theirs in the table.
    is: Option<String>,
    twin: Option<String>,
    /// `path/of/a/file.rs::function`
    test: Option<String>,
    row: Option<u32>,
    /// Why the project does not do this.
    against: Option<String>,
    /// What is not there yet.
    later: Option<String>,
}

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The letters of those scenarios, and the last number of each.
const ENGINES: [(&str, u32); 19] = [
    ("A", 13),
    ("AD", 36),
    ("C", 3),
    ("CH", 62),
    ("CV", 17),
    ("D", 19),
    ("FA", 8),
    ("I", 10),
    ("L", 7),
    ("LE", 29),
    ("M", 3),
    ("ME", 7),
    ("P", 10),
    ("S", 4),
    ("T", 13),
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
    // Those with letters are of the scenarios of its engines.
    let special = ["16b", "77b", "E1", "E2", "E3", "E4", "H1", "H2"].map(str::to_owned);
    wrong.extend(missing("scenario", 87, &ledger.scenarios, &special));
    wrong.extend(missing("defect", 32, &ledger.defects, &[]));
    wrong.extend(missing("row", 38, &ledger.rows, &[]));
    let numbers = ENGINES.map(|(letter, last)| (1..=last).map(move |it| format!("{letter}{it}")));
    let numbers = numbers.into_iter().flatten();
    // These two are part of others.
    let numbers: Vec<_> = numbers
        .filter(|it| !["CH22", "CH53"].contains(&it.as_str()))
        .collect();
    wrong.extend(missing("scenario", 0, &ledger.engines, &numbers));
    let listed = listed_runs();
    let (mut later, mut against) = (0, 0);
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
            later += usize::from(entry.later.is_some());
            let shown = rows.contains(&number.parse().unwrap_or_default());
            if kind == "row" && shown == entry.later.is_some() {
                wrong.push(format!(
                    "row {number}: the table of the guide says otherwise"
                ));
            }
        }
    }
    let all = parts
        .iter()
        .map(|(_, entries)| entries.len())
        .sum::<usize>();
    let line = format!(
        "ledger: {all} numbers, {} shown, {against} decided against, {later} for later, {} wrong",
        all - later - against,
        wrong.len()
    );
    say(&line);
    assert!(wrong.is_empty(), "{}\n{line}", wrong.join("\n"));
}

impl Entry {
    /// The runs that cover the entry, or what is wrong with it.
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
        match (&self.twin, &self.test, &self.against, &self.later) {
            (Some(twin), None, None, None) if twins.contains(twin) => Ok(format!("twin {twin:?}")),
            (Some(twin), None, None, None) => Err(format!("no twin is named {twin:?}")),
            (None, Some(test), None, None) => {
                let runs = runs_of(test, listed);
                runs.ok_or_else(|| format!("no test run is named {test}"))
            }
            (None, None, Some(why), None) => Ok(format!("decided against: {why}")),
            (None, None, None, Some(what)) => Ok(format!("later: {what}")),
            _ => Err("expected exactly one of `twin`, `test`, `against` and `later`".into()),
        }
    }
}

/// The names of all tests of this program, one for each server that a scenario runs on.
fn listed_runs() -> Vec<String> {
    let this = std::env::current_exe().expect("the path of this program");
    let mut list = std::process::Command::new(this);
    let output = list.args(["--list", "--format", "terse"]).output();
    let output = output.expect("this program lists its tests");
    let text = String::from_utf8(output.stdout).expect("names of tests");
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    names.map(str::to_owned).collect()
}

/// Test runs of `path/of/a/file.rs::function`: of this program by its own list, of a unit test by its attribute.
fn runs_of(test: &str, listed: &[String]) -> Option<String> {
    let (file, function) = test.split_once("::")?;
    let Some(path) = file.strip_prefix("tests/it/") else {
        return is_unit_test(file, function).then(|| format!("unit test {test}"));
    };
    let module = path.strip_suffix(".rs")?.replace('/', "::");
    let is_run = |name: &&String| {
        let rest = name.strip_prefix(&module).unwrap_or_default();
        rest.split("::").any(|it| it == function)
    };
    let runs: Vec<_> = listed.iter().filter(is_run).map(String::as_str).collect();
    (!runs.is_empty()).then(|| runs.join(", "))
}

fn is_unit_test(file: &str, function: &str) -> bool {
    let source = std::fs::read_to_string(Path::new(ROOT).join(file)).unwrap_or_default();
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let is_declaration = |line: &&str| line.contains(&format!("fn {function}("));
    let Some(at) = lines.iter().position(is_declaration) else {
        return false;
    };
    let attributes = lines[..at].iter().rev();
    let mut attributes =
        attributes.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    attributes.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

fn missing(
    kind: &str,
    last: u32,
    entries: &BTreeMap<String, Entry>,
    special: &[String],
) -> Vec<String> {
    let numbers = (1..=last).map(|number| number.to_string());
    let wanted: Vec<String> = numbers.chain(special.iter().cloned()).collect();
    let absent = wanted
        .iter()
        .filter(|number| !entries.contains_key(*number));
    let strange = entries.keys().filter(|number| !wanted.contains(number));
    absent
        .map(|number| format!("{kind} {number} is not in the ledger"))
        .chain(strange.map(|number| format!("there is no {kind} {number}")))
        .collect()
}

/// The numbers of the table in the guide for Kopf's users.
fn table_rows() -> Vec<u32> {
    let text = read("docs/coming-from-kopf.md");
    let first_cell = |line: &str| line.strip_prefix("| ")?.split(' ').next()?.parse().ok();
    text.lines().filter_map(first_cell).collect()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}
