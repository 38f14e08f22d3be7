//! The differential corpus: the in-process server answers as the real one does, or the ledger gives the reason.
//!
//! The answers of the real server come from `tests/recorded/corpus` and `tests/recorded/random`, or from a running server: see `recorded`.

mod answers;

use std::path::{Path, PathBuf};

use kopf_rs_apiserver::{ApiServer, User};
use kopf_rs_apiserver_tests::corpus::{
    Catch, Ledger, Pair, Script, Tally, compared_all, generate, hunt, told_and_forgotten,
    told_of_all,
};
use kopf_rs_apiserver_tests::{Served, runtime};

use answers::Answers;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance")
}

/// Returns the scripts and whether they are complete. `KOPF_RS_CORPUS` selects some by parts of their names, separated by commas.
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

/// Runs a function with the kubeconfig file of our server.
fn beside<T>(doing: impl AsyncFnOnce(&Path) -> T) -> T {
    runtime().block_on(async {
        let server = ApiServer::new();
        for number in 1..=32 {
            let user = format!("user{number}");
            server.add_user(format!("{user}-token"), User::new(&user).uid(&user));
        }
        let over_tls = Served::start(&server, &std::env::temp_dir()).await;
        doing(over_tls.kubeconfig()).await
    })
}

fn numbers(text: &str) -> Vec<u64> {
    let number = |text: &str| -> u64 {
        text.parse()
            .expect("a seed is a number, or two with a dash")
    };
    let span = |word: &str| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        number(first)..=number(last)
    };
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    words.flat_map(span).collect()
}

/// Reads the seeds in `seeds.txt`, and the number of their answers that are known to differ.
fn usual_seeds() -> (Vec<u64>, usize) {
    let usual = std::fs::read_to_string(folder().join("seeds.txt")).expect("seeds.txt is readable");
    let (seeds, known) = usual.trim().split_once(": ").expect("SEEDS: DIFFERENT");
    (numbers(seeds), known.parse().expect("a number of answers"))
}

#[test]
fn random_scripts_are_answered_alike() {
    let test = "corpus::random_scripts_are_answered_alike";
    let ledger = Ledger::read(&folder());
    if let Ok(wanted) = std::env::var("KOPF_RS_SEEDS") {
        return those_seeds(test, &numbers(&wanted), &ledger);
    }
    let (seeds, known) = usual_seeds();
    let scripts: Vec<Script> = seeds.iter().map(|seed| generate(*seed)).collect();
    let answers = Answers::new("random", &["tests/conformance/seeds.txt"], true);
    let Some(real) = answers.of_the_real_server(test, &scripts, told_and_forgotten) else {
        return;
    };
    let ours = beside(async |ours| told_and_forgotten(&scripts, ours).await);
    let pairs = compared_all(&scripts, &ours, &real, &ledger);
    let tally = Tally::of(&pairs);
    let report = different(&pairs);
    assert!(
        tally.different <= known,
        "{report}\n{tally}, of which {known} are known; KOPF_RS_SEEDS=n makes a small script of what seed n shows"
    );
    eprintln!("{tally}, of which {known} are known");
}

/// Plays the scripts of the given seeds on both servers.
fn those_seeds(test: &str, seeds: &[u64], ledger: &Ledger) {
    let Some(real) = answers::real(test) else {
        return;
    };
    let (tally, catches) =
        beside(async |ours| hunt(seeds, 0, ours, &real.kubeconfig(), ledger).await);
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
    let span = (seeds.first(), seeds.last());
    let closing = format!("{tally} (seeds {span:?})");
    assert_eq!(tally.different, 0, "{}\n{closing}", report.join("\n"));
    eprintln!("{closing}");
}

#[test]
fn both_servers_answer_alike() {
    let (scripts, all) = scripts();
    let ledger = Ledger::read(&folder());
    let answers = Answers::new("corpus", &["tests/conformance"], all);
    let test = "corpus::both_servers_answer_alike";
    let Some(real) = answers.of_the_real_server(test, &scripts, told_of_all) else {
        return;
    };
    let ours = beside(async |ours| told_of_all(&scripts, ours).await);
    let pairs = compared_all(&scripts, &ours, &real, &ledger);
    let tally = Tally::of(&pairs);
    let report = format!("{}\n{tally}", different(&pairs));
    assert_eq!(tally.different, 0, "\n{report}");
    eprintln!("{tally}");
    if all {
        assert_eq!(ledger.unused(), Vec::<String>::new(), "excuses without use");
    }
}

fn different(pairs: &[Pair]) -> String {
    let different = pairs.iter().filter(|pair| !pair.differences.is_empty());
    let different: Vec<String> = different.map(Pair::to_string).collect();
    different.join("\n")
}

#[test]
fn the_ledger_is_in_the_paper() {
    let paper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/FIDELITY.md");
    let text = std::fs::read_to_string(paper).expect("FIDELITY.md is readable");
    let missing = Ledger::read(&folder()).unexplained(&text);
    assert_eq!(missing, Vec::<String>::new(), "rows that FIDELITY.md lacks");
}
