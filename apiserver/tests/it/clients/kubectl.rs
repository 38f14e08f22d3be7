//! kubectl and helm: scripts of commands as data. Each command runs against our server; its exit code and output are compared with those
//! against the real server.
//!
//! `tests/clients/kubectl/README.md` describes the format. Must not know how either server works.

mod play;
mod script;

use std::path::{Path, PathBuf};

use futures_util::StreamExt as _;
use kopf_rs_apiserver_tests::{Tool, ToolError, kubernetes_version, runtime, say, skipped, tool};

use super::both::ours;
use super::client::{Client, Piece, pinned};
use super::ledger::Ledger;
use play::{Pair, Said, compared, play};
use script::Script;

/// The number of scripts that run at a time: kubectl needs mostly processor time.
const AT_A_TIME: usize = 3;

/// Returns the scripts and whether they are complete. `KOPF_RS_KUBECTL` selects some by parts of their names, separated by commas.
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
    let version = format!("kubectl {}", kubernetes_version());
    same_scripts("kubectl", &[Tool::Kubectl], version);
}

#[test]
fn helm_does_the_same_on_both_servers() {
    let version = pinned("cluster/helm/go.mod", "helm.sh/helm/v4 v");
    same_scripts("helm", &[Tool::Kubectl, Tool::Helm], version);
}

/// Runs the scripts of a client, which may call these programs.
fn same_scripts(name: &str, tools: &[Tool], version: String) {
    let test = format!("clients::kubectl::{name}");
    let (scripts, all) = scripts(name);
    if scripts.is_empty() {
        return;
    }
    let Some(bin) = folders(&test, tools) else {
        return;
    };
    let client = Client {
        test: &test,
        name,
        version,
        files: &[],
    };
    let file = |script: &Script| format!("tests/clients/{name}/{}.txt", script.name);
    let files: Vec<String> = scripts.iter().map(file).collect();
    let pieces = scripts.iter().zip(&files).map(|(script, file)| Piece {
        name: &script.name,
        file: Some(file.as_str()),
    });
    let pieces: Vec<Piece<'_>> = pieces.collect();
    let told = |side: &str, kubeconfig: &Path| -> Vec<Vec<Option<Said>>> {
        runtime().block_on(async {
            let runs = scripts
                .iter()
                .map(|script| play(side, script, kubeconfig, &bin));
            let runs = futures_util::stream::iter(runs).buffered(AT_A_TIME);
            runs.collect().await
        })
    };
    let real = client.beside_the_real_server(&pieces, all, |kubeconfig| told("real", kubeconfig));
    let Some(real) = real else { return };
    let ours = told("ours", &ours());
    let ledger = Ledger::of(name);
    let sides = scripts.iter().zip(ours.iter().zip(&real));
    let pairs: Vec<Pair> = sides
        .flat_map(|(script, (ours, real))| compared(script, ours, real, &ledger))
        .collect();
    let (closing, different) = tally(name, &pairs);
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

/// Returns the folders of these programs; `None` if this machine cannot build them.
fn folders(test: &str, tools: &[Tool]) -> Option<Vec<PathBuf>> {
    let folder = |one: &Tool| match tool(*one) {
        Ok(program) => Some(
            program
                .parent()
                .expect("a program lies in a folder")
                .to_owned(),
        ),
        Err(ToolError::Missing(missing)) => {
            skipped(test, &missing);
            None
        }
        Err(error) => panic!("{error}"),
    };
    tools.iter().map(folder).collect()
}

/// Returns the summary line, and the commands that differ.
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
