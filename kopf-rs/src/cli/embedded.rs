//! `--embedded`: an API server in this process, reached in memory by the operator and over TCP by kubectl.
//!
//! Without the cargo feature `embedded`, a stub explains how to enable it. This module does not know how the server
//! is used.

#[cfg(feature = "embedded")]
use std::fs::{File, TryLockError};
#[cfg(feature = "embedded")]
use std::io;
use std::path::{Path, PathBuf};

use crate::cluster::Client;

/// The environment variable in which `kopf-rs run` passes its build folder.
pub(crate) const RUN_FOLDER: &str = "KOPF_RS_RUN_DIR";

/// The environment variable in which `kopf-rs dev` says that the API server is its own, on this machine.
pub(crate) const LOCAL_SERVER: &str = "KOPF_RS_LOCAL_SERVER";

/// A server that stops on drop, together with its kubeconfig file.
pub(crate) struct Embedded {
    kubeconfig: PathBuf,
    /// Holds the lock while the file belongs to this process.
    #[cfg(feature = "embedded")]
    _lock: Option<File>,
    #[cfg(feature = "embedded")]
    server: kopf_rs_apiserver::ApiServer,
    #[cfg(feature = "embedded")]
    listening: kopf_rs_apiserver::Listening,
}

/// Why the server cannot be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EmbeddedError {
    #[cfg(not(feature = "embedded"))]
    #[error(
        "--embedded: this program is built without the API server; switch on the feature `embedded` of kopf-rs in its Cargo.toml"
    )]
    Without,
    #[cfg(not(feature = "embedded"))]
    #[error(
        "--manifests: this program is built without the in-process API server, which finds the kinds; switch on the feature `embedded` of \
         kopf-rs in its Cargo.toml, or ask a cluster by --kubeconfig or --context"
    )]
    WithoutManifests,
    #[cfg(feature = "embedded")]
    #[error("--embedded: {0}; choose another port, or give none for any free one")]
    Listen(#[from] kopf_rs_apiserver::ListenError),
    #[cfg(feature = "embedded")]
    #[error("--embedded: cannot write {}: {error}", .path.display())]
    Write { path: PathBuf, error: io::Error },
}

#[cfg(feature = "embedded")]
impl Embedded {
    /// Listens on `port` of 127.0.0.1; 0 selects a free port. With `workloads`, Deployments create Pods, and Pods
    /// become ready.
    pub(crate) async fn start(port: u16, workloads: bool) -> Result<Self, EmbeddedError> {
        let server = kopf_rs_apiserver::ApiServer::new();
        if workloads {
            server.workloads(kopf_rs_apiserver::WorkloadOptions::new());
        }
        let listening = server.listen(([127, 0, 0, 1], port).into()).await?;
        let run_folder = std::env::var_os(RUN_FOLDER).map(PathBuf::from);
        let (kubeconfig, lock) = match run_folder {
            Some(folder) => free_place(&folder)?,
            None => (temporary_place(), None),
        };
        write_private(&kubeconfig, &listening.kubeconfig()).map_err(cannot_write(&kubeconfig))?;
        Ok(Self { kubeconfig, _lock: lock, server, listening })
    }

    /// Returns a client that reaches the server without the network.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.server.service(), "default")
    }

    /// Returns the URL of the server, for people.
    pub(crate) fn url(&self) -> String {
        self.listening.url()
    }
}

#[cfg(not(feature = "embedded"))]
impl Embedded {
    pub(crate) async fn start(_port: u16, _workloads: bool) -> Result<Self, EmbeddedError> {
        Err(EmbeddedError::Without)
    }

    pub(crate) fn client(&self) -> Client {
        unreachable!("never started without the feature")
    }

    pub(crate) fn url(&self) -> String {
        unreachable!("never started without the feature")
    }
}

/// Returns a client of a new server in this process, which no other process reaches.
#[cfg(feature = "embedded")]
#[expect(clippy::unnecessary_wraps, reason = "the same as without the feature")]
pub(crate) fn in_memory() -> Result<Client, EmbeddedError> {
    Ok(Client::new(kopf_rs_apiserver::ApiServer::new().service(), "default"))
}

#[cfg(not(feature = "embedded"))]
pub(crate) fn in_memory() -> Result<Client, EmbeddedError> {
    Err(EmbeddedError::WithoutManifests)
}

impl Embedded {
    /// Returns the kubeconfig file for kubectl.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // The file may be gone already, and is useless without the server.
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

/// Finds a free file name in the build folder of `kopf-rs run`: `kubeconfig`, or `kubeconfig-2` and so on if other
/// processes run.
///
/// A lock, rather than the existence of the file, reserves a name: the lock ends with its process, so the file of a
/// killed process is replaced.
#[cfg(feature = "embedded")]
fn free_place(folder: &Path) -> Result<(PathBuf, Option<File>), EmbeddedError> {
    std::fs::create_dir_all(folder).map_err(cannot_write(folder))?;
    let mut number = 1_u32;
    loop {
        let name = match number {
            1 => "kubeconfig".to_owned(),
            number => format!("kubeconfig-{number}"),
        };
        let lock_path = folder.join(format!("{name}.lock"));
        let lock = File::create(&lock_path).map_err(cannot_write(&lock_path))?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => number += 1,
            // If the file system does not support locks, users must keep concurrent runs apart.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok((folder.join(name), Some(lock))),
        }
    }
}

/// Returns a file name in the system's temporary folder that no other process uses.
#[cfg(feature = "embedded")]
fn temporary_place() -> PathBuf {
    std::env::temp_dir().join(format!("kopf-rs-{}.kubeconfig", std::process::id()))
}

#[cfg(feature = "embedded")]
fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> EmbeddedError {
    let path = path.to_owned();
    |error| EmbeddedError::Write { path, error }
}

/// Creates a file with a token: readable only by its owner, and never through a symbolic link of another user.
#[cfg(feature = "embedded")]
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_process_is_gone() {
        let folder = std::env::temp_dir().join(format!("kopf-rs-places-{}", std::process::id()));
        let place = || free_place(&folder).map(|(path, lock)| (path.file_name().unwrap().to_owned(), lock));
        let (first, lock) = place().unwrap();
        let (second, _held) = place().unwrap();
        assert_eq!((first.to_str(), second.to_str()), (Some("kubeconfig"), Some("kubeconfig-2")));
        // The file of a killed process stays; its lock does not.
        drop(lock);
        let (third, _held) = place().unwrap();
        assert_eq!(third, first);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
