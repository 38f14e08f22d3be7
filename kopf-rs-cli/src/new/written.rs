//! Files and folders that are being created: all of them are removed again unless all are complete.
//!
//! It never touches a file that was there before.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::new::NewError;

/// The created files and folders, in the order of their creation. They are removed at the end, unless they are to be kept.
#[derive(Debug, Default)]
pub(super) struct Written(Vec<PathBuf>);

impl Written {
    /// Creates a folder, with those above it.
    pub(super) fn folder(&mut self, path: &Path) -> Result<(), NewError> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        if let Some(above) = path.parent() {
            self.folder(above)?;
        }
        fs::create_dir(path).map_err(|error| NewError::Write { path: path.to_owned(), error })?;
        self.0.push(path.to_owned());
        Ok(())
    }

    /// Creates a file, which must not exist, with the folders above it.
    pub(super) fn file(&mut self, path: &Path, text: &str) -> Result<(), NewError> {
        if let Some(above) = path.parent() {
            self.folder(above)?;
        }
        let failed = |error| NewError::Write { path: path.to_owned(), error };
        let mut file = fs::File::create_new(path).map_err(failed)?;
        self.0.push(path.to_owned());
        file.write_all(text.as_bytes()).map_err(failed)
    }

    pub(super) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            let _removed = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}
