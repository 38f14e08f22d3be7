//! A client and its output against the real server, from a recording or from a run.
//!
//! A recording is valid only for the client's version and for its present program. Must not know the output.

use std::path::{Path, PathBuf};

use kopf_rs_apiserver_tests::{Digest, Mode, Recorded, kubernetes_version, workspace};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::both::real;

/// The files that affect the output of clients, besides their programs.
const SOURCES: &[&str] = &[
    "server/src",
    "server/tables",
    "server/Cargo.toml",
    "tests/it/clients",
    "tests/cluster/kubernetes/go.mod",
];

/// An external program that talks to a server.
pub(super) struct Client<'a> {
    /// The name of the test, for the record of skipped tests.
    pub(super) test: &'a str,
    /// Its name in the ledger.
    pub(super) name: &'a str,
    /// The client with its version.
    pub(super) version: String,
    /// The files and folders of this workspace that make up its program.
    pub(super) files: &'a [&'a str],
}

/// A part of a client's work that is recorded separately.
pub(super) struct Piece<'a> {
    pub(super) name: &'a str,
    /// Its file, if the client has several.
    pub(super) file: Option<&'a str>,
}

/// The whole work of a client.
pub(super) const ALL: Piece<'static> = Piece {
    name: "all",
    file: None,
};

// === impl Client ===

impl Client<'_> {
    /// Returns the output of the given pieces against the real server; `None` if they would have to run there and there is no such server.
    ///
    /// # Panics
    ///
    /// Panics if the output differs from the recording, or if there is no recording.
    pub(super) fn beside_the_real_server<T>(
        &self,
        pieces: &[Piece<'_>],
        all: bool,
        run: impl FnOnce(&Path) -> Vec<Vec<T>>,
    ) -> Option<Vec<Vec<T>>>
    where
        T: Clone + PartialEq + Serialize + DeserializeOwned,
    {
        let Self {
            test,
            name,
            version,
            files,
        } = self;
        let by = format!("{version} beside kube-apiserver {}", kubernetes_version());
        let scripts: Vec<&str> = pieces.iter().filter_map(|piece| piece.file).collect();
        let sources = [SOURCES, *files, scripts.as_slice()].concat();
        let recorded = Recorded::of(workspace(), &format!("clients/{name}"), &by, &sources);
        let mode = recorded.mode();
        let read = |piece: &Piece<'_>| -> Vec<T> {
            let said = recorded.read(piece.name, self.asked(piece));
            said.unwrap_or_else(|why| panic!("{why}"))
        };
        if mode == Mode::Recorded {
            return Some(pieces.iter().map(read).collect());
        }
        let server = real(test)?;
        let now = run(&server.kubeconfig);
        drop(server);
        for (piece, now) in pieces.iter().zip(&now) {
            if mode == Mode::Recording {
                let asked = self.asked(piece);
                recorded.write(piece.name, asked, now, |known, now| known == now);
            } else {
                let is_known = read(piece) == *now;
                assert!(is_known, "{name}, {}: {UNKNOWN}", piece.name);
            }
        }
        if mode == Mode::Recording && all {
            recorded.complete(pieces.iter().map(|piece| piece.name));
        }
        Some(now)
    }

    fn asked(&self, piece: &Piece<'_>) -> Digest {
        let script: Vec<&str> = piece.file.into_iter().collect();
        let digest =
            Digest::new().and_files(workspace(), &[self.files, script.as_slice()].concat());
        digest.expect("the files of a client are readable")
    }
}

const UNKNOWN: &str =
    "beside the real server it says something else than is recorded: `./test record` records anew";

/// Returns the line of a version pinning file that contains `word`.
pub(super) fn pinned(file: &str, word: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let line = text.lines().find(|line| line.contains(word));
    let line = line.unwrap_or_else(|| panic!("{file} does not pin {word}"));
    line.trim().trim_end_matches(" // indirect").to_owned()
}
