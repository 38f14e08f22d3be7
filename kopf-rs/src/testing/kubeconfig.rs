//! Serves the test's API server over TLS, for programs that read a kubeconfig file.
//!
//! The file exists as long as the server listens. This module does not depend on programs.

use std::fs;
use std::path::{Path, PathBuf};

use kopf_rs_apiserver::{ApiServer, Listening};

use crate::cli::embedded::write_private;

/// A listening server with the kubeconfig file of its administrator.
#[derive(Debug)]
pub(super) struct Kubeconfig {
    path: PathBuf,
    _listening: Listening,
}

impl Kubeconfig {
    /// # Panics
    /// Panics if no port is available, or if the file cannot be written.
    pub(super) async fn of(server: &ApiServer) -> Self {
        let listening = server.listen(([127, 0, 0, 1], 0).into()).await;
        let listening = listening.unwrap_or_else(|error| panic!("{error}"));
        let (process, port) = (std::process::id(), listening.addr().port());
        let name = format!("kopf-rs-testing-{process}-{port}.kubeconfig");
        let path = std::env::temp_dir().join(name);
        if let Err(error) = write_private(&path, &listening.kubeconfig()) {
            panic!("{}: {error}", path.display());
        }
        Self { path, _listening: listening }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // The file may be gone already.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn only_the_owner_can_read_the_file() {
        let kubeconfig = Kubeconfig::of(&ApiServer::new()).await;
        let mode = fs::metadata(kubeconfig.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
