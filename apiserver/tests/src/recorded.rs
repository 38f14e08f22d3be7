//! Recorded answers of external programs, kept in the repository, so that tests compare ours with them without the programs.
//!
//! A recording is a gzip file under `tests/recorded/GROUP/` of a workspace; `gzip -dc FILE` shows it. Its first line holds the program with
//! its version and a digest of the requests; the other lines are the answers, normalised for comparison. It stores whole answers instead of
//! digests, so that a difference can be explained without the program. There is one file per script, so that a changed script changes one
//! file. The file `sources.txt` beside them holds a digest of all files that took part in the last complete recording.
//!
//! A recording of other requests or of another version is a failure that names the command to record again. Must not know the recorded
//! programs.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::skip::{in_ci, say};

/// The command that records everything again.
const COMMAND: &str = "./test record";

/// The source of the answers of the external program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The recording.
    Recorded,
    /// Runs the program, whose answers must equal the recording: with `KOPF_RS_ANSWERS=ask`, and with `CI=true` if the sources differ from
    /// those of the recording.
    Asked,
    /// Runs the program and records its answers: with `KOPF_RS_ANSWERS=record`.
    Recording,
}

/// The recordings of a group.
#[derive(Debug, Clone)]
pub struct Recorded {
    folder: PathBuf,
    by: String,
    sources: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    /// The program that answered, with its version.
    by: String,
    /// A digest of the requests.
    asked: String,
}

// === impl Recorded ===

impl Recorded {
    /// Opens the recordings of a group in a workspace, by a program with its version; `sources` are the files and folders of the workspace
    /// that affect the answers of both sides.
    ///
    /// # Panics
    ///
    /// Panics if a file cannot be read.
    #[must_use]
    pub fn of(workspace: &Path, group: &str, by: &str, sources: &[&str]) -> Self {
        let digest = Digest::new().and_files(workspace, sources);
        let digest = digest.unwrap_or_else(|error| panic!("{sources:?}: {error}"));
        Self {
            folder: workspace.join("tests/recorded").join(group),
            by: by.to_owned(),
            sources: digest.and(by).to_string(),
        }
    }

    /// Returns the source of the answers.
    ///
    /// # Panics
    ///
    /// Panics if `KOPF_RS_ANSWERS` has an unknown value.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match std::env::var("KOPF_RS_ANSWERS").as_deref() {
            Ok("record") => Mode::Recording,
            Ok("ask") => Mode::Asked,
            Ok(other) if !other.is_empty() => {
                panic!("KOPF_RS_ANSWERS is `record` or `ask`, not {other}")
            }
            _ if in_ci() && !self.is_current() => {
                let folder = self.folder.display();
                say(&format!(
                    "{folder} was recorded with other sources: asked anew"
                ));
                Mode::Asked
            }
            _ => Mode::Recorded,
        }
    }

    fn is_current(&self) -> bool {
        let found = fs::read_to_string(self.folder.join("sources.txt"));
        found.is_ok_and(|text| text.trim_end() == self.sources)
    }

    /// Returns the answers that are recorded under a name.
    ///
    /// # Errors
    ///
    /// Returns a message with the command to record again if there is no recording, or if it has other requests or another version.
    pub fn read<T: DeserializeOwned>(&self, name: &str, asked: Digest) -> Result<Vec<T>, String> {
        let path = self.path(name);
        let (header, answers) =
            unpacked(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        let expected = self.header(asked);
        let why = match header {
            _ if header.by != expected.by => format!("made by {}, not {}", header.by, expected.by),
            _ if header.asked != expected.asked => "of other requests than there are now".into(),
            _ => return Ok(answers),
        };
        Err(format!(
            "{} is {why}: `{COMMAND}` records anew",
            path.display()
        ))
    }

    /// Records answers under a name, unless an equal recording exists. `same` decides on equality, because answers have parts that depend
    /// on the time.
    ///
    /// # Panics
    ///
    /// Panics if the file cannot be written.
    pub fn write<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        asked: Digest,
        answers: &[T],
        same: impl FnOnce(&[T], &[T]) -> bool,
    ) {
        let is_there = self
            .read(name, asked)
            .is_ok_and(|known: Vec<T>| same(&known, answers));
        if is_there {
            return;
        }
        let path = self.path(name);
        let packed = packed(&self.header(asked), answers);
        let written = fs::create_dir_all(path.parent().unwrap_or(&path))
            .and_then(|()| fs::write(&path, packed));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Completes the recording of a group: deletes the files with other names and stores the digest of the sources.
    ///
    /// # Panics
    ///
    /// Panics if the folder cannot be changed.
    pub fn complete<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let names: BTreeSet<PathBuf> = names.into_iter().map(|name| self.path(name)).collect();
        let entries = fs::read_dir(&self.folder).expect("the folder of recordings is readable");
        let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
        for file in files.filter(|file| file.extension().is_some_and(|end| end == "gz")) {
            if !names.contains(&file) {
                fs::remove_file(&file).expect("a recording can be removed");
            }
        }
        let sources = format!("{}\n", self.sources);
        fs::write(self.folder.join("sources.txt"), sources).expect("the folder can be written");
    }

    fn header(&self, asked: Digest) -> Header {
        Header {
            by: self.by.clone(),
            asked: asked.to_string(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.gz"))
    }
}

fn packed<T: Serialize>(header: &Header, answers: &[T]) -> Vec<u8> {
    fn text(line: &impl Serialize) -> String {
        serde_json::to_string(line).expect("answers are data")
    }
    // Omit the timestamp, so that equal answers give equal files.
    let mut packer = GzBuilder::new().write(Vec::new(), Compression::best());
    for line in std::iter::once(text(header)).chain(answers.iter().map(text)) {
        writeln!(packer, "{line}").expect("memory can be written");
    }
    packer.finish().expect("memory can be written")
}

fn unpacked<T: DeserializeOwned>(path: &Path) -> Result<(Header, Vec<T>), String> {
    let packed = fs::read(path).map_err(|_| format!("nothing is recorded: `{COMMAND}` does it"))?;
    let mut text = String::new();
    let read = GzDecoder::new(packed.as_slice()).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    let (header, answers) = text.split_once('\n').unwrap_or_default();
    let header = serde_json::from_str(header).map_err(|error| error.to_string())?;
    let answers = answers.lines().map(serde_json::from_str);
    let answers: Result<Vec<T>, _> = answers.collect();
    Ok((header, answers.map_err(|error| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, by: &str) -> Recorded {
        let folder = std::env::temp_dir().join(format!("kopf-rs-recorded-{}", std::process::id()));
        Recorded {
            folder: folder.join(name),
            by: by.to_owned(),
            sources: "0".to_owned(),
        }
    }

    #[test]
    fn what_was_recorded_is_read_unless_something_else_was_asked_or_another_program() {
        let (one, newer) = (group("read", "program v1"), group("read", "program v2"));
        let (asked, other) = (Digest::new().and("a"), Digest::new().and("b"));
        let same = |one: &[String], two: &[String]| one == two;
        let told = |recorded: &Recorded, asked| recorded.read::<String>("x", asked).unwrap_err();
        assert!(told(&one, asked).ends_with("nothing is recorded: `./test record` does it"));
        one.write("x", asked, &["\u{2}1".to_owned(), "2".to_owned()], same);
        let answers: Vec<String> = one.read("x", asked).unwrap();
        assert_eq!(answers, ["\u{2}1", "2"]);
        let why = told(&one, other);
        assert!(
            why.ends_with("is of other requests than there are now: `./test record` records anew"),
            "{why}"
        );
        let why = told(&newer, asked);
        assert!(
            why.ends_with("is made by program v1, not program v2: `./test record` records anew"),
            "{why}"
        );
        fs::remove_dir_all(&one.folder).unwrap();
    }

    #[test]
    fn a_recording_that_says_the_same_is_left_alone() {
        let (recorded, asked) = (group("write", "program"), Digest::new());
        recorded.write("x", asked, &[1_u8], |_, _| false);
        recorded.write("x", asked, &[2_u8], |known, now| known == [1] && now == [2]);
        assert_eq!(recorded.read::<u8>("x", asked).unwrap(), [1]);
        recorded.write("x", asked, &[2_u8], |_, _| false);
        assert_eq!(recorded.read::<u8>("x", asked).unwrap(), [2]);
        recorded.write("y", asked, &[3_u8], |_, _| false);
        assert!(!recorded.is_current());
        recorded.complete(["y"]);
        assert!(recorded.is_current() && recorded.read::<u8>("x", asked).is_err());
        fs::remove_dir_all(&recorded.folder).unwrap();
    }
}
