//! The server in the process over TCP with TLS, for clients that read a kubeconfig file.
//!
//! Promise: the file is there for as long as the server listens. Must not know clients.

use std::path::{Path, PathBuf};

use kopf_rs_apiserver::{ApiServer, Listening};

/// A server that listens, and its administrator's kubeconfig file.
#[derive(Debug)]
pub struct Served {
    kubeconfig: PathBuf,
    _listening: Listening,
}

impl Served {
    /// Has a server listen on a free port of this machine, and writes the file into a folder.
    ///
    /// # Panics
    ///
    /// Where there is no such port, or the folder cannot be written.
    pub async fn start(server: &ApiServer, folder: &Path) -> Self {
        let listening = server
            .listen(([127, 0, 0, 1], 0).into())
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let (process, port) = (std::process::id(), listening.addr().port());
        let kubeconfig = folder.join(format!("kopf-rs-{process}-{port}.kubeconfig"));
        std::fs::write(&kubeconfig, listening.kubeconfig()).expect("the folder can be written");
        Self {
            kubeconfig,
            _listening: listening,
        }
    }

    /// The administrator's kubeconfig file.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Who has removed it already may have.
        let _removed = std::fs::remove_file(&self.kubeconfig);
    }
}
