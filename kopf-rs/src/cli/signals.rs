//! SIGINT and SIGTERM: the first signal stops the operator gracefully, the second one ends the process immediately.
//!
//! A separate thread waits for signals, so that the second one works even if handlers block all other threads.

use std::io;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::operator::crash_notes_path::EndNote;

/// Completes at the first signal.
#[derive(Clone)]
pub(crate) struct FirstSignal(CancellationToken);

/// A signal that requests the end of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    name: &'static str,
    /// The exit code after a second signal: 128 plus the signal's number, as in shells.
    code: i32,
}

const INTERRUPT: Asked = Asked { name: "SIGINT", code: 130 };

/// Debounces signals: further ones within this time count as the first, since `timeout` of coreutils signals the
/// process and then its group.
const ECHO: Duration = Duration::from_millis(200);

impl FirstSignal {
    /// Takes over the signals of this process. The first one is recorded in `end`.
    pub(crate) fn watch(end: EndNote) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut signals = {
            let _entered = runtime.enter();
            Signals::new()?
        };
        let came = CancellationToken::new();
        let sender = came.clone();
        let watching = move || {
            runtime.block_on(async {
                let first = signals.next().await;
                end.request_stop();
                tracing::info!("Signal {} is received. Operator is stopping.", first.name);
                sender.cancel();
                let _ = tokio::time::timeout(ECHO, async {
                    loop {
                        signals.next().await;
                    }
                })
                .await;
                let second = signals.next().await;
                tracing::warn!("Signal {} is received again. Exiting immediately.", second.name);
                std::process::exit(second.code);
            });
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(watching)?;
        Ok(Self(came))
    }

    /// Completes at the first signal.
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
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
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
