//! The end of an operator's program: at the first signal or at the deadline of `--once`, with the exit code that its report asks for.
//!
//! This module must not know what runs until then.

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kopf_rs_flags::ClusterFlags;

use crate::cli::signals::FirstSignal;
use crate::operator::crash_notes_path::EndNote;
use crate::operator::run::Report;

/// Decides when the operator ends, and with which exit code.
pub(super) struct End {
    signal: FirstSignal,
    once: bool,
    /// With `--once`: the deadline, and the timeout that it was computed from.
    timeout: Option<(tokio::time::Instant, Duration)>,
    is_too_late: AtomicBool,
}

impl End {
    pub(super) fn watch(flags: &ClusterFlags, note: EndNote) -> Result<Self, Box<dyn Error>> {
        let timeout = Some(flags.timeout).filter(|it| flags.once && !it.is_zero());
        let now = tokio::time::Instant::now();
        Ok(Self {
            signal: FirstSignal::watch(note)?,
            once: flags.once,
            timeout: timeout.and_then(|it| Some((now.checked_add(it)?, it))),
            is_too_late: AtomicBool::new(false),
        })
    }

    /// Completes at the first signal, or at the deadline of `--once`.
    pub(super) async fn came(&self) {
        let Some((at, timeout)) = self.timeout else {
            return self.signal.came().await;
        };
        tokio::select! {
            () = self.signal.came() => {}
            () = tokio::time::sleep_until(at) => {
                let seconds = timeout.as_secs();
                tracing::error!("Not everything is handled within {seconds} seconds (--timeout).");
                self.is_too_late.store(true, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn code(&self, report: &Report) -> ExitCode {
        if !self.once {
            return ExitCode::SUCCESS;
        }
        if !report.failed.is_empty() {
            let failed: Vec<String> = report.failed.iter().map(ToString::to_string).collect();
            tracing::error!("Failed permanently: {}", failed.join(", "));
        }
        for unserved in &report.unserved {
            tracing::error!("Not handled: {unserved}");
        }
        let is_late = self.is_too_late.load(Ordering::Relaxed);
        if is_late || !report.failed.is_empty() || !report.unserved.is_empty() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}
