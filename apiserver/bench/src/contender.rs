//! The servers to compare, each as a separate program.
//!
//! They end when their handle is dropped. Must not know the measurements.

use std::any::Any;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kopf_rs_apiserver_tests::RealServer;

/// A measured server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Server {
    /// `kopf-rs-apiserver`.
    Memory,
    /// `kopf-rs-apiserver --data-dir`.
    Disk,
    /// kube-apiserver with its etcd.
    Real,
}

/// A server that runs until this is dropped.
pub struct Running {
    pub kubeconfig: PathBuf,
    /// Its processes, whose usage is added up.
    pub processes: Vec<u32>,
    /// The time from the start of the process until it accepts requests.
    pub ready: Duration,
    _guard: Box<dyn Any + Send>,
}

/// Kills the program and removes its folder.
struct Guard(Child, PathBuf);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

impl Server {
    pub const ALL: [Self; 3] = [Self::Memory, Self::Real, Self::Disk];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Memory => "ours",
            Self::Disk => "ours, kept on disk",
            Self::Real => "kube-apiserver + etcd",
        }
    }

    /// Starts the server without data. Blocks.
    pub fn start(self) -> Result<Running> {
        match self {
            Self::Memory => ours(false),
            Self::Disk => ours(true),
            Self::Real => real(),
        }
    }
}

/// Builds our server; the first start of the real one builds that.
pub fn prepare() -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--release", "--locked"])
        .args(["-p", "kopf-rs-apiserver", "--features", "program"])
        .args(["--bin", "kopf-rs-apiserver", "--manifest-path"])
        .arg(root().join("../Cargo.toml"))
        .arg("--target-dir")
        .arg(target());
    ensure!(cargo.status()?.success(), "the server cannot be built");
    // Unmeasured first starts, which may build the real server and load the programs into the page cache.
    drop(Server::Real.start()?);
    drop(Server::Memory.start()?);
    Ok(())
}

/// The folder of the benchmark in the checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The target folder of the repository, as in `.cargo/config.toml`.
fn target() -> PathBuf {
    root().join("../../target")
}

fn ours(kept: bool) -> Result<Running> {
    let folder = std::env::temp_dir().join(format!("kopf-rs-bench-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let kubeconfig = folder.join("kubeconfig");
    let mut command = Command::new(target().join("release/kopf-rs-apiserver"));
    command.arg("--kubeconfig-out").arg(&kubeconfig);
    if kept {
        command.arg("--data-dir").arg(folder.join("cluster"));
    }
    let began = Instant::now();
    let child = command.stdout(Stdio::piped()).spawn()?;
    let mut guard = Guard(child, folder);
    let output = guard.0.stdout.take().context("piped above")?;
    let mut lines = BufReader::new(output).lines();
    lines
        .find(|line| line.as_ref().is_ok_and(|line| line.contains("KUBECONFIG=")))
        .context("the server said nothing")??;
    Ok(Running {
        ready: began.elapsed(),
        processes: vec![guard.0.id()],
        kubeconfig,
        _guard: Box::new(guard),
    })
}

fn real() -> Result<Running> {
    let began = Instant::now();
    let server = RealServer::start_unaudited().context("a real kube-apiserver")?;
    Ok(Running {
        ready: began.elapsed(),
        kubeconfig: server.kubeconfig(),
        processes: server.processes().to_vec(),
        _guard: Box::new(server),
    })
}
