//! The server of a test over TLS, for programs that read a kubeconfig file.
//!
//! Promise: the file is there for as long as the server listens. Must not know programs.

use std::fs;
use std::path::{Path, PathBuf};

use kopf_rs_apiserver::{ApiServer, Listening};

/// A server that listens, and its administrator's kubeconfig file.
#[derive(Debug)]
pub(super) struct Kubeconfig {
    path: PathBuf,
    _listening: Listening,
}

impl Kubeconfig {
    /// # Panics
    /// Where there is no free port on this machine, or no file can be written.
    pub(super) async fn of(server: &ApiServer) -> Self {
        let listening = server.listen(([127, 0, 0, 1], 0).into()).await;
        let listening = listening.unwrap_or_else(|error| panic!("{error}"));
        let (process, port) = (std::process::id(), listening.addr().port());
        let name = format!("kopf-rs-testing-{process}-{port}.kubeconfig");
        let path = std::env::temp_dir().join(name);
        if let Err(error) = fs::write(&path, listening.kubeconfig()) {
            panic!("{}: {error}", path.display());
        }
        Self {
            path,
            _listening: listening,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = fs::remove_file(&self.path);
    }
}
