//! The twin tests: each scenario of `tests/twin` runs under Kopf and under kopf-rs, and the results are compared.
//!
//! Kopf's half is recorded in `tests/recorded/twin`, or played now on the real server. `KOPF_RS_TWIN=words` selects the scenarios whose
//! name or file contains the words. A difference is a failure, unless the scenario names its row in the deviation table and the behaviour
//! of each side.

mod compare;
mod kopf;
mod kopf_recorded;
mod ours;
mod requests;
pub(crate) mod scenario;
mod script;
mod shown;
mod side;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use kopf_rs_tests::{RealServer, Server, TestCluster, play, say, skipped};

use compare::{Verdict, judge};
pub(crate) use kopf_recorded::under_kopf;
use kopf_recorded::whole_files;
use scenario::Scenario;
pub(crate) use shown::Shown;
use side::{Side, Who};

/// Many at once, because scenarios mostly wait.
const AT_ONCE: usize = 12;

#[test]
fn kopf_and_this_do_the_same() {
    let wanted = std::env::var("KOPF_RS_TWIN").unwrap_or_default();
    let scenarios = whole_files(|it| it.name.contains(&wanted) || it.file.contains(&wanted), Scenario::all());
    let names: BTreeSet<&str> = scenarios.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names.len(), scenarios.len(), "two scenarios of one name");
    let Some(kopf) = under_kopf("twin", &scenarios, wanted.is_empty()) else {
        return;
    };
    let Some(ours) = here("twin", &scenarios) else {
        return;
    };
    let pairs = scenarios.iter().zip(kopf.into_iter().zip(ours));
    let results: Vec<Played> = pairs
        .map(|(scenario, (kopf, ours))| {
            let kopf = kopf?;
            ours.and_then(|ours| judge(scenario, &kopf, &ours)).or_else(|why| {
                // Some scenarios depend on moments a second apart, which a busy machine may miss, so a failed one runs again alone.
                say(&format!("{}: once more, alone:\n{why}", scenario.name));
                judge(scenario, &kopf, &half(Who::Ours, scenario)?)
            })
        })
        .collect();
    report(&scenarios, &results);
}

type Played = Result<Verdict, String>;

/// The result of a scenario on one side, or the reason why it did not finish.
pub(crate) type Half = Result<Shown, String>;

/// Runs scenarios under kopf-rs on a real server; returns `None` if there is no server.
pub(crate) fn here(test: &str, scenarios: &[Scenario]) -> Option<Vec<Half>> {
    if let Err(error) = RealServer::shared() {
        let missing = error.missing().unwrap_or_else(|| panic!("{error}"));
        skipped(test, missing);
        return None;
    }
    Some(halves(Who::Ours, scenarios))
}

/// Runs one side of each scenario, a few at a time.
fn halves(who: Who, scenarios: &[Scenario]) -> Vec<Half> {
    let next = Mutex::new(0..scenarios.len());
    let results = Mutex::new(Vec::new());
    let work = || {
        loop {
            let claimed = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(index) = claimed else { return };
            let played = half(who, &scenarios[index]);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.push((index, played));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, played)| played).collect()
}

fn half(who: Who, scenario: &Scenario) -> Half {
    let mut seen = Err("it did not end".to_owned());
    let side = async |cluster: TestCluster| {
        seen = Ok(Shown::of(who, scenario, &Side::play(who, scenario, cluster).await));
    };
    let played = catch_unwind(AssertUnwindSafe(|| play(Server::Real, "twin", side)));
    match played {
        Ok(()) => seen,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text.unwrap_or_else(|| "it panicked".to_owned()))
        }
    }
}

fn report(scenarios: &[Scenario], results: &[Played]) {
    let (mut matched, mut deviating, mut failing) = (0, 0, Vec::new());
    for (scenario, result) in scenarios.iter().zip(results) {
        match result {
            Ok(Verdict::Matched) => matched += 1,
            Ok(Verdict::Deviates(rows)) => {
                deviating += 1;
                say(&format!("{}: as rows {rows:?} say", scenario.name));
            }
            Err(why) => failing.push(format!("{}:\n{why}", scenario.name)),
        }
    }
    let all = scenarios.len();
    let line = format!(
        "twin: {all} scenarios, {matched} matched, {deviating} deviating by a numbered row, {} failing",
        failing.len()
    );
    say(&line);
    assert!(failing.is_empty(), "{}\n{line}", failing.join("\n\n"));
}
