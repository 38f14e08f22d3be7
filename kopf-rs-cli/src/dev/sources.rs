//! The files that `kopf-rs dev` watches: which folders, and which of their files count.
//!
//! Guarantees that build artifacts, hidden files and temporary files of editors never count. This module does not watch anything itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Files and folders whose changes count.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// Folders of crates, and single files; all absolute.
    code: BTreeSet<PathBuf>,
    /// The absolute path of each file or folder of `--apply`, and how the user typed it.
    applied: BTreeMap<PathBuf, PathBuf>,
}

/// The changes that count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Source code changed.
    pub(crate) code: bool,
    /// Arguments of `--apply` that changed, as the user typed them.
    pub(crate) applied: Vec<PathBuf>,
}

// === impl Sources ===

impl Sources {
    /// Adds files of `--apply`; those that do not exist are reported by the operator.
    pub(crate) fn add_applied(&mut self, paths: &[PathBuf]) {
        for path in paths {
            if let Ok(real) = path.canonicalize() {
                self.applied.insert(real, path.clone());
            }
        }
    }

    /// Adds folders of crates and single files.
    pub(crate) fn add_code<'a>(&mut self, paths: impl IntoIterator<Item = &'a Path>) {
        let real = paths.into_iter().filter_map(|path| path.canonicalize().ok());
        // A manifest stands for its crate.
        let real = real.map(|path| if path.ends_with("Cargo.toml") { above(&path) } else { path });
        self.code.extend(real);
    }

    /// Returns all folders whose entries have to be watched.
    pub(crate) fn folders(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        for root in self.code.iter().chain(self.applied.keys()) {
            if root.is_dir() {
                add_folders(root, &mut found);
            } else {
                found.insert(above(root));
            }
        }
        found
    }

    /// Returns what changed, if these paths did.
    pub(crate) fn changes(&self, paths: &BTreeSet<PathBuf>) -> Changes {
        let changed = |root: &Path| paths.iter().any(|path| counts(root, path));
        Changes {
            code: self.code.iter().any(|root| changed(root)),
            applied: self.applied.iter().filter(|(root, _)| changed(root)).map(|it| it.1.clone()).collect(),
        }
    }
}

fn above(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("/")).to_owned()
}

/// Adds a folder and those in it, except hidden ones and cargo's target folders. Does not follow links.
fn add_folders(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    found.insert(folder.to_owned());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|it| it.is_dir());
        if is_folder && !is_ignored(&entry.file_name().to_string_lossy()) && !is_cache(&path) {
            add_folders(&path, found);
        }
    }
}

/// Returns whether the folder has the mark by which cargo and others tell back-up programs that its content can be computed again.
fn is_cache(folder: &Path) -> bool {
    folder.join("CACHEDIR.TAG").is_file()
}

/// Returns whether a change of `path` is a change of the file or folder `root`.
fn counts(root: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(root) else {
        return false;
    };
    let mut parts = below.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    // A change of the folder itself says nothing about its files. Its name may be that of a single file.
    let is_root = below.as_os_str().is_empty();
    if is_root { !path.is_dir() } else { !parts.any(|name| is_ignored(&name)) }
}

/// Returns whether a file or a folder of this name is no source: hidden, an artifact, or a temporary file of an editor.
fn is_ignored(name: &str) -> bool {
    // Vim tries with this name whether it can create files.
    let is_probe = name == "4913";
    let is_temporary = [".swp", ".swx", ".tmp", "~", "___jb_tmp___", "___jb_old___"];
    is_probe
        || ["target", "node_modules"].contains(&name)
        || name.starts_with(['.', '#'])
        || is_temporary.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_count_and_artifacts_do_not() {
        let root = Path::new("/absent/target/op");
        for name in ["src/lib.rs", "Cargo.toml", "build.rs", "crd.yaml", "src/a/b.rs"] {
            assert!(counts(root, &root.join(name)), "{name}");
        }
        let ignored = [
            "target/debug/op",
            ".git/index",
            "src/.lib.rs.swp",
            "src/lib.rs~",
            "src/4913",
            "src/#lib.rs#",
            "src/.#lib.rs",
            "src/lib.rs___jb_tmp___",
            "node_modules/x.js",
        ];
        for name in ignored {
            assert!(!counts(root, &root.join(name)), "{name}");
        }
        assert!(!counts(root, Path::new("/absent/other/lib.rs")));
        let file = Path::new("/absent/op.rs");
        assert!(counts(file, file));
        assert!(!counts(file, Path::new("/absent/other.rs")));
    }

    #[test]
    fn folders_with_artifacts_are_not_watched() {
        let root = std::env::temp_dir().join(format!("kopf-rs-sources-{}", std::process::id()));
        for folder in ["op/src/deep", "op/target/debug", "op/.git", "op/out", "apply"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let root = root.canonicalize().unwrap();
        fs::write(root.join("op/out/CACHEDIR.TAG"), "").unwrap();
        fs::write(root.join("op/Cargo.toml"), "").unwrap();
        fs::write(root.join("single.rs"), "").unwrap();
        let mut sources = Sources::default();
        sources.add_code([&*root.join("op/Cargo.toml"), &*root.join("single.rs"), &*root.join("absent")]);
        sources.add_applied(&[root.join("apply")]);
        let folders = sources.folders();
        let found: Vec<_> = folders.iter().filter_map(|it| it.strip_prefix(&root).ok()?.to_str()).collect();
        assert_eq!(found, ["", "apply", "op", "op/src", "op/src/deep"]);
        let changed = |path: &str| sources.changes(&BTreeSet::from([root.join(path)]));
        assert_eq!(changed("op/src/lib.rs"), Changes { code: true, applied: Vec::new() });
        assert_eq!(changed("apply/a.yaml"), Changes { code: false, applied: vec![root.join("apply")] });
        assert_eq!(changed("other.rs"), Changes::default());
        fs::remove_dir_all(&root).unwrap();
    }
}
