//! The ledger: each numbered scenario and defect of Kopf, and each row of the deviation table, with what shows it.
//!
//! `tests/ledger.yaml` fails here when a number is missing, when a test it names is not there, or when a row is not in the
//! table that users read.

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
    /// What is not there yet.
    later: Option<String>,
}

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The letters of those scenarios, and the last number of each.
const ENGINES: [(&str, u32); 17] = [
    ("A", 13),
    ("AD", 36),
    ("C", 3),
    ("CH", 62),
    ("CV", 17),
    ("D", 19),
    ("I", 10),
    ("L", 7),
    ("LE", 29),
    ("M", 3),
    ("ME", 7),
    ("P", 10),
    ("S", 4),
    ("T", 13),
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
    let mut later = 0;
    let parts = [
        ("scenario", &ledger.scenarios),
        ("defect", &ledger.defects),
        ("scenario", &ledger.engines),
        ("row", &ledger.rows),
    ];
    for (kind, entries) in parts {
        for (number, entry) in entries {
            let complaint = entry.check(&twins, &rows, kind == "row");
            wrong.extend(complaint.map(|it| format!("{kind} {number}: {it}")));
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
        "ledger: {all} numbers, {} shown, {later} for later, {} wrong",
        all - later,
        wrong.len()
    );
    say(&line);
    assert!(wrong.is_empty(), "{}\n{line}", wrong.join("\n"));
}

impl Entry {
    fn check(&self, twins: &[String], rows: &[u32], is_row: bool) -> Option<String> {
        let ways = [&self.twin, &self.test, &self.later];
        if ways.iter().filter(|way| way.is_some()).count() != 1 {
            return Some("exactly one of `twin`, `test` and `later` says where it is shown".into());
        }
        if self.is.is_none() && !is_row {
            return Some("`is` says what it is".into());
        }
        if let Some(row) = self.row.filter(|row| !rows.contains(row)) {
            return Some(format!("the guide has no row {row}"));
        }
        match (&self.twin, &self.test) {
            (Some(twin), _) if !twins.contains(twin) => Some(format!("no twin is named {twin:?}")),
            (_, Some(test)) if !exists(test) => Some(format!("there is no test {test}")),
            _ => None,
        }
    }
}

fn exists(test: &str) -> bool {
    let Some((file, function)) = test.split_once("::") else {
        return false;
    };
    let source = std::fs::read_to_string(Path::new(ROOT).join(file)).unwrap_or_default();
    source.contains(&format!("fn {function}("))
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
