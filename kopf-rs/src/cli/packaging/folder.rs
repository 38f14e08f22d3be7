//! Stores generated files in a folder, and compares them with the files there.
//!
//! Guarantees that no file of the user is changed or removed: only files that bear the mark of generated ones are. This module does not
//! know the contents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::packaging::{File, MARK};

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum FolderError {
    #[error("-o {}: {error}. Expected a folder that you may change, or a name that does not exist yet", .path.display())]
    Unusable { path: PathBuf, error: io::Error },
    #[error(
        "-o {}: these files were not written by `kopf-rs manifests`, and would be overwritten: {files}. Expected an empty folder, or \
         one that this command has written; move or delete them", .folder.display()
    )]
    Foreign { folder: PathBuf, files: String },
}

/// The files of a folder, by path with slashes.
pub(in crate::cli) type Texts = BTreeMap<String, String>;

/// The subfolders that may contain generated files.
const SUBFOLDERS: [&str; 2] = ["", "templates"];

/// Reads all files that may be generated ones. A folder that does not exist has none.
pub(in crate::cli) fn read(folder: &Path) -> Result<Texts, FolderError> {
    let mut texts = Texts::new();
    for below in SUBFOLDERS {
        let path = folder.join(below);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(unusable(&path))?,
        };
        for entry in entries {
            let file = entry.map_err(unusable(&path))?.path();
            let ending = file.extension().and_then(|it| it.to_str()).unwrap_or_default();
            let name = file.file_name().and_then(|it| it.to_str());
            if let (true, Some(name)) = (["yaml", "json"].contains(&ending) && file.is_file(), name) {
                let name = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
                texts.insert(name, fs::read_to_string(&file).map_err(unusable(&file))?);
            }
        }
    }
    Ok(texts)
}

/// Writes the files that differ from those found in the folder, and removes superfluous ones. Returns the numbers of both.
pub(in crate::cli) fn write(
    folder: &Path,
    files: &[File],
    found: &Texts,
) -> Result<(usize, usize), FolderError> {
    let is_foreign = |it: &&File| found.get(&it.path).is_some_and(|text| !is_generated(text));
    let foreign: Vec<_> = files.iter().filter(is_foreign).map(|it| it.path.as_str()).collect();
    if !foreign.is_empty() {
        return Err(FolderError::Foreign { folder: folder.to_owned(), files: foreign.join(", ") });
    }
    let mut written = 0;
    for file in files.iter().filter(|it| found.get(&it.path) != Some(&it.text)) {
        let path = folder.join(&file.path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(unusable(parent))?;
        fs::write(&path, &file.text).map_err(unusable(&path))?;
        written += 1;
    }
    let superfluous = superfluous(files, found);
    for path in &superfluous {
        let path = folder.join(path);
        fs::remove_file(&path).map_err(unusable(&path))?;
    }
    Ok((written, superfluous.len()))
}

/// Returns a line for each file that is missing, differs, or is superfluous.
pub(in crate::cli) fn differences(folder: &Path, files: &[File], found: &Texts) -> Vec<String> {
    let wrong = files.iter().filter_map(|file| match found.get(&file.path) {
        None => Some((file.path.as_str(), "is missing")),
        Some(text) if !is_generated(text) => {
            Some((file.path.as_str(), "lacks the comment that marks generated files: move or delete it"))
        }
        Some(text) => (*text != file.text).then_some((file.path.as_str(), "differs")),
    });
    let superfluous = superfluous(files, found).into_iter().map(|path| (path, "is superfluous"));
    wrong.chain(superfluous).map(|(path, what)| format!("{} {what}", folder.join(path).display())).collect()
}

/// Returns the generated files that are no longer part of the output.
fn superfluous<'a>(files: &[File], found: &'a Texts) -> Vec<&'a str> {
    let current: BTreeSet<&str> = files.iter().map(|it| it.path.as_str()).collect();
    let generated = found.iter().filter(|(_, text)| is_generated(text)).map(|(path, _)| path.as_str());
    generated.filter(|path| !current.contains(path)).collect()
}

/// Returns whether a file is a generated one.
pub(in crate::cli) fn is_generated(text: &str) -> bool {
    text.lines().take(2).any(|line| line.contains(MARK))
}

fn unusable(path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    |error| FolderError::Unusable { path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File::new(path, text)
    }

    #[test]
    fn only_generated_files_are_written_and_removed() {
        let folder = std::env::temp_dir().join(format!("kopf-rs-folder-{}", std::process::id()));
        let files = [file("a.yaml", "a: 1\n"), file("templates/b.yaml", "b: 1\n")];
        let none = read(&folder).unwrap();
        let lines = differences(Path::new("out"), &files, &none);
        assert_eq!(lines, ["out/a.yaml is missing", "out/templates/b.yaml is missing"]);
        assert_eq!(write(&folder, &files, &none).unwrap(), (2, 0));
        fs::write(folder.join("mine.yaml"), "mine: 1\n").unwrap();
        let found = read(&folder).unwrap();
        assert_eq!(differences(Path::new("out"), &files, &found), [""; 0]);
        let changed = [file("a.yaml", "a: 2\n")];
        let lines = differences(Path::new("out"), &changed, &found);
        assert_eq!(lines, ["out/a.yaml differs", "out/templates/b.yaml is superfluous"]);
        assert_eq!(write(&folder, &changed, &found).unwrap(), (1, 1));
        let found = read(&folder).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a.yaml", "mine.yaml"]);
        let foreign = [file("mine.yaml", "mine: 2\n")];
        let lines = differences(Path::new("out"), &foreign, &found);
        assert_eq!(lines[0], "out/mine.yaml lacks the comment that marks generated files: move or delete it");
        let error = write(&folder, &foreign, &found).unwrap_err();
        assert!(error.to_string().contains("mine.yaml"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}
