//! A client, and what it said beside the real server: as recorded, or run there now.
//!
//! Promise: a recording is of the client's version and of the program it runs now. Must not know what clients say.

use std::path::{Path, PathBuf};

use kopf_rs_tests::{Digest, Mode, Recorded, kubernetes_version};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::both::real;

/// All that has a part in what clients say, beside their programs.
const SOURCES: &[&str] = &[
    "kopf-rs-apiserver/src",
    "kopf-rs-apiserver/tables",
    "kopf-rs-apiserver/Cargo.toml",
    "tests/it/clients",
    "tests/cluster/kubernetes/go.mod",
];

/// A program of others that talks to a server.
pub(super) struct Client<'a> {
    /// The test, as it is recorded where it is skipped.
    pub(super) test: &'a str,
    /// Its name in the ledger.
    pub(super) name: &'a str,
    /// It and its version.
    pub(super) version: String,
    /// The files and folders of this repository that make it what it is.
    pub(super) files: &'a [&'a str],
}

/// What a client does in one piece.
pub(super) struct Piece<'a> {
    pub(super) name: &'a str,
    /// The file it is written in, where the client has several.
    pub(super) file: Option<&'a str>,
}

/// All that the program of a client does.
pub(super) const ALL: Piece<'static> = Piece {
    name: "all",
    file: None,
};

// === impl Client ===

impl Client<'_> {
    /// What it said beside the real server in these pieces, of these files; nothing where it would have to be run there, and there is no such server.
    ///
    /// # Panics
    ///
    /// Where it says something else than is recorded, or nothing is recorded.
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
        let recorded = Recorded::of(&format!("clients/{name}"), &by, &sources);
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
        let digest = Digest::new().and_files(&[self.files, script.as_slice()].concat());
        digest.expect("the files of a client are readable")
    }
}

const UNKNOWN: &str =
    "beside the real server it says something else than is recorded: `./test record` records anew";

/// The line of a file that pins a version, which has this in it.
pub(super) fn pinned(file: &str, word: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let line = text.lines().find(|line| line.contains(word));
    let line = line.unwrap_or_else(|| panic!("{file} does not pin {word}"));
    line.trim().trim_end_matches(" // indirect").to_owned()
}
