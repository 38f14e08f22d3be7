//! Captures the log of a scenario as lines, with level and spans.
//!
//! This module must not depend on the code that logs.

use std::io;

pub use kopf_rs::testing::Lines;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;

/// Returns a subscriber that writes the events of kopf-rs and of the tests to `lines`, without times and colours.
///
/// [`crate::play`] makes it the default on all threads of a scenario; elsewhere use `tracing::subscriber::set_default`.
#[must_use]
pub fn subscriber(lines: &Lines) -> impl tracing::Subscriber + Send + Sync + use<> {
    let quiet = ["hyper", "hyper_util", "kube", "rustls", "tower", "tokio_util", "h2"];
    let targets = Targets::new()
        .with_default(LevelFilter::DEBUG)
        .with_targets(quiet.map(|target| (target, LevelFilter::WARN)));
    let lines = lines.clone();
    let layer = tracing_subscriber::fmt::layer()
        .without_time()
        .with_ansi(false)
        .with_writer(move || LineWriter(lines.clone()));
    tracing_subscriber::registry().with(layer.with_filter(targets))
}

/// Receives one formatted event per write.
#[derive(Debug)]
struct LineWriter(Lines);

impl io::Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in String::from_utf8_lossy(bytes).lines() {
            self.0.push(line);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
