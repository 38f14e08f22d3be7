//! Runs one scenario on every server, with the runtime, the clock and the log capture that it needs.
//!
//! Only the in-memory server uses virtual time, because paused time would run ahead of real sockets. This module must
//! not depend on scenarios.

use std::time::Duration;

use kopf_rs_apiserver_tests::{RealServer, skipped};
use tokio::runtime::{Builder, Runtime};

use crate::lines::{Lines, subscriber};
use crate::test_cluster::TestCluster;

/// The API server of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// The in-process API server, in memory, under virtual time.
    Memory,
    /// The in-process API server, over TCP with TLS.
    Tcp,
    /// A real kube-apiserver.
    Real,
}

impl Server {
    /// Returns the deadline for a condition.
    #[must_use]
    pub fn patience(self) -> Duration {
        Duration::from_secs(if self == Self::Memory { 3600 } else { 120 })
    }

    fn runtime(self, lines: &Lines) -> std::io::Result<Runtime> {
        if self == Self::Memory {
            return Builder::new_current_thread().enable_all().start_paused(true).build();
        }
        let lines = lines.clone();
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .on_thread_start(move || {
                // The thread ends with the runtime, so its default subscriber may stay set for the lifetime of the thread.
                std::mem::forget(tracing::subscriber::set_default(subscriber(&lines)));
            })
            .build()
    }
}

/// Runs a scenario named `test` on a fresh cluster; the log events of all its code go to [`TestCluster::lines`].
///
/// # Panics
///
/// Panics if the scenario panics, or if the server is unavailable, except for a missing toolchain outside of CI.
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
    // Does not wait for blocking threads: a handler that blocks forever must not hang the test process.
    runtime.shutdown_background();
}

/// Declares the tests of scenarios, each an `async fn name(cluster: TestCluster)` in scope: one test per server.
///
/// A name alone runs in memory and on the real server, which has sockets and its own timing. A list in brackets (`name [tcp real];`) selects
/// servers: `memory` where the real server would show nothing else, `tcp` where the network matters or the server must fail on purpose.
#[macro_export]
macro_rules! scenarios {
    ($($name:ident $([$($server:ident)+])?;)+) => {
        $($crate::scenarios!(@servers $name $($($server)+)?);)+
    };
    (@servers $name:ident) => { $crate::scenarios!(@servers $name memory real); };
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
