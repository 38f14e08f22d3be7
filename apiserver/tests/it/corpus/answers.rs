//! The answers of the real server to scripts, from a recording or from a running server.
//!
//! Fresh answers must equal the recording, or replace it. Must not know how the answers are compared with ours.

use std::path::Path;

use kopf_rs_apiserver_tests::corpus::{Pair, Script, Told, same, unlike};
use kopf_rs_apiserver_tests::{
    Mode, RealServer, Recorded, kubernetes_version, runtime, skipped, workspace,
};

/// The files that affect the answers, besides the scripts.
const SOURCES: &[&str] = &[
    "server/src",
    "server/tables",
    "server/Cargo.toml",
    "tests/src/corpus",
    "tests/src/webhook",
    "tests/src/webhook.rs",
    "tests/cluster/kubernetes/go.mod",
];

pub(super) struct Answers {
    recorded: Recorded,
    /// True if the scripts are complete.
    all: bool,
}

// === impl Answers ===

impl Answers {
    pub(super) fn new(group: &str, scripts: &[&str], all: bool) -> Self {
        let by = format!("kube-apiserver {}", kubernetes_version());
        Self {
            recorded: Recorded::of(workspace(), group, &by, &[SOURCES, scripts].concat()),
            all,
        }
    }

    /// Returns the answers of the real server to scripts; `None` if they must be fresh and the server is unavailable.
    pub(super) fn of_the_real_server(
        &self,
        test: &str,
        scripts: &[Script],
        ask: impl AsyncFnOnce(&[Script], &Path) -> Vec<Vec<Told>>,
    ) -> Option<Vec<Vec<Told>>> {
        let mode = self.recorded.mode();
        if mode == Mode::Recorded {
            return Some(self.known(scripts));
        }
        let server = real(test)?;
        let now = runtime().block_on(ask(scripts, &server.kubeconfig()));
        if mode == Mode::Recording {
            self.record(scripts, &now);
        } else {
            self.assert_known(scripts, &now);
        }
        Some(now)
    }

    fn known(&self, scripts: &[Script]) -> Vec<Vec<Told>> {
        let read = |script: &Script| self.recorded.read(&script.name, script.asked());
        let (known, unknown): (Vec<_>, Vec<_>) = scripts.iter().map(read).partition(Result::is_ok);
        let unknown: Vec<String> = unknown.into_iter().filter_map(Result::err).collect();
        assert!(unknown.is_empty(), "{}", unknown.join("\n"));
        known.into_iter().flatten().collect()
    }

    fn record(&self, scripts: &[Script], now: &[Vec<Told>]) {
        for (script, now) in scripts.iter().zip(now) {
            let is_same = |known: &[Told], now: &[Told]| same(script, known, now);
            let recorded = &self.recorded;
            recorded.write(&script.name, script.asked(), now, is_same);
        }
        if self.all {
            let names = scripts.iter().map(|script| script.name.as_str());
            self.recorded.complete(names);
        }
    }

    /// Asserts that the fresh answers of the real server equal the recording.
    fn assert_known(&self, scripts: &[Script], now: &[Vec<Told>]) {
        let known = self.known(scripts);
        let all = scripts.iter().zip(known.iter().zip(now));
        let other = all.flat_map(|(script, (known, now))| unlike(script, known, now));
        let other: Vec<String> = other.map(|pair: Pair| pair.to_string()).collect();
        assert!(
            other.is_empty(),
            "the real server (`real`) tells something else than is recorded (`ours`); `./test record` records anew:\n{}",
            other.join("\n")
        );
    }
}

/// Starts a separate server with its controllers; on failure, records the test as skipped.
pub(super) fn real(test: &str) -> Option<RealServer> {
    match RealServer::start() {
        Ok(real) => {
            real.controllers().unwrap_or_else(|error| panic!("{error}"));
            Some(real)
        }
        Err(error) => match error.missing() {
            Some(missing) => {
                skipped(test, missing);
                None
            }
            None => panic!("{error}"),
        },
    }
}
