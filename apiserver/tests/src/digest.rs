//! A digest of texts and files that is stable between compilers and machines, unlike the standard hasher.
//!
//! It detects changes, but it is not cryptographic and gives no protection against tampering. Must not know the meaning of its input.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// FNV-1a.
#[derive(Debug, Clone, Copy)]
pub struct Digest(u64);

impl Digest {
    /// Returns the digest of no input.
    #[must_use]
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes to the digest.
    #[must_use]
    pub fn and(self, bytes: impl AsRef<[u8]>) -> Self {
        let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Self(bytes.as_ref().iter().fold(self.0, add))
    }

    /// Adds files below `root` to the digest: their names and contents. For a folder, adds all files in it.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read.
    pub fn and_files(mut self, root: &Path, paths: &[&str]) -> io::Result<Self> {
        let mut files = Vec::new();
        for path in paths {
            collect(&root.join(path), &mut files)?;
        }
        files.sort();
        for file in files {
            let name = file.strip_prefix(root).unwrap_or(&file);
            self = self
                .and(name.to_string_lossy().as_bytes())
                .and(std::fs::read(&file)?);
        }
        Ok(self)
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}
