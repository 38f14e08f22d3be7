//! Chooses the file in which an operator notes its calls after a crash, such that a restarted container finds it again.
//!
//! Must not know the contents of the notes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;

use crate::engine::noted_calls::NotedCalls;
use crate::object::essence::digest;
use crate::operator::scope::Scope;

/// The values that distinguish this operator's notes from those of others.
#[derive(Clone, Debug)]
pub(crate) struct NotesAt {
    /// The server's URL.
    pub(crate) server: String,
    /// The folder of the notes; `None` for the default of the system.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) end: EndNote,
}

/// Notes the request to stop, on the thread that receives it, because the operator's own thread may be blocked.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndNote(Arc<Mutex<StopRequest>>);

#[derive(Debug, Default)]
struct StopRequest {
    is_stop_requested: bool,
    notes: Option<Arc<NotedCalls>>,
}

impl NotesAt {
    /// Opens the notes of the operator `name` if possible, and reports the previous end that they record.
    pub(super) fn open(&self, name: &str, scope: &Scope, now: Timestamp) -> Arc<NotedCalls> {
        let whose = digest(&json!([self.server, format!("{scope:?}")]));
        let file = format!("kopf-rs-{name}-{whose}.calls");
        let folder = self.folder.clone().unwrap_or_else(folder);
        // If this fails, opening the file fails, too.
        let _ = std::fs::create_dir_all(&folder);
        let notes = Arc::new(NotedCalls::open(&folder.join(file), build(), now));
        notes.report();
        self.end.note_in(&notes);
        notes
    }
}

impl EndNote {
    /// Notes the request to stop the operator.
    #[cfg(feature = "cli")]
    pub(crate) fn request_stop(&self) {
        let mut state = self.0.lock();
        state.is_stop_requested = true;
        state.note();
    }

    fn note_in(&self, notes: &Arc<NotedCalls>) {
        let mut state = self.0.lock();
        state.notes = Some(notes.clone());
        state.note();
    }
}

impl StopRequest {
    fn note(&self) {
        if let Some(notes) = self.notes.as_ref().filter(|_| self.is_stop_requested) {
            notes.stopping();
        }
    }
}

/// Returns the default folder: memory that all containers of a Pod share, that survives a restart of a container, and that is writable even
/// if the root file system is not.
fn folder() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        return shared.to_owned();
    }
    std::env::temp_dir()
}

/// Identifies the build of the operator.
fn build() -> String {
    let program = std::env::current_exe().ok();
    let found = program.as_ref().and_then(|it| std::fs::metadata(it).ok());
    let modified = found.as_ref().and_then(|it| it.modified().ok());
    let since = modified.and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    let name = program.as_deref().and_then(Path::file_name);
    let name = name.map_or_else(Default::default, OsStr::to_string_lossy);
    format!("{name} of {} bytes, {}", found.map_or(0, |it| it.len()), since.unwrap_or_default().as_nanos())
}
