//! The contenders: how each is built, started and recognised by its mark.
//!
//! All get the same profile, allocator and permissions. Must not know the scenarios.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kopf_rs_tests::{Package, python_of};
use serde::Serialize;

/// An implementation of the benchmark job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// This project: an annotated function and `kopf_rs::main!`.
    Ours,
    /// `kube::runtime::Controller`.
    KubeRs,
    /// The floor: watch lines in, patches out, nothing else.
    Floor,
    /// The raw floor: the same on bare connections, without a Kubernetes client.
    RawFloor,
    /// Kopf, in Python.
    Kopf,
}

impl Contender {
    pub const ALL: [Self; 5] = [Self::Ours, Self::KubeRs, Self::Floor, Self::RawFloor, Self::Kopf];

    pub fn label(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::KubeRs => "kube-rs",
            Self::Floor => "floor",
            Self::RawFloor => "raw floor",
            Self::Kopf => "Kopf",
        }
    }

    /// Returns the annotation with which this contender records that an object was handled.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Ours => "bench-ours.kopf.rs/last-handled-configuration",
            Self::KubeRs | Self::Floor | Self::RawFloor => "bench.kopf.rs/handled",
            Self::Kopf => "kopf.zalando.org/last-handled-configuration",
        }
    }

    /// Returns a namespace, or a part of one, that only this contender uses.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::KubeRs => "kube-rs",
            Self::Floor => "floor",
            Self::RawFloor => "raw-floor",
            Self::Kopf => "kopf",
        }
    }

    fn package(self) -> Option<&'static str> {
        match self {
            Self::Ours => Some("bench-ours"),
            Self::KubeRs => Some("bench-controller"),
            Self::Floor => Some("bench-floor"),
            Self::RawFloor => Some("bench-raw-floor"),
            Self::Kopf => None,
        }
    }

    /// Returns the package of its `MyApp` operator, if it is compared by build time, size and idle memory.
    pub fn my_app(self) -> Option<&'static str> {
        match self {
            Self::Ours => Some("myapp-ours"),
            Self::KubeRs => Some("myapp-controller"),
            Self::Floor | Self::RawFloor | Self::Kopf => None,
        }
    }

    /// Builds its release binary, or installs it.
    pub fn prepare(self) -> Result<()> {
        if let Some(package) = self.package() {
            return build_release(package);
        }
        python_of(Package::Kopf)?;
        Ok(())
    }

    /// Returns the command of its operator for one namespace; the kubeconfig comes from the environment.
    pub fn command(self, namespace: &str) -> Result<Command> {
        let Some(package) = self.package() else {
            return kopf_command(namespace, "handlers.py");
        };
        Ok(self.rust_command(package, namespace))
    }

    /// Returns the command of its `MyApp` operator for one namespace, if it has one.
    pub fn my_app_command(self, namespace: &str) -> Option<Command> {
        self.my_app().map(|package| self.rust_command(package, namespace))
    }

    fn rust_command(self, package: &str, namespace: &str) -> Command {
        let mut command = Command::new(release_binary(package));
        if self == Self::Ours {
            command.arg("-n");
        }
        command.arg(namespace);
        command
    }
}

/// Returns the command of Kopf with these handlers of `contenders/kopf`, for one namespace.
pub fn kopf_command(namespace: &str, handlers: &str) -> Result<Command> {
    let mut command = Command::new(python_of(Package::Kopf)?);
    command
        .args(["-m", "kopf", "run", "--standalone", "-n", namespace])
        .arg(root().join("contenders/kopf").join(handlers))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// Returns the folder of the benchmark in the checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the path of the release build of a package.
pub fn release_binary(package: &str) -> PathBuf {
    root().join("target/release").join(package)
}

/// Builds packages one at a time, because a common build would unify the features of all contenders.
pub fn build_release(package: &str) -> Result<()> {
    let mut cargo = cargo(&root().join("target"));
    run(cargo.args(["--release", "--package", package]))
}

/// Returns the command `cargo build` for the benchmark's workspace with a target folder.
pub fn cargo(target: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--locked", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    cargo
}

/// Runs a program to its end; a failure includes its output.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("running {shown}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{shown} ended with {}: {words}", output.status);
    Ok(())
}
