//! The twin: each scenario of `tests/twin` under Kopf and under this framework, on the same real server, then compared.
//!
//! `KOPF_RS_TWIN=words` plays the scenarios whose name contains the words. A difference is a failure, unless the scenario
//! says which row of the deviation table it is, and what each side then does.

mod compare;
mod kopf;
mod ours;
pub(crate) mod scenario;
mod side;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use kopf_rs_tests::{Package, RealServer, Server, TestCluster, play, python_for, say, skipped};

use compare::{Verdict, judge};
use scenario::Scenario;
use side::{Seen, Side, Who};

/// Mostly they wait.
const AT_ONCE: usize = 4;

#[test]
fn kopf_and_this_do_the_same() {
    if let Err(error) = RealServer::shared() {
        let missing = error.missing().unwrap_or_else(|| panic!("{error}"));
        return skipped("twin", missing);
    }
    if python_for("twin", Package::Kopf).is_none() {
        return;
    }
    let wanted = std::env::var("KOPF_RS_TWIN").unwrap_or_default();
    let mut scenarios = Scenario::all();
    scenarios.retain(|scenario| scenario.name.contains(&wanted));
    let names: BTreeSet<&str> = scenarios.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names.len(), scenarios.len(), "two scenarios of one name");
    let results = all(&scenarios);
    report(&scenarios, &results);
}

type Played = Result<Verdict, String>;

/// Every scenario, a few at a time.
fn all(scenarios: &[Scenario]) -> Vec<Played> {
    let next = Mutex::new(0..scenarios.len());
    let results = Mutex::new(Vec::new());
    let work = || {
        loop {
            let claimed = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(index) = claimed else { return };
            let played = one(&scenarios[index]);
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

fn one(scenario: &Scenario) -> Played {
    let (kopf, ours) = both_sides(scenario)?;
    judge(scenario, &kopf, &ours)
}

/// What a scenario comes to under Kopf, and here.
pub(crate) fn both_sides(scenario: &Scenario) -> Result<(Seen, Seen), String> {
    let mut seen = Err("it did not end".to_owned());
    let both = async |cluster: TestCluster| {
        let other = TestCluster::start(Server::Real).await;
        let kopf = Side::play(Who::Kopf, scenario, other);
        let ours = Side::play(Who::Ours, scenario, cluster);
        seen = Ok(tokio::join!(kopf, ours));
    };
    let played = catch_unwind(AssertUnwindSafe(|| play(Server::Real, "twin", both)));
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
