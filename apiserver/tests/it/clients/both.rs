//! The two servers of a client: one in this process over TLS, one real.
//!
//! A client has its servers for itself, because clients look at all kinds, and several use kinds of the same names. Each client gets a
//! separate in-process server; the real one is started once and lent to one client after the other. The controllers that create children
//! run beside neither server. Must not know clients.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use kopf_rs_apiserver::ApiServer;
use kopf_rs_apiserver_tests::{RealServer, Served, runtime, skipped};

/// The controllers whose work the in-process server does, too.
const CONTROLLERS: &[&str] = &[
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
];

/// Two servers, by the kubeconfig files of their administrators.
#[derive(Debug)]
pub(super) struct Both {
    /// The server in this process.
    pub(super) ours: PathBuf,
    /// kube-apiserver.
    pub(super) real: Lent,
}

/// The real server, lent to one client.
#[derive(Debug)]
pub(super) struct Lent {
    /// The kubeconfig file of its administrator.
    pub(super) kubeconfig: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

/// Returns both servers; records `test` as skipped if the real one is unavailable.
pub(super) fn both(test: &str) -> Option<Both> {
    Some(Both {
        real: real(test)?,
        ours: ours(),
    })
}

/// Waits until no other client has the real server, and returns it; records `test` as skipped if it is unavailable.
pub(super) fn real(test: &str) -> Option<Lent> {
    static ONE_CLIENT: Mutex<()> = Mutex::new(());
    // A failed client leaves no state that affects the next one.
    let alone = ONE_CLIENT.lock().unwrap_or_else(PoisonError::into_inner);
    match started() {
        Ok(real) => Some(Lent {
            kubeconfig: real.kubeconfig(),
            _alone: alone,
        }),
        Err(error) => match error.missing() {
            Some(missing) => {
                skipped(test, missing);
                None
            }
            None => panic!("{error}"),
        },
    }
}

fn started() -> Result<&'static RealServer, &'static kopf_rs_apiserver_tests::StartError> {
    static REAL: OnceLock<Result<RealServer, kopf_rs_apiserver_tests::StartError>> =
        OnceLock::new();
    let started = REAL.get_or_init(|| {
        let server = RealServer::start()?;
        let running = server.these_controllers(CONTROLLERS);
        running.unwrap_or_else(|error| panic!("{error}"));
        Ok(server)
    });
    started.as_ref()
}

/// Starts a server on a separate thread that runs until the process ends, and returns its kubeconfig file.
pub(super) fn ours() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = scratch(&format!("server-{number}"));
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

/// Returns an empty folder for the files of a client.
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
