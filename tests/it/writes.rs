//! The number of writes for an object's life under Kopf and under kopf-rs, from the audit log of a real kube-apiserver.
//!
//! The lives are in `tests/writes.yaml`. Our number must be the promised one and never exceed Kopf's; the table of
//! `docs/coming-from-kopf.md` holds the measured numbers.

use std::path::Path;

use kopf_rs_tests::{documents, say};
use serde::Deserialize;

use crate::twin::scenario::Scenario;
use crate::twin::{Half, here, under_kopf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Life {
    /// The handlers and the changes of the object: the first cell of its row.
    set: String,
    /// The promised number of writes.
    here: usize,
    why: String,
    scenario: Scenario,
}

/// The measured numbers.
struct Count {
    kopf: usize,
    here: usize,
}

#[test]
fn no_life_costs_more_writes_than_promised_nor_than_under_kopf() {
    let lives = lives();
    let scenarios: Vec<Scenario> = lives.iter().map(|life| life.scenario.clone()).collect();
    let Some(kopf) = under_kopf("writes", &scenarios, true) else {
        return;
    };
    let Some(ours) = here("writes", &scenarios) else {
        return;
    };
    let halves = kopf.into_iter().zip(ours);
    let counts: Vec<Count> =
        halves.map(|(kopf, here)| Count { kopf: writes(kopf), here: writes(here) }).collect();
    let page = page();
    let mut wrong = Vec::new();
    say("| Handlers, and what happens to the object | Kopf | Here |");
    for (life, count) in lives.iter().zip(&counts) {
        let Count { kopf, here } = count;
        say(&format!("| {} | {kopf} | {here} | ({})", life.set, life.why));
        wrong.extend(life.complaints(count, &page));
    }
    let total = |of: fn(&Count) -> usize| counts.iter().map(of).sum::<usize>();
    say(&format!(
        "writes: {} lives, {} writes under Kopf, {} here, {} wrong",
        lives.len(),
        total(|it| it.kopf),
        total(|it| it.here),
        wrong.len()
    ));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn writes(half: Half) -> usize {
    half.unwrap_or_else(|why| panic!("{why}")).writes
}

impl Life {
    fn complaints(&self, count: &Count, page: &[[String; 3]]) -> Vec<String> {
        let (set, Count { kopf, here }) = (&self.set, count);
        let mut wrong = Vec::new();
        if *here != self.here {
            wrong.push(format!("{set}: {here} writes here, not {}", self.here));
        }
        if here > kopf {
            wrong.push(format!("{set}: {here} writes here, {kopf} under Kopf"));
        }
        let row = page.iter().find(|[first, ..]| first == set);
        let shown = row.is_some_and(|[_, theirs, own]| is_count(theirs, *kopf) && is_count(own, *here));
        if !shown {
            wrong.push(format!("docs/coming-from-kopf.md does not say: | {set} | {kopf} | {here} |"));
        }
        wrong
    }
}

/// Returns whether a cell contains this count: a number, or `5 or more` if the count depends on timing.
fn is_count(cell: &str, count: usize) -> bool {
    match cell.strip_suffix(" or more") {
        Some(least) => least.parse().is_ok_and(|least: usize| count >= least),
        None => cell.parse() == Ok(count),
    }
}

fn lives() -> Vec<Life> {
    let text = read("writes.yaml");
    let life = |document| {
        let mut life: Life = serde_json::from_value(document).expect("a life as described here");
        "tests/writes.yaml".clone_into(&mut life.scenario.file);
        life
    };
    documents(&text).into_iter().map(life).collect()
}

/// Returns all rows of three cells in the guide.
fn page() -> Vec<[String; 3]> {
    let text = read("../docs/coming-from-kopf.md");
    let cells = |line: &str| {
        let inner = line.strip_prefix('|')?.strip_suffix('|')?;
        let cells: Vec<String> = inner.split('|').map(|it| it.trim().to_owned()).collect();
        cells.try_into().ok()
    };
    text.lines().filter_map(cells).collect()
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
