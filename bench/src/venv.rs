//! Kopf in an environment of its own under `bench/.venv`, made on the first run.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::contender::{root, run};

/// Tried in turn; the first that starts is used.
const PYTHONS: [&str; 2] = ["python3.11", "python3"];

fn home() -> PathBuf {
    root().join(".venv")
}

fn sources(file: &str) -> PathBuf {
    root().join("contenders/kopf").join(file)
}

/// Installs what `requirements.txt` pins, unless exactly that is there already.
pub fn install() -> Result<()> {
    let wanted = std::fs::read_to_string(sources("requirements.txt"))?;
    let stamp = home().join("installed.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let starts = |python: &&str| {
        Command::new(python)
            .arg("--version")
            .output()
            .is_ok_and(|run| run.status.success())
    };
    let python = PYTHONS
        .into_iter()
        .find(|python| starts(python))
        .context("no Python on this machine")?;
    run(Command::new(python)
        .args(["-m", "venv", "--clear"])
        .arg(home()))?;
    run(Command::new(home().join("bin/python"))
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
        ])
        .arg(sources("requirements.txt")))?;
    std::fs::write(stamp, wanted)?;
    Ok(())
}

/// `kopf run` over one namespace.
pub fn command(namespace: &str) -> Command {
    let mut command = Command::new(home().join("bin/python"));
    command
        .args(["-m", "kopf", "run", "--standalone", "-n", namespace])
        .arg(sources("handlers.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}
