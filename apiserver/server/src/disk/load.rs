//! Opens a data directory: loads the snapshot and the later changes into a store.
//!
//! Guarantees the state after the last completely written change. Only the end of the last file may be torn; any other unreadable
//! part is an error that names the place. Must not depend on requests.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::frame::{End, Frames};
use super::{
    DataDir, Disk, FORMAT, Head, Line, OpenError, Recovered, changes_file, changes_files, cut,
    end_mark, identity, lock, make_folder, refused, snapshot,
};
use crate::kind::{Kind, crd};
use crate::object::Body;
use crate::store::Store;

/// A file that is being read.
struct Reading<'a> {
    path: &'a Path,
    /// The snapshot contains the changes up to this revision.
    known: u64,
}

/// Fills an empty store, and returns the disk for further changes.
pub(crate) fn load(dir: &DataDir, store: &mut Store) -> Result<(Disk, Recovered), OpenError> {
    make_folder(&dir.path).map_err(refused(&dir.path))?;
    let lock = lock(&dir.path)?;
    let numbers = changes_files(&dir.path).map_err(refused(&dir.path))?;
    let head = load_snapshot(&snapshot::file(&dir.path), store)?;
    check_files(&dir.path, &numbers, head.as_ref())?;
    check_identity(&dir.path, &numbers, head.as_ref())?;
    let known = head.map_or(0, |head| head.revision);
    let (mut written, mut dropped) = (0, 0);
    for number in &numbers {
        let path = changes_file(&dir.path, *number);
        let is_last = numbers.last() == Some(number);
        let reading = Reading { path: &path, known };
        let bytes = fs::read(&path).map_err(refused(&path))?;
        let good = reading.changes(&bytes, is_last, store)?;
        if is_last && bytes[..good].ends_with(&end_mark()) {
            let why = format!("changes.{number} is followed by it");
            return Err(missing(changes_file(&dir.path, number + 1), &why));
        }
        if good < bytes.len() {
            cut(&path, good as u64).map_err(refused(&path))?;
        }
        written += good as u64;
        dropped += (bytes.len() - good) as u64;
    }
    let number = numbers.last().copied().unwrap_or(1);
    let disk = Disk::open(dir, lock, number, written)?;
    let recovered = Recovered {
        objects: store.count(),
        revision: store.revision(),
        dropped,
    };
    Ok((disk, recovered))
}

fn load_snapshot(path: &Path, store: &mut Store) -> Result<Option<Head>, OpenError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused(path)(error)),
    };
    let reading = Reading { path, known: 0 };
    let mut frames = Frames::new(&bytes);
    let head = frames.next().ok();
    let head: Head = head
        .and_then(|text| serde_json::from_slice(text).ok())
        .ok_or_else(|| reading.damaged(0, "no snapshot begins there"))?;
    if head.format != FORMAT {
        let why = format!(
            "it is of format {}, and this server reads {FORMAT}",
            head.format
        );
        return Err(reading.damaged(0, &why));
    }
    match reading.frames(frames, store)? {
        (_, End::Complete) => {}
        (at, _) => return Err(reading.damaged(at, "the snapshot has no end")),
    }
    store.restore_revision(head.revision);
    Ok(Some(head))
}

/// Checks that the change files continue the snapshot, or start at the beginning if there is none.
fn check_files(dir: &Path, numbers: &[u64], head: Option<&Head>) -> Result<(), OpenError> {
    let first = numbers.first().copied();
    let from = match (head, first) {
        (Some(head), _) => head.next.or(first).unwrap_or(1),
        (None, Some(first)) if first > 1 => {
            let why = format!("changes.{first} goes on from it");
            return Err(missing(snapshot::file(dir), &why));
        }
        // The identity was written only after the first change file existed.
        (None, None) if !identity::file(dir).exists() => return Ok(()),
        (None, _) => 1,
    };
    let last = numbers.last().copied().unwrap_or(from).max(from);
    match (from..=last).find(|number| !numbers.contains(number)) {
        None => Ok(()),
        Some(gone) => Err(missing(
            changes_file(dir, gone),
            "the other files are not all there was",
        )),
    }
}

/// Checks that the identity exists. It is written before the first change, so it may be absent only if there are none.
fn check_identity(dir: &Path, numbers: &[u64], head: Option<&Head>) -> Result<(), OpenError> {
    let path = identity::file(dir);
    if path.try_exists().map_err(refused(&path))? {
        return Ok(());
    }
    if head.is_some() {
        return Err(missing(path, "there is a snapshot"));
    }
    for number in numbers {
        let changes = changes_file(dir, *number);
        let found = fs::metadata(&changes).map_err(refused(&changes))?;
        if found.len() > 0 {
            return Err(missing(path, &format!("there is changes.{number}")));
        }
    }
    Ok(())
}

fn missing(path: PathBuf, why: &str) -> OpenError {
    let why = why.to_owned();
    OpenError::Missing { path, why }
}

// === impl Reading ===

impl Reading<'_> {
    fn damaged(&self, offset: usize, why: &str) -> OpenError {
        OpenError::Damaged {
            path: self.path.to_owned(),
            offset: offset as u64,
            why: why.to_owned(),
        }
    }

    /// Reads a change file; returns the length of its valid part.
    fn changes(&self, bytes: &[u8], is_last: bool, store: &mut Store) -> Result<usize, OpenError> {
        match self.frames(Frames::new(bytes), store)? {
            (at, End::Torn) if !is_last => Err(self.damaged(at, "the rest of a change is missing")),
            (at, _) => Ok(at),
        }
    }

    /// Reads all frames; returns the offset and the kind of the end.
    fn frames(&self, mut frames: Frames<'_>, store: &mut Store) -> Result<(usize, End), OpenError> {
        loop {
            let at = frames.offset();
            let text = match frames.next() {
                Ok(text) => text,
                Err(End::Damaged(why)) => return Err(self.damaged(at, why)),
                Err(end) => return Ok((at, end)),
            };
            let lines: Vec<Line<'_>> = serde_json::from_slice(text)
                .map_err(|error| self.damaged(at, &error.to_string()))?;
            for line in lines {
                if line.revision > self.known {
                    apply(store, &line).map_err(|why| self.damaged(at, &why))?;
                }
            }
        }
    }
}

fn apply(store: &mut Store, line: &Line<'_>) -> Result<(), String> {
    let (plural, group) = line.of.split_once('.').unwrap_or((&line.of, ""));
    let Some(kind) = store.kinds.any_version(group, plural).cloned() else {
        return Err(format!("this server does not know the kind {:?}", line.of));
    };
    match (line.put, &line.remove) {
        (Some(object), None) => put(store, &kind, object, line.revision),
        (None, Some(key)) => {
            let gone = store.restore_removal(kind.collection, key, line.revision);
            if let Some(gone) = gone.filter(|_| kind.is_crd()) {
                crd::forget(store, &gone);
            }
            Ok(())
        }
        _ => Err("it neither puts nor removes an object".to_owned()),
    }
}

fn put(store: &mut Store, kind: &Kind, object: &RawValue, revision: u64) -> Result<(), String> {
    let body: Body = serde_json::from_str(object.get()).map_err(|error| error.to_string())?;
    let definition = kind.is_crd().then(|| body.clone());
    store.restore(kind.collection, body, revision);
    if let Some(definition) = definition {
        crd::restore(store, &definition);
    }
    Ok(())
}
