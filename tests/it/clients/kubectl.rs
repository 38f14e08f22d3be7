//! kubectl and helm: scripts of commands as data, each command run against both servers, its exit code and all it prints
//! compared.
//!
//! The format is in `tests/clients/kubectl/README.md`. Must not know how either server works.

mod play;
mod script;

use std::path::{Path, PathBuf};

use futures_util::StreamExt as _;
use kopf_rs_tests::{Tool, runtime, say, tool};

use super::both::both;
use super::ledger::Ledger;
use play::{Pair, play};
use script::Script;

/// How many scripts run at a time: kubectl is mostly work for a processor.
const AT_A_TIME: usize = 3;

/// The scripts, or those that `KOPF_RS_KUBECTL` names (parts of names, separated by commas).
fn scripts(client: &str) -> (Vec<Script>, bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
    let mut scripts = Script::read_all(&folder.join(client));
    let wanted = std::env::var("KOPF_RS_KUBECTL").unwrap_or_default();
    let words: Vec<&str> = wanted.split(',').collect();
    scripts.retain(|script| words.iter().any(|word| script.name.contains(word)));
    (scripts, wanted.is_empty())
}

#[test]
fn kubectl_says_the_same_of_both_servers() {
    same_scripts("kubectl", &[Tool::Kubectl]);
}

#[test]
fn helm_does_the_same_on_both_servers() {
    same_scripts("helm", &[Tool::Kubectl, Tool::Helm]);
}

/// Runs the scripts of a client, which may call these programs.
fn same_scripts(client: &str, tools: &[Tool]) {
    let Some(both) = both(&format!("clients::kubectl::{client}")) else {
        return;
    };
    let (scripts, all) = scripts(client);
    if scripts.is_empty() {
        return;
    }
    let ledger = Ledger::of(client);
    let bin = tools.iter().map(|one| {
        let program = tool(*one).unwrap_or_else(|error| panic!("{error}"));
        let folder = program.parent().map(Path::to_owned);
        folder.expect("a program lies in a folder")
    });
    let bin: Vec<PathBuf> = bin.collect();
    let pairs: Vec<Vec<Pair>> = runtime().block_on(async {
        let runs = scripts
            .iter()
            .map(|script| play(script, both, &bin, &ledger));
        let runs = futures_util::stream::iter(runs).buffered(AT_A_TIME);
        runs.collect().await
    });
    let pairs: Vec<Pair> = pairs.into_iter().flatten().collect();
    let (closing, different) = tally(client, &pairs);
    assert!(
        different.is_empty(),
        "\n{}\n{closing}",
        different.join("\n")
    );
    say(&closing);
    if all {
        assert_eq!(ledger.unused(), Vec::<String>::new(), "excuses without use");
    }
}

/// The closing line, and the commands that differ.
fn tally(client: &str, pairs: &[Pair]) -> (String, Vec<String>) {
    let different: Vec<String> = pairs
        .iter()
        .filter(|pair| !pair.complaints.is_empty())
        .map(Pair::to_string)
        .collect();
    let fine = pairs.iter().filter(|pair| pair.complaints.is_empty());
    let excused = fine.filter(|pair| pair.excused).count();
    let equal = pairs.len() - different.len() - excused;
    let closing = format!(
        "{client}: {} commands, {equal} equal / {excused} in the ledger / {} different",
        pairs.len(),
        different.len()
    );
    (closing, different)
}
