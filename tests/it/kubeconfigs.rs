//! Kubeconfigs and proxies: kubectl and operators must use the same servers in the same way with the same credentials. If kubectl refuses a
//! kubeconfig, operators must refuse it with a message that names the mistake.
//!
//! The cases lie in `tests/kubeconfigs/`. The behaviour of kubectl is recorded, so kubectl is needed only for a new
//! recording. This module does not know how either of them reads a kubeconfig.

mod case;
mod servers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use kopf_rs_tests::{Digest, Mode, Recorded, Tool, ToolError, kubernetes_version, say, skipped, tool};
use serde::{Deserialize, Serialize};

use crate::cli::{operator, root};
use case::Case;
use servers::Servers;

/// The files that affect the behaviour of kubectl.
const SOURCES: &[&str] = &[
    "tests/kubeconfigs",
    "tests/it/kubeconfigs",
    "tests/it/kubeconfigs.rs",
    "apiserver/tests/cluster/kubernetes/go.mod",
];
/// The variables that configure proxies.
const VARIABLES: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
];

/// The behaviour of a program with a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Done {
    case: String,
    /// The requests that servers and proxies received, in order.
    seen: Vec<String>,
    /// The error, if it sent no request.
    refused: Option<String>,
}

#[test]
fn kubeconfigs_are_read_as_kubectl_reads_them() {
    compare("kubeconfigs", 60);
}

#[test]
fn proxies_are_used_as_kubectl_uses_them() {
    compare("proxies", 30);
}

/// Plays all cases of a file, which must have at least `least`.
fn compare(name: &str, least: usize) {
    let file = format!("tests/kubeconfigs/{name}.yaml");
    let cases = Case::read_all(&file);
    assert!(cases.len() >= least, "{} cases", cases.len());
    let servers = Servers::start();
    let Some(theirs) = of_kubectl(name, &file, &cases, &servers) else {
        return;
    };
    let ours = cases.iter().enumerate().map(|(number, case)| {
        let folder = folder("ours", name, number);
        let config = case.write(&folder, &servers);
        run(case, &folder, &servers, operator("lucky", &[]), &config)
    });
    let ours: Vec<Done> = ours.collect();
    let sides = cases.iter().zip(theirs.iter().zip(&ours));
    let wrong: Vec<String> =
        sides.filter_map(|(case, (theirs, ours))| complaint(case, theirs, ours)).collect();
    let refused = theirs.iter().filter(|it| it.refused.is_some()).count();
    let differ = cases.iter().filter(|it| it.differs.is_some()).count();
    let all = cases.len();
    let closing = format!(
        "{name}: {all} cases, {} taken and {refused} refused by kubectl, {differ} known to differ, {} wrong",
        all - refused,
        wrong.len()
    );
    assert!(wrong.is_empty(), "\n{}\n{closing}", wrong.join("\n"));
    say(&closing);
}

fn of_kubectl(name: &str, file: &str, cases: &[Case], servers: &Servers) -> Option<Vec<Done>> {
    let by = format!("kubectl {}", kubernetes_version());
    let recorded = Recorded::of(root(), "kubeconfigs", &by, SOURCES);
    let asked = Digest::new().and_files(root(), &[file]);
    let asked = asked.expect("the cases are readable");
    let read = || -> Vec<Done> {
        let done = recorded.read(name, asked);
        done.unwrap_or_else(|why| panic!("{why}"))
    };
    let mode = recorded.mode();
    if mode == Mode::Recorded {
        return Some(read());
    }
    let kubectl = match tool(Tool::Kubectl) {
        Ok(kubectl) => kubectl,
        Err(ToolError::Missing(missing)) => {
            skipped(&format!("kubeconfigs::{name}"), &missing);
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let now = cases.iter().enumerate().map(|(number, case)| {
        let folder = folder("kubectl", name, number);
        let config = case.write(&folder, servers);
        let mut command = Command::new(&kubectl);
        command.args(["get", "--raw", "/version"]);
        command.env_clear().env("HOME", &folder);
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        run(case, &folder, servers, command, &config)
    });
    let now: Vec<Done> = now.collect();
    if mode == Mode::Recording {
        recorded.write(name, asked, &now, |known, now| known == now);
        recorded.complete(["kubeconfigs", "proxies"]);
    } else {
        assert_eq!(read(), now, "kubectl does something else than is recorded: `./test record` records anew");
    }
    Some(now)
}

/// Runs a program with the kubeconfig and the variables of a case.
fn run(case: &Case, folder: &Path, servers: &Servers, mut command: Command, config: &Path) -> Done {
    for name in VARIABLES {
        command.env_remove(name);
    }
    let filled = |text: &str| servers.fill(text, folder);
    command.envs(case.env.iter().map(|(name, value)| (name, filled(value))));
    if !case.env.contains_key("KUBECONFIG") {
        command.arg("--kubeconfig").arg(config);
    }
    command.args(&case.args).stdin(Stdio::null());
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", case.name));
    let seen = servers.seen().into_iter();
    let seen: Vec<String> = seen.map(|it| servers.unfill(&it, folder)).collect();
    let is_answered = seen.iter().any(|it| it.contains("GET "));
    let refused = (!is_answered).then(|| servers.unfill(&words(&output), folder));
    Done { case: case.name.clone(), seen, refused }
}

/// Returns the line with the error, without parts that depend on the machine and the time.
fn words(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let marks = ["error:", "Unable to connect", "Error"];
    let line = said.lines().find(|line| marks.iter().any(|mark| line.contains(mark)));
    let line = line.or_else(|| said.lines().next()).unwrap_or_default();
    let ends = ["dial tcp", ": current time", "lookup "];
    let end = ends.iter().filter_map(|mark| line.find(mark)).min();
    line[..end.unwrap_or(line.len())].trim_end().to_owned()
}

/// Returns the differences of our behaviour from kubectl's.
fn complaint(case: &Case, theirs: &Done, ours: &Done) -> Option<String> {
    let told = match (&case.ours, &ours.refused) {
        (Some(part), Some(words)) => words.contains(part.as_str()),
        (None, None) => true,
        _ => false,
    };
    let is_same = theirs.seen == ours.seen && theirs.refused.is_some() == ours.refused.is_some();
    let is_fine = told && is_same != case.differs.is_some();
    (!is_fine).then(|| {
        let expected = case.ours.as_deref().unwrap_or("nothing");
        format!("{}:\n  kubectl: {theirs:?}\n  ours:    {ours:?}\n  to be said: {expected}", case.name)
    })
}

/// Returns an empty folder for a case.
fn folder(side: &str, name: &str, number: usize) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kubeconfigs/{name}/{side}/{number}"));
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("scratch folders can be removed");
    }
    fs::create_dir_all(&folder).expect("scratch folders can be made");
    folder
}
