//! Records the requests that handlers of a test send by their client, for `kopf-rs manifests --observe`.
//!
//! Records only if the variable `KOPF_RS_OBSERVE` names a folder. This module does not judge the requests.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderMap;
use http::header::USER_AGENT;
use parking_lot::Mutex;

use crate::cli::observing::{FOLDER, Recorded};
use crate::cluster::Client;
use crate::cluster::observed::noting;

/// The lines that this process has written.
static WRITTEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Returns a client that records its requests under the name of this test, or the same client if nothing is to be recorded.
pub(super) fn recording(client: Client) -> Client {
    match std::env::var_os(FOLDER).filter(|it| !it.is_empty()) {
        Some(folder) => recording_in(folder.into(), &client),
        None => client,
    }
}

/// Returns a client that records its requests in this folder.
pub(super) fn recording_in(folder: PathBuf, client: &Client) -> Client {
    let thread = std::thread::current();
    let test: Arc<str> = thread.name().unwrap_or("a test on a thread without a name").into();
    noting(client, move |method, uri, headers| {
        if is_of_framework(headers) {
            return;
        }
        let line = Recorded::line(&test, method.as_str(), uri.path(), uri.query().unwrap_or_default());
        if let Some(line) = line {
            write(&folder, line);
        }
    })
}

/// Returns whether the framework sends the request itself. Its permissions follow from the attributes of handlers.
fn is_of_framework(headers: &HeaderMap) -> bool {
    let agent = headers.get(USER_AGENT).and_then(|it| it.to_str().ok());
    agent.is_some_and(|it| it.starts_with("kopf-rs/"))
}

/// Writes each line once, at once, because a test may end its process.
fn write(folder: &Path, line: String) {
    let mut written = WRITTEN.lock();
    if written.contains(&line) {
        return;
    }
    let file = folder.join(format!("{}.jsonl", std::process::id()));
    let opened = std::fs::create_dir_all(folder)
        .and_then(|()| OpenOptions::new().create(true).append(true).open(&file))
        .and_then(|mut file| writeln!(file, "{line}"));
    if let Err(error) = opened {
        panic!(
            "requests cannot be recorded in {}, the folder of the variable {FOLDER}: {error}",
            file.display()
        );
    }
    written.insert(line);
}
