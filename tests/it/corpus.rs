//! The differential corpus: the server in the process answers as the real one does, or the ledger says why not.

use std::path::{Path, PathBuf};

use kopf_rs_apiserver::{ApiServer, User};
use kopf_rs_tests::corpus::{Catch, Ledger, Pair, Script, Tally, hunt, run_all};
use kopf_rs_tests::{RealServer, Served, runtime, skipped};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance")
}

/// The scripts, or those that `KOPF_RS_CORPUS` names (parts of names, separated by commas).
fn scripts() -> (Vec<Script>, bool) {
    let mut scripts = Script::read_all(&folder());
    let wanted = std::env::var("KOPF_RS_CORPUS").unwrap_or_default();
    if wanted.is_empty() {
        return (scripts, true);
    }
    let words: Vec<&str> = wanted.split(',').collect();
    scripts.retain(|script| words.iter().any(|word| script.name.contains(word)));
    (scripts, false)
}

/// Does something with the kubeconfig files of both servers: ours, and the real one.
fn beside<T>(real: &RealServer, doing: impl AsyncFnOnce(&Path, &Path) -> T) -> T {
    runtime().block_on(async {
        let server = ApiServer::new();
        for number in 1..=32 {
            let user = format!("user{number}");
            server.add_user(format!("{user}-token"), User::new(&user).uid(&user));
        }
        let over_tls = Served::start(&server, &std::env::temp_dir()).await;
        doing(over_tls.kubeconfig(), &real.kubeconfig()).await
    })
}

/// A server of one's own with its controllers, or the reason why the test is skipped.
fn real(test: &str) -> Option<RealServer> {
    match RealServer::start() {
        Ok(real) => {
            real.controllers().unwrap_or_else(|error| panic!("{error}"));
            Some(real)
        }
        Err(error) => match error.missing() {
            Some(missing) => {
                skipped(test, missing);
                None
            }
            None => panic!("{error}"),
        },
    }
}

/// The seeds to try, and how many of their answers are known to differ: those that `KOPF_RS_SEEDS` names, as `7`, `1-200` or
/// several of these, and none; else what `seeds.txt` says.
fn seeds() -> (Vec<u64>, usize) {
    let number = |text: &str| -> u64 {
        text.parse()
            .expect("a seed is a number, or two with a dash")
    };
    let span = |word: &str| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        number(first)..=number(last)
    };
    let all = |text: &str| -> Vec<u64> {
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        words.flat_map(span).collect()
    };
    if let Ok(wanted) = std::env::var("KOPF_RS_SEEDS") {
        return (all(&wanted), 0);
    }
    let usual = std::fs::read_to_string(folder().join("seeds.txt")).expect("seeds.txt is readable");
    let (seeds, known) = usual.trim().split_once(": ").expect("SEEDS: DIFFERENT");
    (all(seeds), known.parse().expect("a number of answers"))
}

#[test]
fn random_scripts_are_answered_alike() {
    let Some(real) = real("corpus::random_scripts_are_answered_alike") else {
        return;
    };
    let ((seeds, known), ledger) = (seeds(), Ledger::read(&folder()));
    let (tally, catches) = beside(&real, async |ours, real| {
        hunt(&seeds, known, ours, real, &ledger).await
    });
    let told = |catch: &Catch| {
        let Catch { seed, pair, script } = catch;
        let small = script.name != format!("seed-{seed}");
        let script = if small {
            script.to_yaml()
        } else {
            String::new()
        };
        format!("\nseed {seed}: {pair}{script}")
    };
    let report: Vec<String> = catches.iter().map(told).collect();
    let report = report.join("\n");
    let span = (seeds.first(), seeds.last());
    assert!(
        tally.different <= known,
        "{report}\n{tally}, of which {known} are known (seeds {span:?})"
    );
    eprintln!("{tally}, of which {known} are known (seeds {span:?})");
}

#[test]
fn both_servers_answer_alike() {
    let Some(real) = real("corpus::both_servers_answer_alike") else {
        return;
    };
    let (scripts, all) = scripts();
    let ledger = Ledger::read(&folder());
    let pairs: Vec<Pair> = beside(&real, async |ours, real| {
        run_all(&scripts, ours, real, &ledger).await
    });
    let different: Vec<String> = pairs
        .iter()
        .filter(|pair| !pair.differences.is_empty())
        .map(Pair::to_string)
        .collect();
    let tally = Tally::of(&pairs);
    let report = format!("{}\n{tally}", different.join("\n"));
    assert_eq!(tally.different, 0, "\n{report}");
    eprintln!("{tally}");
    if all {
        assert_eq!(ledger.unused(), Vec::<String>::new(), "excuses without use");
    }
}

#[test]
fn the_ledger_is_in_the_paper() {
    let paper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kopf-rs-apiserver/FIDELITY.md");
    let text = std::fs::read_to_string(paper).expect("FIDELITY.md is readable");
    let missing = Ledger::read(&folder()).unexplained(&text);
    assert_eq!(missing, Vec::<String>::new(), "rows that FIDELITY.md lacks");
}
