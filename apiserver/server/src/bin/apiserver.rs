//! The program `kopf-rs-apiserver`: a Kubernetes API server for a laptop, on one port, in memory or in a directory.
//!
//! It prints its address and the kubeconfig for kubectl, and ends on SIGINT and SIGTERM. It uses only the library's public API.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use kopf_rs_apiserver::{ApiServer, ListenError, Listening, OpenError, Recovered, WorkloadOptions};

/// The first line of every kubeconfig that this program writes; a file without it is not overwritten.
const OURS: &str = "# Written by kopf-rs-apiserver: it is replaced without asking.\n";

/// A Kubernetes API server of its own for kubectl, operators and tests: no nodes, ready at once.
#[derive(Debug, Parser)]
#[command(name = "kopf-rs-apiserver", version)]
struct Flags {
    /// The port of 127.0.0.1 to listen on; 0 is any free one. Default: where the data directory was served last, else a free one
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Write the kubeconfig to this file, which only you can read. Default: a file in the data directory, else a temporary file
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Keep all objects in this directory between runs. By default they are lost when the server ends
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Do what controllers and nodes do, without running anything: Deployments make Pods, Pods become ready, Jobs complete
    #[arg(long)]
    workloads: bool,
}

/// The reason why the server cannot start.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Open(#[from] OpenError),
    #[error("{0}")]
    Listen(#[from] ListenError),
    #[error("port {port} of 127.0.0.1 is in use{hint}")]
    PortInUse { port: u16, hint: &'static str },
    #[error("cannot write {}: {error}", .path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("{} was not written by this program, and is not replaced\n  choose another file, or remove that one", .0.display())]
    Foreign(PathBuf),
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Flags::parse()).await {
        Ok(code) => code,
        Err(failure) => {
            // If standard error is closed, the exit code still reports the failure.
            let _said = writeln!(io::stderr(), "error: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen().map_err(Failure::Signals)?;
    let server = match &flags.data_dir {
        Some(dir) => ApiServer::open(dir)?,
        None => ApiServer::new(),
    };
    if flags.workloads {
        server.workloads(WorkloadOptions::new());
    }
    // This program does not read the journal.
    server.journal().limit(0);
    let listening = listen(&server, flags).await?;
    let kubeconfig = Kubeconfig::write(flags, &listening)?;
    // Standard output may be closed.
    let _said =
        io::stdout().write_all(greeting(&server, flags, &listening, &kubeconfig.path).as_bytes());
    let _shown = io::stdout().flush();
    signals.next().await;
    tokio::select! {
        () = listening.shutdown() => Ok(ExitCode::SUCCESS),
        code = signals.next() => Ok(ExitCode::from(128 + code)),
    }
}

async fn listen(server: &ApiServer, flags: &Flags) -> Result<Listening, Failure> {
    let port = flags.port.or_else(|| server.last_port()).unwrap_or(0);
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    server.listen(addr).await.map_err(|error| match error {
        ListenError::Bind { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            let hint = match flags.port {
                Some(_) => ": choose another with --port, or 0 for any free one",
                None => ", where this cluster was served before: choose another with --port, or 0 for any free one",
            };
            Failure::PortInUse { port, hint }
        }
        other => other.into(),
    })
}

fn greeting(server: &ApiServer, flags: &Flags, listening: &Listening, kubeconfig: &Path) -> String {
    let objects = match (&flags.data_dir, server.recovered()) {
        (Some(dir), Some(found)) => kept(dir, found),
        _ => "in memory: all objects are lost when the program ends".to_owned(),
    };
    let (url, kubeconfig) = (listening.url(), quoted(kubeconfig));
    let hint = if io::stdout().is_terminal() {
        "Ctrl+C ends it.\n"
    } else {
        ""
    };
    format!("Kubernetes API at {url}, {objects}\n  export KUBECONFIG={kubeconfig}\n{hint}")
}

/// Describes the content of the data directory.
fn kept(dir: &Path, found: &Recovered) -> String {
    let (dir, dropped) = (dir.display(), found.dropped);
    let state = match found.objects {
        0 => format!("new, kept in {dir}"),
        objects => {
            let revision = found.revision;
            format!("kept in {dir}: {objects} objects, resourceVersion {revision}")
        }
    };
    if dropped == 0 {
        return state;
    }
    format!(
        "{state}\nThe last {dropped} bytes were not a complete change, and were dropped. If the last run was interrupted while it wrote, no client \
         had an answer to that change; otherwise the file has been damaged since."
    )
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |letter: char| letter.is_alphanumeric() || "/._-+".contains(letter);
    if text.chars().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The kubeconfig file; a temporary one is deleted on drop.
struct Kubeconfig {
    path: PathBuf,
    temporary: bool,
}

// === impl Kubeconfig ===

impl Kubeconfig {
    fn write(flags: &Flags, listening: &Listening) -> Result<Self, Failure> {
        let path = match (&flags.kubeconfig_out, &flags.data_dir) {
            (Some(path), _) => path.clone(),
            (None, Some(dir)) => dir.join("kubeconfig"),
            (None, None) => temporary(),
        };
        let path = std::path::absolute(&path).unwrap_or(path);
        let written = replace(&path, &format!("{OURS}{}", listening.kubeconfig()));
        written.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::Foreign(path.clone()),
            _ => Failure::Write {
                path: path.clone(),
                error,
            },
        })?;
        Ok(Self {
            path,
            temporary: flags.kubeconfig_out.is_none() && flags.data_dir.is_none(),
        })
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        if self.temporary {
            // The file may be gone already.
            let _removed = fs::remove_file(&self.path);
        }
    }
}

fn temporary() -> PathBuf {
    let name = format!("kopf-rs-apiserver-{}.kubeconfig", std::process::id());
    std::env::temp_dir().join(name)
}

/// Writes a file that only its owner can read. Never follows a link, never replaces a file of another program, and never leaves a
/// half-written file at the path.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() && is_ours(path)? => {}
        Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    let written = create(&new, text).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // The file may not have been created at all.
        let _removed = fs::remove_file(&new);
    }
    written
}

fn is_ours(path: &Path) -> io::Result<bool> {
    Ok(fs::read(path)?.starts_with(OURS.as_bytes()))
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    // A file of this name can only be left from a process with the same id.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// The signals that stop the program.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Returns the number of the next signal.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}

/// The signals that stop the program.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> u8 {
        // If waiting for the signal is not possible, the system ends the program by itself.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_derive_is_sound() {
        Flags::command().debug_assert();
    }

    #[test]
    fn paths_are_quoted_for_a_shell() {
        assert_eq!(quoted(Path::new("/tmp/a-b.c")), "/tmp/a-b.c");
        assert_eq!(quoted(Path::new("/my dir/it's")), r"'/my dir/it'\''s'");
    }
}
