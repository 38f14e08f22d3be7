//! Kopf's half of scenarios, from a recording or played now on a real server.
//!
//! A recording is valid only for the same scenarios, the same version of Kopf and the same version of the server.
//! This module does not know how the halves are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kopf_rs_tests::{
    Digest, Mode, Package, RealServer, Recorded, kubernetes_version, python_for, requirements, skipped,
};
use serde::{Deserialize, Serialize};

use super::scenario::{Aspect, Scenario};
use super::shown::Shown;
use super::side::Who;
use super::{Half, halves};
use crate::cli::root;

/// The files that affect Kopf's half, besides the scenarios.
const SOURCES: &[&str] = &[
    "tests/twin/operator.py",
    "tests/it/twin",
    "tests/it/twin.rs",
    "apiserver/tests/python/kopf.txt",
    "apiserver/tests/cluster/kubernetes/go.mod",
];

/// The result of a scenario under Kopf.
#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    name: String,
    shown: Shown,
}

/// Returns the results of scenarios under Kopf; `None` if they must be fresh and cannot be played here. `all` states whether the scenarios
/// are complete.
pub(crate) fn under_kopf(group: &str, scenarios: &[Scenario], all: bool) -> Option<Vec<Half>> {
    let files: BTreeSet<&str> = scenarios.iter().map(|it| it.file.as_str()).collect();
    let files: Vec<&str> = files.into_iter().collect();
    let recorded = Recorded::of(root(), group, &by(), &[SOURCES, files.as_slice()].concat());
    let mode = recorded.mode();
    let known = |file: &str| recorded.read::<Entry>(&stem(file), asked(file));
    if mode == Mode::Recorded {
        let mut shown = BTreeMap::new();
        for file in files {
            let entries = known(file).unwrap_or_else(|why| panic!("{why}"));
            shown.extend(entries.into_iter().map(|entry| (entry.name, entry.shown)));
        }
        let of =
            |scenario: &Scenario| shown.remove(&scenario.name).ok_or_else(|| "it is not recorded".into());
        return Some(scenarios.iter().map(of).collect());
    }
    can_be_played(group)?;
    let played = halves(Who::Kopf, scenarios);
    for file in files {
        let of_file = scenarios.iter().zip(&played).filter(|(it, _)| it.file == file);
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

/// Returns the wanted scenarios. When recording, returns all scenarios of their files, because each file is recorded as a whole.
pub(crate) fn whole_files(wanted: impl Fn(&Scenario) -> bool, mut scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let is_recorded = std::env::var("KOPF_RS_ANSWERS").is_ok_and(|it| !it.is_empty());
    if !is_recorded {
        scenarios.retain(wanted);
        return scenarios;
    }
    let files: BTreeSet<String> =
        scenarios.iter().filter(|it| wanted(it)).map(|it| it.file.clone()).collect();
    scenarios.retain(|it| files.contains(&it.file));
    scenarios
}

fn by() -> String {
    let kopf = std::fs::read_to_string(requirements(Package::Kopf)).expect("Kopf's version is pinned");
    format!("{} on kube-apiserver {}", kopf.trim(), kubernetes_version())
}

fn stem(file: &str) -> String {
    let stem = Path::new(file).file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn asked(file: &str) -> Digest {
    let digest = Digest::new().and_files(root(), &[file, "tests/twin/operator.py"]);
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

/// Returns the entries of a file, if all its scenarios finished.
fn entries(played: &[(&Scenario, &Half)]) -> Option<Vec<Entry>> {
    let entry = |(scenario, half): &(&Scenario, &Half)| {
        let shown = half.as_ref().ok()?.clone();
        Some(Entry { name: scenario.name.clone(), shown })
    };
    played.iter().map(entry).collect()
}

/// Returns whether Kopf did the same, apart from the counts of writes that depend on the speed of the machine according to the scenario.
fn same(played: &[(&Scenario, &Half)], known: &[Entry], now: &[Entry]) -> bool {
    let vague = |scenario: &Scenario| {
        scenario.differs.iter().any(|it| it.aspect == Aspect::Writes && it.kopf.is_string())
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
