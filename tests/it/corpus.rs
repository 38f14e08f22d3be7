//! The differential corpus: the server in the process answers as the real one does, or the ledger says why not.

use std::path::{Path, PathBuf};

use kopf_rs_apiserver::ApiServer;
use kopf_rs_tests::corpus::{Ledger, Pair, Script, Tally, run_all};
use kopf_rs_tests::{RealServer, skipped};

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

fn compared(real: &RealServer, scripts: &[Script], ledger: &Ledger) -> Vec<Pair> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(async {
        let server = ApiServer::new();
        let listening = server
            .listen(([127, 0, 0, 1], 0).into())
            .await
            .expect("a free port can be listened on");
        let ours = std::env::temp_dir().join(format!("kopf-rs-corpus-{}", std::process::id()));
        std::fs::write(&ours, listening.kubeconfig()).expect("temporary files can be written");
        let pairs = run_all(scripts, &ours, &real.kubeconfig(), ledger).await;
        std::fs::remove_file(&ours).expect("what was written can be removed");
        pairs
    })
}

#[test]
fn both_servers_answer_alike() {
    let real = match RealServer::start() {
        Ok(real) => real,
        Err(error) => match error.missing() {
            Some(missing) => return skipped("corpus::both_servers_answer_alike", missing),
            None => panic!("{error}"),
        },
    };
    real.controllers().unwrap_or_else(|error| panic!("{error}"));
    let (scripts, all) = scripts();
    let ledger = Ledger::read(&folder());
    let pairs = compared(&real, &scripts, &ledger);
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
