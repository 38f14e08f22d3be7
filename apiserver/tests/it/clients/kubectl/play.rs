//! Runs the commands of a script in order on a server, and compares the results of both servers.
//!
//! Each side has its own folder, home and namespace; every command ends, or fails at a deadline. Must not know the meaning of commands.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kopf_rs_apiserver_tests::Program;
use serde::{Deserialize, Serialize};

use super::super::both::scratch;
use super::super::ledger::Ledger;
use super::super::plain::{Own, plain, unequal};
use super::script::{Run, Script, Step};

/// The deadline for a command or an awaited result.
const PATIENCE: Duration = Duration::from_secs(120);

/// A command, and the differences between the two servers.
#[derive(Debug)]
pub(super) struct Pair {
    script: String,
    command: String,
    pub(super) complaints: Vec<String>,
    pub(super) excused: bool,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.script, self.command)?;
        self.complaints
            .iter()
            .try_for_each(|complaint| writeln!(f, "    {complaint}"))
    }
}

/// The result of a command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Said {
    exit: i32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    out: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    err: Vec<String>,
}

/// Runs a script on a server, and returns the result of each step that is compared.
pub(super) async fn play(
    side: &str,
    script: &Script,
    kubeconfig: &Path,
    bin: &[PathBuf],
) -> Vec<Option<Said>> {
    let mut side = Side::new(side, script, kubeconfig, bin).await;
    let mut all = Vec::new();
    for step in &script.steps {
        all.push(side.play(step).await);
    }
    side.leave().await;
    all
}

/// Compares the results of a script on both servers.
pub(super) fn compared(
    script: &Script,
    ours: &[Option<Said>],
    real: &[Option<Said>],
    ledger: &Ledger,
) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (step, (one, two)) in script.steps.iter().zip(ours.iter().zip(real)) {
        let Some((one, two)) = one.as_ref().zip(two.as_ref()) else {
            continue;
        };
        let command = step.to_string();
        let differences = differences(one, two);
        let count = differences.len();
        let mut complaints = ledger.without_excused((&script.name, &command), differences);
        let excused = complaints.len() < count;
        if let Step::Run(run) = step {
            complaints.extend(unexpected(run, two));
        }
        pairs.push(Pair {
            script: script.name.clone(),
            command,
            complaints,
            excused,
        });
    }
    pairs
}

/// Returns the differences between the real server's result and the one that the script expects.
fn unexpected(run: &Run, real: &Said) -> Vec<String> {
    let text = || [real.out.join("\n"), real.err.join("\n")].join("\n");
    let mut complaints = Vec::new();
    if real.exit != run.exit {
        complaints.push(format!("the real exit code is {}:\n{}", real.exit, text()));
    }
    if let Some(says) = run.says.as_ref().filter(|says| !text().contains(*says)) {
        complaints.push(format!("no {says:?} beside the real server:\n{}", text()));
    }
    complaints
}

fn differences(ours: &Said, real: &Said) -> Vec<String> {
    let mut found = Vec::new();
    if ours.exit != real.exit {
        found.push(format!("exit: ours {}, real {}", ours.exit, real.exit));
    }
    found.extend(unequal("out", &ours.out, &real.out));
    found.extend(unequal("err", &ours.err, &real.err));
    found
}

/// A server, and the programs that run against it.
struct Side {
    folder: PathBuf,
    path: String,
    namespace: String,
    own: Own,
    watches: BTreeMap<String, Program>,
}

// === impl Side ===

impl Side {
    async fn new(name: &str, script: &Script, kubeconfig: &Path, bin: &[PathBuf]) -> Self {
        let folder = scratch(&format!("kubectl-{}-{name}", script.name));
        let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig is readable");
        let mut own = Own::of(&text);
        own.hide(&folder.display().to_string(), "<folder>");
        std::fs::write(folder.join("kubeconfig"), text).expect("scratch files can be written");
        for (file, text) in &script.files {
            let path = folder.join("work").join(file);
            std::fs::create_dir_all(path.parent().expect("a file has a folder"))
                .and_then(|()| std::fs::write(path, text))
                .expect("scratch files can be written");
        }
        std::fs::create_dir_all(folder.join("work")).expect("scratch folders can be made");
        let outer = std::env::var("PATH").unwrap_or_default();
        let bin = bin.iter().map(|folder| folder.display().to_string());
        let side = Self {
            path: bin.chain([outer]).collect::<Vec<_>>().join(":"),
            namespace: script.namespace(),
            folder,
            own,
            watches: BTreeMap::new(),
        };
        let begin = format!(
            "kubectl create namespace {0} && kubectl config set-context --current --namespace={0}",
            side.namespace
        );
        let said = side.run(&begin).await;
        assert_eq!(said.exit, 0, "{}: {}", script.name, said.err.join("\n"));
        side
    }

    /// Runs a step, and returns its result if it is to be compared.
    async fn play(&mut self, step: &Step) -> Option<Said> {
        match step {
            Step::Run(run) => Some(self.repeated(run).await),
            Step::Start { name, command } => {
                let program = Program::start(self.command(command), PATIENCE);
                self.watches.insert(name.clone(), program);
                None
            }
            Step::Await { name, lines } => {
                self.until(name, *lines).await;
                None
            }
            Step::Take { name, lines } => {
                let lines = self.until(name, *lines).await;
                self.watches.remove(name);
                Some(Said {
                    out: plain(&lines.join("\n"), &self.own),
                    ..Said::default()
                })
            }
        }
    }

    async fn repeated(&self, run: &Run) -> Said {
        let Some(until) = &run.until else {
            return self.run(&run.command).await;
        };
        let mut pulse = tokio::time::interval(Duration::from_millis(100));
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            pulse.tick().await;
            let mut said = self.run(&run.command).await;
            let mut lines = said.out.iter().chain(&said.err);
            if said.exit == run.exit && lines.any(|line| line.contains(until)) {
                return said;
            }
            if tokio::time::Instant::now() > deadline {
                said.err.push(format!("{until:?} never came"));
                return said;
            }
        }
    }

    /// Returns the first lines of the program that runs under a name.
    async fn until(&self, name: &str, count: usize) -> Vec<String> {
        let program = self.watches.get(name).expect("what is awaited was started");
        let what = format!("{count} lines of {name}");
        let mut all = program.until(&what, |lines| lines.len() >= count).await;
        all.truncate(count);
        all
    }

    async fn run(&self, line: &str) -> Said {
        let mut command = tokio::process::Command::from(self.command(line));
        command
            .kill_on_drop(true)
            .stdin(std::process::Stdio::null());
        let ran = tokio::time::timeout(PATIENCE, command.output()).await;
        let Ok(ran) = ran else {
            return Said {
                exit: -1,
                err: vec![format!("it still runs after {PATIENCE:?}")],
                ..Said::default()
            };
        };
        let ran = ran.expect("a shell can be run");
        let lines = |bytes: &[u8]| plain(&String::from_utf8_lossy(bytes), &self.own);
        Said {
            exit: ran.status.code().unwrap_or(-1),
            out: lines(&ran.stdout),
            err: lines(&ran.stderr),
        }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(self.folder.join("work"))
            .env("PATH", &self.path)
            .env("HOME", &self.folder)
            .env("KUBECONFIG", self.folder.join("kubeconfig"));
        command
    }

    /// Deletes the namespace, so that later runs and other clients do not see its objects.
    async fn leave(&mut self) {
        self.watches.clear();
        let end = format!("kubectl delete namespace {} --wait=false", self.namespace);
        self.run(&end).await;
    }
}
