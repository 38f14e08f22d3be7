//! The twin: each scenario of `tests/twin` under Kopf and under this framework, then compared.
//!
//! Kopf's half is recorded in `tests/recorded/twin`, or played now on the real server. `KOPF_RS_TWIN=words` plays the scenarios whose
//! name, or file, contains the words. A difference is a failure, unless the scenario says which row of the deviation table it is, and what each
//! side then does.

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

/// Mostly they wait.
const AT_ONCE: usize = 12;

#[test]
fn kopf_and_this_do_the_same() {
    let wanted = std::env::var("KOPF_RS_TWIN").unwrap_or_default();
    let scenarios = whole_files(
        |it| it.name.contains(&wanted) || it.file.contains(&wanted),
        Scenario::all(),
    );
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
        .map(|(scenario, (kopf, ours))| judge(scenario, &kopf?, &ours?))
        .collect();
    report(&scenarios, &results);
}

type Played = Result<Verdict, String>;

/// What a scenario came to on one side, or why it came to no end.
pub(crate) type Half = Result<Shown, String>;

/// What scenarios come to here, on a real server; nothing where there is none.
pub(crate) fn here(test: &str, scenarios: &[Scenario]) -> Option<Vec<Half>> {
    if let Err(error) = RealServer::shared() {
        let missing = error.missing().unwrap_or_else(|| panic!("{error}"));
        skipped(test, missing);
        return None;
    }
    Some(halves(Who::Ours, scenarios))
}

/// One side of each scenario, a few at a time.
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
        seen = Ok(Shown::of(
            who,
            scenario,
            &Side::play(who, scenario, cluster).await,
        ));
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
