//! `--embedded`: an API server in this process, in memory for the operator and over TCP for kubectl.
//!
//! Without the cargo feature `embedded` its twin here says how to get it. Must not know what is done with the server.

#[cfg(feature = "embedded")]
use std::io;
use std::path::{Path, PathBuf};

use crate::cluster::Client;

/// A server that lives as long as this does. Its kubeconfig file goes with it.
pub(crate) struct Embedded {
    kubeconfig: PathBuf,
    #[cfg(feature = "embedded")]
    server: kopf_rs_apiserver::ApiServer,
    #[cfg(feature = "embedded")]
    listening: kopf_rs_apiserver::Listening,
}

/// A server that cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EmbeddedError {
    #[cfg(not(feature = "embedded"))]
    #[error(
        "--embedded: this program is built without the API server; switch on the feature `embedded` of kopf-rs in its Cargo.toml"
    )]
    Without,
    #[cfg(feature = "embedded")]
    #[error("--embedded: {0}")]
    Listen(#[from] kopf_rs_apiserver::ListenError),
    #[cfg(feature = "embedded")]
    #[error("--embedded: cannot write {}: {error}", .path.display())]
    Write { path: PathBuf, error: io::Error },
}

#[cfg(feature = "embedded")]
impl Embedded {
    /// Listen on `port` of 127.0.0.1, any free one for 0.
    pub(crate) async fn start(port: u16) -> Result<Self, EmbeddedError> {
        let server = kopf_rs_apiserver::ApiServer::new();
        let listening = server.listen(([127, 0, 0, 1], port).into()).await?;
        let kubeconfig = place();
        write_private(&kubeconfig, &listening.kubeconfig()).map_err(|error| {
            EmbeddedError::Write {
                path: kubeconfig.clone(),
                error,
            }
        })?;
        Ok(Self {
            kubeconfig,
            server,
            listening,
        })
    }

    /// A client that reaches the server without the network.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.server.service(), "default")
    }

    /// Where the server is, for people.
    pub(crate) fn url(&self) -> String {
        self.listening.url()
    }
}

#[cfg(not(feature = "embedded"))]
impl Embedded {
    pub(crate) async fn start(_port: u16) -> Result<Self, EmbeddedError> {
        Err(EmbeddedError::Without)
    }

    pub(crate) fn client(&self) -> Client {
        unreachable!("never started without the feature")
    }

    pub(crate) fn url(&self) -> String {
        unreachable!("never started without the feature")
    }
}

impl Embedded {
    /// What kubectl needs to reach the server.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // It may be gone already, and would be of no use.
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

/// In the folder `kopf-rs run` has built in, else in a folder of our own among the temporary files.
#[cfg(feature = "embedded")]
fn place() -> PathBuf {
    let pid = std::process::id();
    match std::env::var_os("KOPF_RS_RUN_DIR") {
        Some(folder) => PathBuf::from(folder).join(format!("kubeconfig-{pid}")),
        None => std::env::temp_dir()
            .join(format!("kopf-rs-{pid}"))
            .join("kubeconfig"),
    }
}

/// The file holds a token: for its owner only, and never through somebody else's link.
#[cfg(feature = "embedded")]
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
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
