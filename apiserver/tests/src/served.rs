//! The in-process server over TCP with TLS, for clients that read a kubeconfig file.
//!
//! The file exists for as long as the server listens. Must not know clients.

use std::path::{Path, PathBuf};

use kopf_rs_apiserver::{ApiServer, Listening};
use tokio::runtime::{Builder, Runtime};

/// A listening server and its administrator's kubeconfig file.
#[derive(Debug)]
pub struct Served {
    kubeconfig: PathBuf,
    _listening: Listening,
}

impl Served {
    /// Makes a server listen on a free local port, and writes the kubeconfig file into a folder.
    ///
    /// # Panics
    ///
    /// Panics if no port is free or the folder cannot be written.
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

    /// Returns the administrator's kubeconfig file.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A test may have removed the file already.
        let _removed = std::fs::remove_file(&self.kubeconfig);
    }
}

/// Returns a multi-threaded runtime under real time, for servers and their clients.
#[must_use]
pub fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built")
}
