//! Kopf's half of scenarios: as recorded, or played now on a real server.
//!
//! Promise: what is recorded is of these scenarios, this version of Kopf and this version of the server. Must not know how halves are
//! compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kopf_rs_tests::{
    Digest, Mode, Package, RealServer, Recorded, kubernetes_version, python_for, skipped,
};
use serde::{Deserialize, Serialize};

use super::scenario::{Aspect, Scenario};
use super::shown::Shown;
use super::side::Who;
use super::{Half, halves};

/// All that has a part in Kopf's half, beside the scenarios.
const SOURCES: &[&str] = &[
    "tests/twin/operator.py",
    "tests/it/twin",
    "tests/it/twin.rs",
    "tests/python/kopf.txt",
    "tests/cluster/kubernetes/go.mod",
];

/// What a scenario comes to under Kopf, by its name.
#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    name: String,
    shown: Shown,
}

/// What scenarios come to under Kopf, one by one; nothing where that is not known and cannot be found out here. `all` are all there are.
pub(crate) fn under_kopf(group: &str, scenarios: &[Scenario], all: bool) -> Option<Vec<Half>> {
    let files: BTreeSet<&str> = scenarios.iter().map(|it| it.file.as_str()).collect();
    let files: Vec<&str> = files.into_iter().collect();
    let recorded = Recorded::of(group, &by(), &[SOURCES, files.as_slice()].concat());
    let mode = recorded.mode();
    let known = |file: &str| recorded.read::<Entry>(&stem(file), asked(file));
    if mode == Mode::Recorded {
        let mut shown = BTreeMap::new();
        for file in files {
            let entries = known(file).unwrap_or_else(|why| panic!("{why}"));
            shown.extend(entries.into_iter().map(|entry| (entry.name, entry.shown)));
        }
        let of = |scenario: &Scenario| {
            shown
                .remove(&scenario.name)
                .ok_or_else(|| "it is not recorded".into())
        };
        return Some(scenarios.iter().map(of).collect());
    }
    can_be_played(group)?;
    let played = halves(Who::Kopf, scenarios);
    for file in files {
        let of_file = scenarios
            .iter()
            .zip(&played)
            .filter(|(it, _)| it.file == file);
        let of_file: Vec<(&Scenario, &Half)> = of_file.collect();
        let Some(now) = entries(&of_file) else {
            continue;
        };
        let is_same = |known: &[Entry], now: &[Entry]| same(&of_file, known, now);
        if mode == Mode::Recording {
            recorded.write(&stem(file), asked(file), &now, is_same);
        } else {
            let known = known(file).unwrap_or_else(|why| panic!("{why}"));
            assert!(
                is_same(&known, &now),
                "{file}: Kopf does something else than is recorded: `./test record` records anew"
            );
        }
    }
    if mode == Mode::Recording && all && played.iter().all(Result::is_ok) {
        let names: BTreeSet<String> = scenarios.iter().map(|it| stem(&it.file)).collect();
        recorded.complete(names.iter().map(String::as_str));
    }
    Some(played)
}

/// The files that are recorded whole, of which these scenarios are: all scenarios in them.
pub(crate) fn whole_files(
    wanted: impl Fn(&Scenario) -> bool,
    mut scenarios: Vec<Scenario>,
) -> Vec<Scenario> {
    let is_recorded = std::env::var("KOPF_RS_ANSWERS").is_ok_and(|it| !it.is_empty());
    if !is_recorded {
        scenarios.retain(wanted);
        return scenarios;
    }
    let files: BTreeSet<String> = scenarios
        .iter()
        .filter(|it| wanted(it))
        .map(|it| it.file.clone())
        .collect();
    scenarios.retain(|it| files.contains(&it.file));
    scenarios
}

fn by() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/kopf.txt");
    let kopf = std::fs::read_to_string(path).expect("Kopf's version is pinned");
    format!("{} on kube-apiserver {}", kopf.trim(), kubernetes_version())
}

fn stem(file: &str) -> String {
    let stem = Path::new(file).file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn asked(file: &str) -> Digest {
    let digest = Digest::new().and_files(&[file, "tests/twin/operator.py"]);
    digest.expect("the scenarios are readable")
}

fn can_be_played(test: &str) -> Option<()> {
    if let Err(error) = RealServer::shared() {
        let missing = error.missing().unwrap_or_else(|| panic!("{error}"));
        skipped(test, missing);
        return None;
    }
    python_for(test, Package::Kopf).map(drop)
}

/// The entries of a file, where all its scenarios have come to an end.
fn entries(played: &[(&Scenario, &Half)]) -> Option<Vec<Entry>> {
    let entry = |(scenario, half): &(&Scenario, &Half)| {
        let shown = half.as_ref().ok()?.clone();
        Some(Entry {
            name: scenario.name.clone(),
            shown,
        })
    };
    played.iter().map(entry).collect()
}

/// Whether Kopf has done the same, but for counts of writes of which a scenario says that they depend on how fast the machine is.
fn same(played: &[(&Scenario, &Half)], known: &[Entry], now: &[Entry]) -> bool {
    let vague = |scenario: &Scenario| {
        scenario
            .differs
            .iter()
            .any(|it| it.aspect == Aspect::Writes && it.kopf.is_string())
    };
    let pairs = played.iter().zip(known.iter().zip(now));
    known.len() == now.len()
        && pairs.into_iter().all(|((scenario, _), (known, now))| {
            let (one, two) = (&known.shown, &now.shown);
            known.name == now.name
                && one.calls == two.calls
                && one.object == two.object
                && (one.writes == two.writes || vague(scenario))
        })
}
