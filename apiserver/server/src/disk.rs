//! The data directory: a snapshot, the changes since then, and the server's identity.
//!
//! A change that `append` has accepted survives the end of the process, however it ends; a partially written change is dropped
//! as a whole when the directory is opened again. Only one process can use the directory. Independent of requests.
//!
//! The directory has `snapshot`, one or more `changes.N`, `identity.json` and `lock`. Changes reach the operating system
//! before a request is answered, and are synced to the disk with every snapshot and at the end: a crash of the machine may
//! lose the last seconds, a crash of the process loses nothing.

mod frame;
pub(crate) mod identity;
mod load;
mod snapshot;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::kind::Resource;
use crate::object::Stored;
use crate::serve::shared::Nobody;
use crate::serve::tls::TlsError;
use crate::store::batch::Effect;
use crate::store::feed::Event;

pub(crate) use load::load;

/// The version of the directory layout.
const FORMAT: u32 = 1;
/// The default size of changes that triggers a snapshot, in bytes.
const DUE: u64 = 8 << 20;

/// The directory in which a server stores its objects between runs.
///
/// ```no_run
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use kopf_rs_apiserver::{ApiServer, DataDir};
///
/// let server = ApiServer::open(DataDir::new("cluster"))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
    due: u64,
}

/// The state that was loaded from a data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// The number of objects; zero for a new directory.
    pub objects: usize,
    /// The resource version that the server continues from.
    pub revision: u64,
    /// The number of bytes at the end of the last file that were dropped because they were not a complete change: the server ended while
    /// it wrote them, before it answered the request.
    pub dropped: u64,
}

/// The reason why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server is using it.
    #[error("{} is in use by another server", .0.display())]
    InUse(PathBuf),
    /// The operating system reported an error.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// A file has unexpected content.
    #[error(
        "{} is damaged at byte {offset}: {why}; restore it from a copy, or begin anew with an empty directory",
        .path.display()
    )]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// The position of the damage.
        offset: u64,
        /// A description of the damage.
        why: String,
    },
    /// A file is missing although other files depend on it.
    #[error(
        "{} is missing: {why}; restore it from a copy, or begin anew with an empty directory",
        .path.display()
    )]
    Missing {
        /// The missing file.
        path: PathBuf,
        /// The reason why the file must exist.
        why: String,
    },
    /// The keys of a new server could not be created, or those of an old one are invalid.
    #[error("the server has no keys: {0}")]
    Keys(#[from] TlsError),
}

/// A change could not be stored. From then on, the server answers every request with this error until it is restarted.
#[derive(Clone, Debug, thiserror::Error)]
#[error("changes cannot be kept in {}: {error}; make room there and start the server again", .path.display())]
pub(crate) struct DiskError {
    path: PathBuf,
    error: Arc<io::Error>,
}

/// An open data directory.
#[derive(Debug)]
pub(crate) struct Disk {
    dir: PathBuf,
    /// The number of the current file of changes.
    number: u64,
    changes: File,
    /// The bytes of changes since the last snapshot.
    written: u64,
    due: u64,
    buffer: Vec<u8>,
    broken: Option<DiskError>,
    snapshot: Option<JoinHandle<io::Result<()>>>,
    /// Locks the directory while it is open.
    _lock: File,
}

/// One change, as the file has it.
#[derive(Debug, Deserialize, Serialize)]
struct Line<'a> {
    revision: u64,
    of: String,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    put: Option<&'a RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remove: Option<String>,
}

/// The first frame of a snapshot.
#[derive(Debug, Deserialize, Serialize)]
struct Head {
    format: u32,
    revision: u64,
    /// The number of the file of changes that follows the snapshot.
    #[serde(default)]
    next: Option<u64>,
}

// === impl OpenError ===

impl From<Nobody> for OpenError {
    fn from(nobody: Nobody) -> Self {
        match nobody {
            Nobody::Tls(error) => Self::Keys(error),
            Nobody::Keep { path, source } => Self::Io {
                path,
                error: source,
            },
        }
    }
}

impl From<DiskError> for OpenError {
    fn from(error: DiskError) -> Self {
        let DiskError { path, error } = error;
        Self::Io {
            path,
            error: io::Error::new(error.kind(), error),
        }
    }
}

// === impl DataDir ===

impl DataDir {
    /// Uses the directory at this path, and creates it if it does not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            due: DUE,
        }
    }

    /// Sets how many bytes of changes trigger a snapshot, which replaces those changes. A snapshot larger than this raises the
    /// limit to its own size. The default is 8 MiB.
    #[must_use]
    pub fn snapshot_after(mut self, bytes: u64) -> Self {
        self.due = bytes;
        self
    }
}

impl<P: Into<PathBuf>> From<P> for DataDir {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}

// === impl Disk ===

impl Disk {
    fn open(dir: &DataDir, lock: File, number: u64, written: u64) -> Result<Self, OpenError> {
        let path = changes_file(&dir.path, number);
        Ok(Self {
            changes: append_to(&path).map_err(refused(&path))?,
            dir: dir.path.clone(),
            number,
            written,
            due: dir.due,
            buffer: Vec::new(),
            broken: None,
            snapshot: None,
            _lock: lock,
        })
    }

    /// Stores all of these changes or none of them.
    pub(crate) fn append(&mut self, effects: &[Effect]) -> Result<(), DiskError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        if effects.is_empty() {
            return Ok(());
        }
        self.buffer.clear();
        frame::write(&mut self.buffer, |text| {
            for (at, effect) in effects.iter().enumerate() {
                text.push(if at == 0 { b'[' } else { b',' });
                write_change(text, effect);
            }
            text.push(b']');
        });
        let kept = self.changes.write_all(&self.buffer);
        self.written += self.buffer.len() as u64;
        kept.map_err(|error| self.break_down(error))
    }

    fn break_down(&mut self, error: io::Error) -> DiskError {
        let broken = DiskError {
            path: changes_file(&self.dir, self.number),
            error: Arc::new(error),
        };
        self.broken.insert(broken).clone()
    }

    /// Returns the error that prevents further changes, if any.
    pub(crate) fn broken(&self) -> Option<DiskError> {
        self.broken.clone()
    }

    /// Returns true if a snapshot is due.
    pub(crate) fn is_due(&self) -> bool {
        let busy = self
            .snapshot
            .as_ref()
            .is_some_and(|made| !made.is_finished());
        self.written >= self.due && !busy && self.broken.is_none()
    }

    /// Starts a snapshot of these objects on a thread of its own.
    pub(crate) fn begin_snapshot(
        &mut self,
        revision: u64,
        contents: Vec<(Arc<Resource>, Vec<Arc<Stored>>)>,
    ) {
        let next = self.number + 1;
        let turned = append_to(&changes_file(&self.dir, next));
        match turned {
            Ok(changes) => self.changes = changes,
            Err(error) => {
                self.break_down(error);
                return;
            }
        }
        let (dir, old) = (self.dir.clone(), self.number);
        self.number = next;
        self.written = 0;
        let size: usize = contents
            .iter()
            .flat_map(|(_, objects)| objects)
            .map(|stored| stored.json.len())
            .sum();
        self.due = self.due.max(size as u64);
        self.snapshot = Some(std::thread::spawn(move || {
            finish(&dir, old)?;
            snapshot::make(&dir, revision, next, &contents)?;
            remove_changes(&dir, old)
        }));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            // A failed snapshot is no loss: the changes that it would have replaced are still there.
            let _made = snapshot.join();
        }
        let _synced = self.changes.sync_data();
    }
}

fn write_change(text: &mut Vec<u8>, effect: &Effect) {
    let change = &effect.change;
    let mut line = Line {
        revision: change.revision,
        of: effect.of.to_string(),
        put: None,
        remove: None,
    };
    if change.event == Event::Deleted {
        line.remove = Some(effect.key());
        crate::object::write_json(text, &line);
    } else {
        write_put(text, &line, &change.now);
    }
}

/// Writes a line with the object's JSON copied verbatim.
fn write_put(text: &mut Vec<u8>, line: &Line<'_>, stored: &Stored) {
    crate::object::write_json(text, line);
    text.pop();
    text.extend_from_slice(b",\"put\":");
    text.extend_from_slice(&stored.json);
    text.push(b'}');
}

fn changes_file(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("changes.{number}"))
}

/// Returns the numbers of the files of changes, in order.
fn changes_files(dir: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        numbers.extend(
            name.strip_prefix("changes.")
                .and_then(|number| number.parse::<u64>().ok()),
        );
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the mark at the end of a file of changes that has a successor.
fn end_mark() -> Vec<u8> {
    let mut mark = Vec::new();
    frame::write(&mut mark, |text| text.extend_from_slice(b"[]"));
    mark
}

/// Marks a file of changes as having a successor, so that a later load notices if the successor is missing.
fn finish(dir: &Path, number: u64) -> io::Result<()> {
    // Syncs the directory first: the mark must not become durable before the successor that it announces.
    File::open(dir)?.sync_all()?;
    let mut changes = append_to(&changes_file(dir, number))?;
    let length = changes.metadata()?.len();
    changes.write_all(&end_mark()).inspect_err(|_| {
        // A partial mark would count as damage.
        let _cut = cut(&changes_file(dir, number), length);
    })
}

fn remove_changes(dir: &Path, up_to: u64) -> io::Result<()> {
    for number in changes_files(dir)? {
        if number <= up_to {
            fs::remove_file(changes_file(dir, number))?;
        }
    }
    Ok(())
}

/// Returns options for files that only the user can read, because they contain Secrets.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn append_to(path: &Path) -> io::Result<File> {
    private().create(true).append(true).open(path)
}

fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Truncates a file to its valid part.
fn cut(path: &Path, length: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(length)?;
    file.sync_all()
}

/// Locks the directory against other processes while the file is open.
fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join("lock");
    let file = append_to(&path).map_err(refused(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(OpenError::Io { path, error }),
    }
}

/// Replaces a file atomically: after a crash, either the old or the new content is complete.
fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = private()
        .create(true)
        .write(true)
        .truncate(true)
        .open(&new)?;
    write(&mut file)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // Sync the directory as well, so that the rename is durable.
    path.parent()
        .map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

fn refused(path: &Path) -> impl FnOnce(io::Error) -> OpenError + use<> {
    let path = path.to_owned();
    move |error| OpenError::Io { path, error }
}
