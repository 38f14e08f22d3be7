//! A small file that belongs to one process at a time and outlives it: the next process can read the data of the former one.
//!
//! A lock marks the file as taken, rather than its existence, because locks end with their process. This module
//! guarantees to touch only plain files of this user. Data is not synced: it must survive the process, not a crash of
//! the machine. It must not depend on the content.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The maximum number of bytes to read from a former process.
const LONGEST: u64 = 64 << 20;

/// The file, while this process owns it.
#[derive(Debug)]
pub(crate) struct LockedFile {
    path: PathBuf,
    file: File,
    length: usize,
}

/// The result of opening the file.
#[derive(Debug)]
pub(crate) enum Opened {
    /// The file is new.
    New(LockedFile),
    /// The data of a former process that has ended.
    Left(LockedFile, String),
    /// A running process owns the file.
    Taken,
}

impl LockedFile {
    /// Creates the file, or takes it over.
    pub(crate) fn open(path: &Path) -> io::Result<Opened> {
        /// A file that is removed and recreated this often is unreliable.
        const TRIES: usize = 100;
        for _ in 0..TRIES {
            if let Some(opened) = Self::open_once(path)? {
                return Ok(opened);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Tries to open the file once. Returns `None` if its owner has removed it meanwhile.
    fn open_once(path: &Path) -> io::Result<Option<Opened>> {
        let mut options = OpenOptions::new();
        options.read(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let (mut file, is_new) = match options.clone().create_new(true).open(path) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match unless_gone(check(path).and_then(|()| options.open(path)))? {
                    Some(file) => (file, false),
                    None => return Ok(None),
                }
            }
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Some(Opened::Taken)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if is_unlinked(&file)? {
            return Ok(None);
        }
        // The file may have been replaced since the first check.
        check_opened(path, &file)?;
        let mut left = Vec::new();
        (&mut file).take(LONGEST).read_to_end(&mut left)?;
        let found = Self { path: path.to_owned(), file, length: left.len() };
        Ok(Some(if is_new {
            Opened::New(found)
        } else {
            Opened::Left(found, String::from_utf8_lossy(&left).into_owned())
        }))
    }

    /// Appends text with one write.
    pub(crate) fn append(&mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        self.length += text.len();
        Ok(())
    }

    /// Replaces all content.
    pub(crate) fn replace(&mut self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.length = 0;
        self.append(text)
    }

    /// Returns the number of bytes in the file.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Removes the file, unless another one has replaced it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        check_opened(&self.path, &self.file)?;
        std::fs::remove_file(&self.path)
    }
}

/// Refuses anything except a plain file of this user: in a world-writable folder, another user may have created a file of this name.
fn check(path: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    let is_ours = found.is_file() && is_of_this_user(&found);
    is_ours.then_some(()).ok_or_else(refused)
}

/// Checks that the opened file is the one at `path`, that it has no other name, so that no link was followed, and that no other user may
/// write to it.
#[cfg(unix)]
fn check_opened(path: &Path, file: &File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    check(path)?;
    let (opened, found) = (file.metadata()?, std::fs::symlink_metadata(path)?);
    let is_found = (opened.dev(), opened.ino()) == (found.dev(), found.ino());
    let is_private = opened.nlink() == 1 && opened.mode() & 0o022 == 0;
    let is_ours = is_found && is_private && is_of_this_user(&opened);
    is_ours.then_some(()).ok_or_else(refused)
}

/// Returns true if no path leads to the file any more.
#[cfg(unix)]
fn is_unlinked(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(file.metadata()?.nlink() == 0)
}

#[cfg(not(unix))]
fn is_unlinked(_: &File) -> io::Result<bool> {
    Ok(false)
}

/// Returns `None` if the file no longer exists.
fn unless_gone<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn check_opened(path: &Path, _: &File) -> io::Result<()> {
    check(path)
}

fn refused() -> io::Error {
    let text = "it is no plain file of this user alone";
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// Returns true if the file belongs to this user. If the system does not reveal the user, the file's permissions must suffice.
#[cfg(unix)]
fn is_of_this_user(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").map_or(true, |this| this.uid() == found.uid())
}

#[cfg(not(unix))]
fn is_of_this_user(_: &std::fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a temporary path for this test.
    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("kopf-rs-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_file_is_taken_as_long_as_its_process_has_it_and_then_left() {
        let path = path("locked");
        let Ok(Opened::New(mut first)) = LockedFile::open(&path) else {
            panic!("there is such a file");
        };
        first.append("one\n").unwrap();
        first.append("two\n").unwrap();
        assert!(matches!(LockedFile::open(&path), Ok(Opened::Taken)));
        drop(first);
        let Ok(Opened::Left(mut second, left)) = LockedFile::open(&path) else {
            panic!("it is not left");
        };
        assert_eq!((left.as_str(), second.length()), ("one\ntwo\n", 8));
        second.replace("3\n").unwrap();
        second.append("4\n").unwrap();
        drop(second);
        let Ok(Opened::Left(third, left)) = LockedFile::open(&path) else {
            panic!("it is not left");
        };
        assert_eq!(left, "3\n4\n");
        third.remove().unwrap();
        assert!(!path.exists());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_plain_file_is_left_alone() {
        let (link, target) = (path("link"), path("target"));
        std::fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let opened = LockedFile::open(&link);
        assert!(opened.is_err(), "{opened:?}");
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
        std::fs::remove_file(link).unwrap();
        std::fs::remove_file(target).unwrap();
    }

    /// A user without write access to a file can still create a link to it.
    #[cfg(unix)]
    #[test]
    fn a_file_with_another_name_is_left_alone() {
        let (link, target) = (path("hard-link"), path("named-twice"));
        std::fs::write(&target, "precious").unwrap();
        std::fs::hard_link(&target, &link).unwrap();
        let opened = LockedFile::open(&link);
        assert!(opened.is_err(), "{opened:?}");
        std::fs::remove_file(link).unwrap();
        std::fs::remove_file(target).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn only_this_user_may_touch_the_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = path("mode");
        let Ok(Opened::New(file)) = LockedFile::open(&path) else {
            panic!("there is such a file");
        };
        let permissions = std::fs::metadata(&path).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, 0o600);
        drop(file);
        let everybody = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(&path, everybody).unwrap();
        let opened = LockedFile::open(&path);
        assert!(opened.is_err(), "{opened:?}");
        std::fs::remove_file(path).unwrap();
    }

    /// One process removes the file while the other one starts.
    #[test]
    fn a_file_that_goes_meanwhile_is_made_anew() {
        let path = path("comes-and-goes");
        let come_and_go = || {
            for round in 0..2_000 {
                match LockedFile::open(&path) {
                    Ok(Opened::New(file) | Opened::Left(file, _)) => file.remove().unwrap(),
                    Ok(Opened::Taken) => {}
                    Err(error) => panic!("round {round}: {error}"),
                }
            }
        };
        std::thread::scope(|scope| {
            let others = [scope.spawn(come_and_go), scope.spawn(come_and_go)];
            come_and_go();
            for other in others {
                other.join().unwrap();
            }
        });
    }
}
