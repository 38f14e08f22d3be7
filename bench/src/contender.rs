//! The contenders: how each is built, started and recognised by its mark.
//!
//! Promises that each gets the same profile, allocator and user rights. Must not know the scenarios.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kopf_rs_tests::{Package, python_of};
use serde::Serialize;

/// Who does the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// This project: an annotated function and `kopf_rs::main!`.
    Ours,
    /// `kube::runtime::Controller`.
    KubeRs,
    /// Watch lines in, patches out, nothing else.
    Floor,
    /// The same on bare connections, without a client of Kubernetes.
    RawFloor,
    /// Kopf, in Python.
    Kopf,
}

impl Contender {
    pub const ALL: [Self; 5] = [
        Self::Ours,
        Self::KubeRs,
        Self::Floor,
        Self::RawFloor,
        Self::Kopf,
    ];

    pub fn label(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::KubeRs => "kube-rs",
            Self::Floor => "floor",
            Self::RawFloor => "raw floor",
            Self::Kopf => "Kopf",
        }
    }

    /// The annotation by which this contender records that an object was handled.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Ours => "bench-ours.kopf.rs/last-handled-configuration",
            Self::KubeRs | Self::Floor | Self::RawFloor => "bench.kopf.rs/handled",
            Self::Kopf => "kopf.zalando.org/last-handled-configuration",
        }
    }

    /// A namespace, or a part of one, that is this contender's own.
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

    /// The package of its `MyApp` operator, for those compared by build time, size and idle memory.
    pub fn my_app(self) -> Option<&'static str> {
        match self {
            Self::Ours => Some("myapp-ours"),
            Self::KubeRs => Some("myapp-controller"),
            Self::Floor | Self::RawFloor | Self::Kopf => None,
        }
    }

    /// Builds it in release, or installs it.
    pub fn prepare(self) -> Result<()> {
        if let Some(package) = self.package() {
            return build_release(package);
        }
        python_of(Package::Kopf)?;
        Ok(())
    }

    /// Its operator over one namespace; the kubeconfig comes by the environment.
    pub fn command(self, namespace: &str) -> Result<Command> {
        let Some(package) = self.package() else {
            return kopf_command(namespace, "handlers.py");
        };
        Ok(self.rust_command(package, namespace))
    }

    /// Its `MyApp` operator over one namespace, if it has one.
    pub fn my_app_command(self, namespace: &str) -> Option<Command> {
        self.my_app()
            .map(|package| self.rust_command(package, namespace))
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

/// Kopf with these handlers of `contenders/kopf`, over one namespace.
pub fn kopf_command(namespace: &str, handlers: &str) -> Result<Command> {
    let mut command = Command::new(python_of(Package::Kopf)?);
    command
        .args(["-m", "kopf", "run", "--standalone", "-n", namespace])
        .arg(root().join("contenders/kopf").join(handlers))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// The folder of the benchmark in the checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the release build of a package lies.
pub fn release_binary(package: &str) -> PathBuf {
    root().join("target/release").join(package)
}

/// One package at a time, so that no contender gets the features another one asked for.
pub fn build_release(package: &str) -> Result<()> {
    let mut cargo = cargo(&root().join("target"));
    run(cargo.args(["--release", "--package", package]))
}

/// `cargo build` of the benchmark's workspace into a target folder.
pub fn cargo(target: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--locked", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    cargo
}

/// Runs a program to its end and says what it said where it failed.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("running {shown}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{shown} ended with {}: {words}",
        output.status
    );
    Ok(())
}
