//! Watches folders, and reports which paths have changed once a burst of changes is over.
//!
//! This module does not know which changes count.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use notify::{ErrorKind, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

/// The pause after which a burst of changes is over: editors save in several steps.
const QUIET: Duration = Duration::from_millis(100);

/// The maximum length of a burst, because a program may write all the time.
const LONGEST: Duration = Duration::from_secs(1);

/// The error number of Linux for the limit of inotify instances.
const TOO_MANY_OPEN: i32 = 24;

/// Folders that cannot be watched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error(
        "changes in {} cannot be noticed: kopf-rs dev watches {wanted} folders, and the system permits you no more watches than \
         {permitted} in all programs (fs.inotify.max_user_watches)\n  permit more: sudo sysctl fs.inotify.max_user_watches=524288",
        .folder.display()
    )]
    TooManyWatches { folder: PathBuf, wanted: usize, permitted: String },
    #[error(
        "changes of files cannot be noticed: kopf-rs dev needs one inotify instance, and the system permits you no more than {permitted} in \
         all programs (fs.inotify.max_user_instances)\n  permit more: sudo sysctl fs.inotify.max_user_instances=1024"
    )]
    TooManyWatchers { permitted: String },
    #[error(
        "changes in {} cannot be noticed: {error}\n  kopf-rs dev watches the sources, so it needs the right to read that folder",
        .folder.display()
    )]
    Folder { folder: PathBuf, error: notify::Error },
    #[error("changes of files cannot be noticed: {0}")]
    Other(notify::Error),
}

/// Watches folders; dropping it ends that.
pub(crate) struct Watcher {
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
}

// === impl Watcher ===

impl Watcher {
    /// Calls `changed` in a thread with the paths of each burst of changes.
    pub(crate) fn start(changed: impl Fn(BTreeSet<PathBuf>) + Send + 'static) -> Result<Self, WatchError> {
        let (sender, events) = channel();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading changes nothing, although it is an event.
            if let Ok(event) = event
                && !matches!(event.kind, EventKind::Access(_) | EventKind::Other)
            {
                // Fails only if the thread below is gone, which ends with this watcher.
                let _sent = sender.send(event.paths);
            }
        });
        let watcher = watcher.map_err(|error| start_error(error, permitted("max_user_instances")))?;
        thread::spawn(move || {
            while let Some(paths) = burst(&events) {
                changed(paths);
            }
        });
        Ok(Self { watcher, watched: BTreeSet::new() })
    }

    /// Watches exactly these folders, each without the folders in it. The `changed` paths may be other folders of the same names.
    pub(crate) fn watch(
        &mut self,
        folders: &BTreeSet<PathBuf>,
        changed: &BTreeSet<PathBuf>,
    ) -> Result<(), WatchError> {
        for gone in self.watched.difference(folders) {
            // The watch of a deleted folder has ended already.
            let _unwatched = self.watcher.unwatch(gone);
        }
        let is_same = |it: &PathBuf| folders.contains(it) && !it.ancestors().any(|it| changed.contains(it));
        self.watched.retain(is_same);
        for folder in folders {
            if self.watched.contains(folder) {
                continue;
            }
            match self.watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.watched.insert(folder.clone())),
                // It may have been deleted meanwhile.
                Err(_) if !folder.is_dir() => {}
                Err(error) => {
                    let limit = permitted("max_user_watches");
                    return Err(folder_error(error, folder.clone(), folders.len(), limit));
                }
            }
        }
        Ok(())
    }
}

/// Waits for a change, and for the end of its burst; `None` if the watcher is gone.
#[expect(clippy::disallowed_methods, reason = "a burst without an end is reported in parts")]
fn burst(changes: &Receiver<Vec<PathBuf>>) -> Option<BTreeSet<PathBuf>> {
    let mut paths = BTreeSet::from_iter(changes.recv().ok()?);
    let begun = Instant::now();
    while begun.elapsed() < LONGEST
        && let Ok(more) = changes.recv_timeout(QUIET)
    {
        paths.extend(more);
    }
    Some(paths)
}

fn start_error(error: notify::Error, permitted: String) -> WatchError {
    match error.kind {
        ErrorKind::Io(ref io) if io.raw_os_error() == Some(TOO_MANY_OPEN) => {
            WatchError::TooManyWatchers { permitted }
        }
        _ => WatchError::Other(error),
    }
}

fn folder_error(error: notify::Error, folder: PathBuf, wanted: usize, permitted: String) -> WatchError {
    match error.kind {
        ErrorKind::MaxFilesWatch => WatchError::TooManyWatches { folder, wanted, permitted },
        _ => WatchError::Folder { folder, error },
    }
}

/// Returns a limit of Linux for inotify.
fn permitted(limit: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/sys/fs/inotify/{limit}"));
    text.map_or_else(|_| "an unknown number".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_file_is_reported_and_a_read_one_is_not() {
        let folder = std::env::temp_dir().join(format!("kopf-rs-watcher-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let folder = folder.canonicalize().unwrap();
        let (read, saved) = (folder.join("read.rs"), folder.join("saved.rs"));
        std::fs::write(&read, "").unwrap();
        let (sender, bursts) = channel();
        let mut watcher = Watcher::start(move |paths| sender.send(paths).unwrap()).unwrap();
        watcher.watch(&BTreeSet::from([folder.clone()]), &BTreeSet::new()).unwrap();
        std::fs::read(&read).unwrap();
        std::fs::write(&saved, "fn main() {}").unwrap();
        let burst = bursts.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(burst.contains(&saved) && !burst.contains(&read), "{burst:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_is_replaced_or_created_later_is_watched() {
        let folder = std::env::temp_dir().join(format!("kopf-rs-replaced-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("generated")).unwrap();
        let folder = folder.canonicalize().unwrap();
        let (generated, later) = (folder.join("generated"), folder.join("later"));
        let folders = BTreeSet::from([folder.clone(), generated.clone(), later.clone()]);
        let (sender, bursts) = channel();
        let mut watcher = Watcher::start(move |paths| sender.send(paths).unwrap()).unwrap();
        watcher.watch(&folders, &BTreeSet::new()).unwrap();
        std::fs::remove_dir(&generated).unwrap();
        std::fs::create_dir(&generated).unwrap();
        std::fs::create_dir(&later).unwrap();
        let mut seen = BTreeSet::new();
        let mut until = |path: &PathBuf| {
            let mut last = BTreeSet::new();
            while !seen.contains(path) {
                last = bursts.recv_timeout(Duration::from_secs(60)).unwrap();
                seen.extend(last.clone());
            }
            last
        };
        let changed = until(&later);
        watcher.watch(&folders, &changed).unwrap();
        for file in [generated.join("a.rs"), later.join("a.rs")] {
            std::fs::write(&file, "").unwrap();
            until(&file);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_burst_without_an_end_is_reported() {
        let (sender, changes) = channel();
        let begun = thread::spawn(move || while sender.send(vec![PathBuf::from("a")]).is_ok() {});
        assert_eq!(burst(&changes), Some(BTreeSet::from([PathBuf::from("a")])));
        drop(changes);
        begun.join().unwrap();
    }

    #[test]
    fn a_reached_limit_is_named_with_its_remedy() {
        let full = notify::Error::new(ErrorKind::MaxFilesWatch);
        let said = folder_error(full, "/op/src".into(), 7, "3".to_owned()).to_string();
        for part in ["/op/src", "7 folders", "no more watches than 3", "sysctl fs.inotify.max_user_watches="]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        let full = notify::Error::io(std::io::Error::from_raw_os_error(TOO_MANY_OPEN));
        let said = start_error(full, "128".to_owned()).to_string();
        for part in ["no more than 128", "sysctl fs.inotify.max_user_instances="] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
