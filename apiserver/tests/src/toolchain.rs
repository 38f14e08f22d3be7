//! Programs of the Kubernetes project and a few tools, built from Go modules once per machine.
//!
//! The modules under `tests/cluster/` pin all versions (`go.mod`, `go.sum`); the repository contains no binaries. The binaries lie outside
//! the repository, in a folder named by the hash of those files: a change of versions builds them again, and every checkout on the machine
//! shares the result. A file lock keeps parallel test processes from building twice; a binary appears under its final name only when it is
//! complete. Must not know how the programs are started.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::digest::Digest;
use crate::skip::{Missing, say, slow};

/// A program that the tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The data store of the API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controller manager: garbage collection, namespaces, deployments.
    ControllerManager,
    /// The command-line client.
    Kubectl,
    /// Helm, which installs charts.
    Helm,
    /// Promtool, which evaluates Prometheus rules.
    Promtool,
    /// Actionlint, which checks workflows of GitHub.
    Actionlint,
}

impl Tool {
    fn file(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::Helm => "helm",
            Self::Promtool => "promtool",
            Self::Actionlint => "actionlint",
        }
    }

    /// Returns the folder of the Go module under `tests/cluster/`.
    fn module(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Helm => "helm",
            Self::Promtool => "prometheus",
            Self::Actionlint => "actionlint",
            _ => "kubernetes",
        }
    }

    fn package(self) -> String {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3".to_owned(),
            Self::Helm => "helm.sh/helm/v4/cmd/helm".to_owned(),
            Self::Promtool => "github.com/prometheus/prometheus/cmd/promtool".to_owned(),
            Self::Actionlint => "github.com/rhysd/actionlint/cmd/actionlint".to_owned(),
            other => format!("k8s.io/kubernetes/cmd/{}", other.file()),
        }
    }
}

/// The reason why a program is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The machine has no Go.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The Go build failed.
    #[error("go build {package} failed: {stderr}")]
    Build {
        /// The Go package.
        package: String,
        /// The error output of Go.
        stderr: String,
    },
    /// The cache folder could not be used.
    #[error("cache of built programs at {path}: {source}")]
    Cache {
        /// The folder or file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
}

/// Returns the path of a program, and builds it first if necessary, which takes minutes for the API server.
///
/// # Errors
///
/// Returns an error if Go is missing or fails, or if the cache folder cannot be written.
pub fn tool(tool: Tool) -> Result<PathBuf, ToolError> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("cluster")
        .join(tool.module());
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| ToolError::Cache { path, source }
    };
    let hash = key(&pinned_files(&sources)).map_err(at(&sources))?;
    let cache = cache_root().join(format!("{}-{hash}", tool.module()));
    let binary = cache.join(tool.file());
    let stamp = format!(
        "-s -w -X k8s.io/component-base/version.gitVersion={}",
        pinned_version(&sources)
    );
    built(&binary, &sources, &tool.package(), &stamp)?;
    Ok(binary)
}

/// Returns the path of a Go program of the module in `sources`, and builds it first unless this machine has a build of exactly these
/// sources.
///
/// # Errors
///
/// Returns an error if Go is missing or fails, or if the cache folder cannot be written.
pub fn go_program(sources: &Path, package: &str) -> Result<PathBuf, ToolError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| ToolError::Cache { path, source }
    };
    let mut files = pinned_files(sources).to_vec();
    go_files(sources, &mut files).map_err(at(sources))?;
    files.sort();
    let hash = key(&files).map_err(at(sources))?;
    let module = sources.file_name().unwrap_or_default().to_string_lossy();
    let binary = cache_root().join(format!("{module}-{hash}")).join(package);
    built(&binary, sources, &format!("./{package}"), "-s -w")?;
    Ok(binary)
}

fn go_files(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            go_files(&path, found)?;
        } else if path.extension().is_some_and(|it| it == "go") {
            found.push(path);
        }
    }
    Ok(())
}

fn built(binary: &Path, sources: &Path, package: &str, flags: &str) -> Result<(), ToolError> {
    slow("a program in Go");
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| ToolError::Cache { path, source }
    };
    let folder = binary.parent().unwrap_or(binary);
    once_per_machine(
        folder,
        binary,
        |path, source| at(path)(source),
        || {
            let partial = binary.with_extension("partial");
            build(package, flags, sources, &partial)?;
            std::fs::rename(&partial, binary).map_err(at(binary))
        },
    )
}

/// Fills `folder` unless the file `complete` exists. A file lock makes other processes wait for the one that fills it.
pub(crate) fn once_per_machine<E>(
    folder: &Path,
    complete: &Path,
    unusable: impl Fn(&Path, io::Error) -> E,
    fill: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    if complete.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(|error| unusable(folder, error))?;
    // The lock file lies beside the folder, so that `fill` may clear the folder.
    let path = folder.with_extension("lock");
    let lock = File::create(&path).map_err(|error| unusable(&path, error))?;
    lock.lock().map_err(|error| unusable(&path, error))?;
    if complete.exists() { Ok(()) } else { fill() }
}

fn build(package: &str, flags: &str, sources: &Path, output: &Path) -> Result<(), ToolError> {
    say(&format!(
        "building {package} from source, once per machine (minutes the first time)"
    ));
    let run = Command::new("go")
        .args(["build", "-buildvcs=false", "-ldflags", flags, "-o"])
        .arg(output)
        .arg(package)
        .current_dir(sources)
        .env("CGO_ENABLED", "0")
        .output()
        .map_err(|error| Missing {
            what: "Go".into(),
            detail: format!("could not run `go build`: {error}"),
        })?;
    if run.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
    Err(ToolError::Build {
        package: package.to_owned(),
        stderr,
    })
}

/// Returns the version of Kubernetes whose programs the tests run, as `v1.2.3`.
#[must_use]
pub fn kubernetes_version() -> String {
    pinned_version(&Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/kubernetes"))
}

/// Returns the version of Kubernetes that `go.mod` requires, which the server reports as its own.
fn pinned_version(sources: &Path) -> String {
    let text = std::fs::read_to_string(sources.join("go.mod")).unwrap_or_default();
    let required = text.lines().find_map(|line| {
        let mut words = line.trim_start_matches("require").split_whitespace();
        (words.next() == Some("k8s.io/kubernetes"))
            .then(|| words.next())
            .flatten()
    });
    required.unwrap_or("v0.0.0-unknown").to_owned()
}

/// Returns the folder of all files that are made once per machine.
pub(crate) fn cache_root() -> PathBuf {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    variable("KOPF_RS_TEST_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|root| root.join("kopf-rs-tests")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/kopf-rs-tests")))
        .unwrap_or_else(|| std::env::temp_dir().join("kopf-rs-tests-cache"))
}

fn pinned_files(sources: &Path) -> [PathBuf; 2] {
    ["go.mod", "go.sum"].map(|name| sources.join(name))
}

/// Returns a digest of the files that pin versions, and of the platform.
pub(crate) fn key(files: &[impl AsRef<Path>]) -> io::Result<String> {
    let mut digest = Digest::new();
    for file in files {
        digest = digest.and(std::fs::read(file)?);
    }
    let digest = digest.and(std::env::consts::OS);
    Ok(digest.and(std::env::consts::ARCH).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_reports_the_version_that_is_pinned() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/kubernetes");
        let version = pinned_version(&sources);
        assert!(version.starts_with("v1.") && version.len() > 4, "{version}");
    }

    #[test]
    fn the_key_follows_the_pinned_files() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster");
        let hash = |module| key(&pinned_files(&root.join(module))).unwrap();
        assert_ne!(hash("etcd"), hash("kubernetes"));
        assert_eq!(hash("etcd"), hash("etcd"));
    }
}
