//! The two servers that all clients share: one in this process over TLS, one real.
//!
//! Promise: no test waits for servers twice. The controllers that make children do not run beside the real server, as they do
//! not in the process either. Must not know clients.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::channel;

use kopf_rs_apiserver::ApiServer;
use kopf_rs_tests::{RealServer, Served, runtime, skipped};

/// Controllers whose work every server does.
const CONTROLLERS: &[&str] = &[
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
];

/// Two servers, by the kubeconfig files of their administrators.
#[derive(Debug)]
pub(super) struct Both {
    /// The one in this process.
    pub(super) ours: PathBuf,
    /// kube-apiserver.
    pub(super) real: PathBuf,
}

/// Both servers; a machine that cannot have the real one has `test` recorded as skipped.
pub(super) fn both(test: &str) -> Option<Both> {
    Some(Both {
        real: real(test)?,
        ours: ours(),
    })
}

/// The server in this process.
pub(super) fn ours() -> PathBuf {
    static OURS: OnceLock<PathBuf> = OnceLock::new();
    OURS.get_or_init(serve).clone()
}

/// The real server; a machine that cannot have it has `test` recorded as skipped.
pub(super) fn real(test: &str) -> Option<PathBuf> {
    match started() {
        Ok(real) => Some(real.kubeconfig()),
        Err(error) => match error.missing() {
            Some(missing) => {
                skipped(test, missing);
                None
            }
            None => panic!("{error}"),
        },
    }
}

fn started() -> Result<&'static RealServer, &'static kopf_rs_tests::StartError> {
    static REAL: OnceLock<Result<RealServer, kopf_rs_tests::StartError>> = OnceLock::new();
    let started = REAL.get_or_init(|| {
        let server = RealServer::start()?;
        let running = server.these_controllers(CONTROLLERS);
        running.unwrap_or_else(|error| panic!("{error}"));
        Ok(server)
    });
    started.as_ref()
}

/// Serves in a thread of its own until the process ends, and returns the kubeconfig file.
fn serve() -> PathBuf {
    let folder = scratch("servers");
    let (tell, told) = channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let server = ApiServer::new();
            let over_tls = Served::start(&server, &folder).await;
            let file = over_tls.kubeconfig().to_owned();
            tell.send(file).expect("somebody waits for the server");
            std::future::pending::<()>().await;
        });
    });
    told.recv().expect("the server listens")
}

/// An empty folder for the files of a client.
pub(super) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("clients")
        .join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("scratch folders can be removed");
    }
    std::fs::create_dir_all(&folder).expect("scratch folders can be made");
    folder
}
