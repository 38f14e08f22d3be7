//! The files that `kopf-rs dev` watches: which folders, and which of their files count.
//!
//! Guarantees that build artifacts, logs, hidden files, temporary files of editors, and what `kopf-rs dev` itself writes never count. This
//! module does not watch anything itself.

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
    /// Files and folders that are no sources, because this program or its API server writes them.
    written: Vec<PathBuf>,
}

// === impl Sources ===

impl Sources {
    /// Returns the sources for arguments of `--apply`; those that do not exist are reported by the operator. `written` never counts.
    pub(crate) fn new<'a>(applied: &[PathBuf], written: impl IntoIterator<Item = &'a Path>) -> Self {
        let applied = applied.iter().filter_map(|path| Some((path.canonicalize().ok()?, path.clone())));
        let written = written.into_iter().filter_map(|path| path.canonicalize().ok());
        Self { code: BTreeSet::new(), applied: applied.collect(), written: written.collect() }
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
        let roots = self.code.iter().chain(self.applied.keys());
        let mut found: BTreeSet<_> = roots.filter(|it| !it.is_dir()).map(|it| above(it)).collect();
        found.extend(self.applied.keys().filter(|it| it.is_dir()).cloned());
        for root in self.code.iter().filter(|it| it.is_dir()) {
            found.extend(folders_of(root).into_iter().filter(|it| !self.is_written(root, it)));
        }
        found
    }

    /// Returns the changed arguments of `--apply`, as the user typed them, if these paths have changed; `None` if none of them counts.
    pub(crate) fn changes(&self, paths: &BTreeSet<PathBuf>) -> Option<Vec<PathBuf>> {
        let counts = |root: &Path, path: &Path| counts(root, path) && !self.is_written(root, path);
        let is_code = self.code.iter().any(|root| paths.iter().any(|path| counts(root, path)));
        let is_applied = |root: &Path| paths.iter().any(|path| counts(root, path) && is_manifest(root, path));
        let applied = self.applied.iter().filter(|(root, _)| is_applied(root));
        let applied: Vec<_> = applied.map(|(_, typed)| typed.clone()).collect();
        (is_code || !applied.is_empty()).then_some(applied)
    }

    /// Returns whether this program writes this path. A written folder that contains `root` does not count: it may hold all sources.
    fn is_written(&self, root: &Path, path: &Path) -> bool {
        self.written.iter().any(|it| path.starts_with(it) && !root.starts_with(it))
    }
}

fn above(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("/")).to_owned()
}

/// Returns a folder and those in it, except hidden ones and cargo's target folders. Does not follow links.
pub(crate) fn folders_of(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut read = 0;
    while let Some(folder) = found.get(read).cloned() {
        read += 1;
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|it| it.is_dir());
            if is_folder && !is_ignored(&entry.file_name().to_string_lossy()) && !is_cache(&path) {
                found.push(path);
            }
        }
    }
    found
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

/// Returns whether an operator reads the file for `--apply` with this argument: the file itself, or a file of the folder.
fn is_manifest(root: &Path, path: &Path) -> bool {
    let ending = path.extension().and_then(|it| it.to_str());
    path == root || path.parent() == Some(root) && matches!(ending, Some("yaml" | "yml" | "json"))
}

/// Returns whether a file or a folder of this name is no source: hidden, an artifact, a log, or a temporary file of an editor.
fn is_ignored(name: &str) -> bool {
    // Vim tries with this name whether it can create files.
    let is_probe = name == "4913";
    let is_temporary = [".log", ".swp", ".swx", ".tmp", "~", "___jb_tmp___", "___jb_old___"];
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
            "dev.log",
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
    fn artifacts_and_what_dev_itself_writes_are_not_watched() {
        let root = std::env::temp_dir().join(format!("kopf-rs-sources-{}", std::process::id()));
        for folder in ["op/src/deep", "op/target/debug", "op/.git", "op/out", "op/data/a", "apply/deep"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let root = root.canonicalize().unwrap();
        fs::write(root.join("op/out/CACHEDIR.TAG"), "").unwrap();
        fs::write(root.join("op/Cargo.toml"), "").unwrap();
        for file in ["single.rs", "op/output.txt"] {
            fs::write(root.join(file), "").unwrap();
        }
        let written = [root.join("op/data"), root.join("op/output.txt"), root.join("absent"), root.clone()];
        let applied = [root.join("apply"), root.join("op")];
        let mut sources = Sources::new(&applied, written.iter().map(PathBuf::as_path));
        sources.add_code([&*root.join("op/Cargo.toml"), &*root.join("single.rs"), &*root.join("absent")]);
        let folders = sources.folders();
        let found: Vec<_> = folders.iter().filter_map(|it| it.strip_prefix(&root).ok()?.to_str()).collect();
        assert_eq!(found, ["", "apply", "op", "op/src", "op/src/deep"]);
        let changed = |path: &str| sources.changes(&BTreeSet::from([root.join(path)]));
        for code in ["op/src/lib.rs", "op/data.rs", "op/src/a.yaml", "single.rs"] {
            assert_eq!(changed(code), Some(Vec::new()), "{code}");
        }
        assert_eq!(changed("apply/a.yaml"), Some(vec![root.join("apply")]));
        assert_eq!(changed("op/a.json"), Some(vec![root.join("op")]));
        let others = ["other.rs", "apply/a.txt", "apply/deep/a.yaml", "op/data/a/b.json", "op/output.txt"];
        for other in others {
            assert_eq!(changed(other), None, "{other}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}
