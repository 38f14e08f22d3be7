//! One scenario on every server: the runtime, the clock and the lines it needs.
//!
//! Virtual time belongs to the in-memory server alone: paused time outruns real sockets. Must not know scenarios.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::lines::{Lines, subscriber};
use crate::real::RealServer;
use crate::skip::skipped;
use crate::test_cluster::TestCluster;

/// What a scenario runs against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// The API server in the process, in memory, under virtual time.
    Memory,
    /// The API server in the process, over TCP with TLS.
    Tcp,
    /// A real kube-apiserver.
    Real,
}

impl Server {
    /// How long a condition may take.
    #[must_use]
    pub fn patience(self) -> Duration {
        Duration::from_secs(if self == Self::Memory { 3600 } else { 120 })
    }

    fn runtime(self, lines: &Lines) -> std::io::Result<Runtime> {
        if self == Self::Memory {
            return Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build();
        }
        let lines = lines.clone();
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .on_thread_start(move || {
                // The thread ends with the runtime, so its default may stay for as long as it lives.
                std::mem::forget(tracing::subscriber::set_default(subscriber(&lines)));
            })
            .build()
    }
}

/// A runtime for tests that play no scenario: of several threads, under real time.
#[must_use]
pub fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built")
}

/// Runs a scenario named `test` on a fresh cluster; the events of everything in it go to [`TestCluster::lines`].
///
/// # Panics
///
/// As the scenario does, and where the server cannot be had, except for a missing toolchain outside of CI.
pub fn play(server: Server, test: &str, scenario: impl AsyncFnOnce(TestCluster)) {
    if server == Server::Real
        && let Err(error) = RealServer::shared()
    {
        match error.missing() {
            Some(missing) => return skipped(test, missing),
            None => panic!("{error}"),
        }
    }
    let lines = Lines::new(server.patience());
    let runtime = server.runtime(&lines).expect("a runtime can be built");
    let _default = tracing::subscriber::set_default(subscriber(&lines));
    runtime.block_on(async {
        let cluster = TestCluster::with_lines(server, lines).await;
        scenario(cluster).await;
    });
    // A handler that blocks for ever is its test's business, not a reason to hang here.
    runtime.shutdown_background();
}

/// Declares the tests of scenarios, each an `async fn name(cluster: TestCluster)` in scope: one test per server.
///
/// A name alone runs on all three; a list in brackets (`name [memory tcp];`) says which.
#[macro_export]
macro_rules! scenarios {
    ($($name:ident $([$($server:ident)+])?;)+) => {
        $($crate::scenarios!(@servers $name $($($server)+)?);)+
    };
    (@servers $name:ident) => { $crate::scenarios!(@servers $name memory tcp real); };
    (@servers $name:ident $($server:ident)+) => {
        mod $name {
            $($crate::scenarios!(@test $name $server);)+
        }
    };
    (@test $name:ident memory) => { $crate::scenarios!(@body $name memory Memory); };
    (@test $name:ident tcp) => { $crate::scenarios!(@body $name tcp Tcp); };
    (@test $name:ident real) => { $crate::scenarios!(@body $name real Real); };
    (@body $name:ident $test:ident $server:ident) => {
        #[test]
        fn $test() {
            let test = concat!(module_path!(), "::", stringify!($test));
            $crate::play($crate::Server::$server, test, super::$name);
        }
    };
}
