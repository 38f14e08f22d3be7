//! Kubernetes' own programs, built from Go modules once per machine.
//!
//! The modules under `tests/cluster/` pin everything (`go.mod`, `go.sum`); no binary is ever committed. What is built lies
//! outside the repository, in a folder named by the hash of those files, so a change of versions builds anew and every
//! checkout on the machine shares the result. A file lock keeps parallel test processes from building twice; a
//! binary appears under its name only when it is complete. Must not know how the programs are started.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip::{Missing, say};

/// A program of Kubernetes that the tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The store behind the API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// Garbage collection, namespaces, deployments.
    ControllerManager,
    /// The command-line client.
    Kubectl,
}

impl Tool {
    fn file(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
        }
    }

    /// The folder of the Go module under `tests/cluster/`.
    fn module(self) -> &'static str {
        if self == Self::Etcd {
            "etcd"
        } else {
            "kubernetes"
        }
    }

    fn package(self) -> String {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3".to_owned(),
            other => format!("k8s.io/kubernetes/cmd/{}", other.file()),
        }
    }
}

/// Why a program is not there.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The machine has no Go.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// Go refused.
    #[error("go build {package} failed: {stderr}")]
    Build {
        /// The Go package.
        package: String,
        /// What Go said.
        stderr: String,
    },
    /// The cache folder could not be used.
    #[error("cache of built programs at {path}: {source}")]
    Cache {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The path of a program, built first where this machine does not have it yet (minutes for the API server).
///
/// # Errors
///
/// Where Go is missing, does not build, or the cache folder cannot be written.
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
    if binary.exists() {
        return Ok(binary);
    }
    std::fs::create_dir_all(&cache).map_err(at(&cache))?;
    let lock_path = cache.join("lock");
    let lock = File::create(&lock_path).map_err(at(&lock_path))?;
    lock.lock().map_err(at(&lock_path))?;
    if !binary.exists() {
        let partial = cache.join(format!("{}.partial", tool.file()));
        build(tool, &sources, &partial)?;
        std::fs::rename(&partial, &binary).map_err(at(&binary))?;
    }
    Ok(binary)
}

fn build(tool: Tool, sources: &Path, output: &Path) -> Result<(), ToolError> {
    say(&format!(
        "building {} from source, once per machine (minutes the first time)",
        tool.file()
    ));
    let version = pinned_version(sources);
    let stamp = format!("-s -w -X k8s.io/component-base/version.gitVersion={version}");
    let run = Command::new("go")
        .args(["build", "-buildvcs=false", "-ldflags", &stamp, "-o"])
        .arg(output)
        .arg(tool.package())
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
        package: tool.package(),
        stderr,
    })
}

/// The version of Kubernetes that `go.mod` requires, for the server to report as its own.
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

/// Where everything lies that is made once per machine.
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

/// FNV-1a over the files that pin versions, and the platform: stable between compilers, unlike the standard hasher.
pub(crate) fn key(files: &[impl AsRef<Path>]) -> io::Result<String> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut feed = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for file in files {
        feed(&std::fs::read(file)?);
    }
    feed(std::env::consts::OS.as_bytes());
    feed(std::env::consts::ARCH.as_bytes());
    Ok(format!("{hash:016x}"))
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
