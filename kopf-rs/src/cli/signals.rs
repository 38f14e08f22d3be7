//! SIGINT and SIGTERM: the first ends the operator gracefully, the second the process at once.
//!
//! They are waited for on a thread of their own, so that the second one works while handlers keep all others busy.

use std::io;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::operator::noting::EndNote;

/// The first signal, once it has come.
#[derive(Clone)]
pub(crate) struct FirstSignal(CancellationToken);

/// A signal that asks for an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    name: &'static str,
    /// How the process ends when it is not the first one: 128 and the signal's number, as shells have it.
    code: i32,
}

const INTERRUPT: Asked = Asked {
    name: "SIGINT",
    code: 130,
};

/// Within this time, more signals are the same wish: `timeout` of coreutils signals the process, and then its group.
const ECHO: Duration = Duration::from_millis(200);

impl FirstSignal {
    /// Take over the signals of this process from now on. The first one is noted.
    pub(crate) fn watch(end: EndNote) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut signals = {
            let _entered = runtime.enter();
            Signals::new()?
        };
        let came = CancellationToken::new();
        let tell = came.clone();
        let watching = move || {
            runtime.block_on(async {
                let first = signals.next().await;
                end.told();
                tracing::info!("Signal {} is received. Operator is stopping.", first.name);
                tell.cancel();
                let _ = tokio::time::timeout(ECHO, async {
                    loop {
                        signals.next().await;
                    }
                })
                .await;
                let second = signals.next().await;
                tracing::warn!("Signal {} is received again. Exiting at once.", second.name);
                std::process::exit(second.code);
            });
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(watching)?;
        Ok(Self(came))
    }

    /// Resolves when the first signal has come.
    pub(crate) async fn came(&self) {
        self.0.cancelled().await;
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPT,
            _ = self.terminate.recv() => Asked { name: "SIGTERM", code: 143 },
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Asked {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        INTERRUPT
    }
}
