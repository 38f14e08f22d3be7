//! The API server of `kopf-rs dev`: a child process that outlives the operators, so that the objects do.
//!
//! This module does not know what runs on the server.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::args::Dev;
use crate::dev::child;
use crate::processes::Handle;
use crate::server;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiServerError {
    #[error(
        "the port {port} of --embedded cannot be used: {error}\n  choose another one by --embedded=PORT, or any free one by --embedded"
    )]
    Port { port: u16, error: io::Error },
    #[error(
        "the API server has not started: its message is above\n  correct what it names, and repeat the command"
    )]
    NotStarted,
    #[error("{} cannot be started: {error}", .program.display())]
    Start { program: PathBuf, error: io::Error },
    #[error("cannot create a folder for the kubeconfig in {}: {error}\n  choose another folder for temporary files by TMPDIR", .folder.display())]
    Folder { folder: PathBuf, error: io::Error },
}

/// A running server. [`ApiServer::stop`] ends it.
pub(crate) struct ApiServer {
    kubeconfig: PathBuf,
    handle: Handle,
    ended: Receiver<()>,
    /// The folder of the kubeconfig.
    _folder: Option<TemporaryFolder>,
}

/// A folder that only its owner can read, deleted on drop.
struct TemporaryFolder(PathBuf);

// === impl ApiServer ===

impl ApiServer {
    /// Builds the server if necessary, starts it, and waits until it serves. Calls `ended` when its process has ended.
    pub(crate) fn start(dev: &Dev, ended: impl FnOnce() + Send + 'static) -> Result<Self, Box<dyn Error>> {
        let port = dev.run.flags.cluster.embedded.unwrap_or(0);
        // The server would advise to use its own flag.
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| ApiServerError::Port { port, error })?;
        let program = server::program()?;
        let data_dir = dev.data_dir.as_deref();
        let folder = data_dir.is_none().then(TemporaryFolder::new).transpose()?;
        let folder_path = folder.as_ref().map(|it| &*it.0).or(data_dir).unwrap_or(Path::new("."));
        let kubeconfig = folder_path.join("kubeconfig");
        let mut command = Command::new(&program);
        command.args(arguments(dev, &kubeconfig)).stdout(Stdio::piped());
        // The first line of the server comes when it serves, after it has written the kubeconfig.
        let (line, lines) = channel();
        let seen = move || {
            // Fails once the server has started.
            let _sent = line.send(());
        };
        let (open, end) = channel::<()>();
        let ended = move |_| {
            ended();
            drop(open);
        };
        // Ctrl+C must not reach the server, because the operator needs it until the operator has stopped.
        let started = child::start(&mut command, seen, ended);
        let handle = started.map_err(|error| ApiServerError::Start { program, error })?;
        let server = Self { kubeconfig, handle, ended: end, _folder: folder };
        if lines.recv().is_err() {
            server.stop(Duration::ZERO);
            return Err(ApiServerError::NotStarted.into());
        }
        Ok(server)
    }

    /// Returns the kubeconfig file.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Asks the server to end, and kills it after this time.
    pub(crate) fn stop(self, patience: Duration) {
        self.handle.stop(patience, || ());
        // Only a process that the system cannot end remains.
        let _ended = self.ended.recv_timeout(patience + Duration::from_secs(1));
    }
}

/// Returns the arguments of `kopf-rs-apiserver`. A data directory has its own kubeconfig.
fn arguments(dev: &Dev, kubeconfig: &Path) -> Vec<OsString> {
    let flags = &dev.run.flags.cluster;
    let port = flags.embedded.unwrap_or(0);
    let mut args: Vec<OsString> = Vec::new();
    // Without a port, a data directory is served where it was served last.
    if port != 0 || dev.data_dir.is_none() {
        args.extend(["--port".into(), port.to_string().into()]);
    }
    args.extend(flags.workloads.then(|| "--workloads".into()));
    match &dev.data_dir {
        Some(folder) => args.extend(["--data-dir".into(), folder.into()]),
        None => args.extend(["--kubeconfig-out".into(), kubeconfig.into()]),
    }
    args
}

// === impl TemporaryFolder ===

impl TemporaryFolder {
    fn new() -> Result<Self, ApiServerError> {
        let folder = std::env::temp_dir();
        // A killed process with the same id may have left its folder, and so may a running one of another container.
        let mut path = folder.join(format!("kopf-rs-dev-{}", std::process::id()));
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        loop {
            match builder.create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    path.as_mut_os_string().push("-");
                }
                Err(error) => return Err(ApiServerError::Folder { folder, error }),
            }
        }
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // It may be gone already.
        let _removed = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::tests::parsed;

    #[test]
    fn a_data_directory_keeps_its_port_and_its_kubeconfig() {
        for (line, expected) in [
            (".", "--port 0 --kubeconfig-out k"),
            (". --embedded --workloads --data-dir d", "--workloads --data-dir d"),
            (". --embedded=8443 --workloads --data-dir d", "--port 8443 --workloads --data-dir d"),
        ] {
            let args = arguments(&parsed(line).0, Path::new("k"));
            assert_eq!(args.join(" ".as_ref()), OsString::from(expected), "{line}");
        }
    }
}
