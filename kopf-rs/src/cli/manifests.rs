//! `--apply`: reads files, folders and pipes into objects, in the order in which they must be applied.
//!
//! Every error names the file, the document and the line. This module sends no requests.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use serde_saphyr::{MessageFormatter as _, UserMessageFormatter};

use crate::cli::yaml;

/// One object of a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) place: Place,
    pub(crate) object: Value,
}

/// The location of an object. Displays as `objects.yaml, document 2, line 7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    file: PathBuf,
    document: usize,
    line: usize,
}

/// Why an object cannot be applied, found before anything is sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("--apply {}: no such file or folder", .0.display())]
    Absent(PathBuf),
    #[error("--apply {}: the folder has no .yaml, .yml or .json file", .0.display())]
    Empty(PathBuf),
    #[error("--apply {}: there is no object in it; did the command that writes it fail?", .0.display())]
    NoObjects(PathBuf),
    #[error("--apply {}: {error}", .path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{place}: {problem}")]
    Bad { place: Place, problem: String },
    #[error("{place}: {what} is refused: {problem}")]
    Refused { place: Place, what: String, problem: String },
}

/// A part of a file between `---` lines.
struct Document<'a> {
    number: usize,
    /// The line number in the file (from 1) of its first line.
    line: usize,
    text: Vec<&'a str>,
}

/// As in kubectl.
const STANDARD_INPUT: &str = "-";

/// Reads all objects at `paths`: CRDs before their objects, namespaces before their contents, otherwise in the given
/// order.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    for path in paths {
        let found = read_one(path)?;
        // As in kubectl: an empty input is an error, since it often comes from a generator that failed.
        if found.is_empty() {
            return Err(ManifestError::NoObjects(path.clone()));
        }
        manifests.extend(found);
    }
    manifests.sort_by_key(|manifest| rank(&manifest.object));
    Ok(manifests)
}

fn read_one(path: &Path) -> Result<Vec<Manifest>, ManifestError> {
    if path.as_os_str() == STANDARD_INPUT {
        let text = io::read_to_string(io::stdin()).map_err(|error| unreadable(path, error))?;
        return parse(Path::new("standard input"), &text);
    }
    let mut manifests = Vec::new();
    for file in files(path)? {
        let text = fs::read_to_string(&file).map_err(|error| unreadable(&file, error))?;
        manifests.extend(parse(&file, &text)?);
    }
    Ok(manifests)
}

fn rank(object: &Value) -> u8 {
    match object["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        _ => OBJECT,
    }
}

/// The rank of objects that no others depend on.
const OBJECT: u8 = 2;

fn files(path: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    if !path.exists() {
        return Err(ManifestError::Absent(path.to_owned()));
    }
    // Includes anything that is not a folder, since `<(kustomize build)` in a shell is a pipe.
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(|error| unreadable(path, error))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| unreadable(path, error))?.path();
        let ending = file.extension().and_then(|ending| ending.to_str());
        if file.is_file() && matches!(ending, Some("yaml" | "yml" | "json")) {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(ManifestError::Empty(path.to_owned()));
    }
    files.sort();
    Ok(files)
}

fn unreadable(path: &Path, error: io::Error) -> ManifestError {
    ManifestError::Unreadable { path: path.to_owned(), error }
}

fn parse(file: &Path, text: &str) -> Result<Vec<Manifest>, ManifestError> {
    let parsed = match file.extension().and_then(|ending| ending.to_str()) {
        Some("json") => parse_json(file, text)?,
        Some("yaml" | "yml") => parse_yaml(file, text)?,
        // A pipe has no file extension, and a sequence of JSON objects is not valid YAML.
        _ => match parse_json(file, text) {
            Ok(parsed) => parsed,
            Err(_) => parse_yaml(file, text)?,
        },
    };
    let mut manifests = Vec::new();
    for manifest in parsed {
        manifests.extend(checked(manifest)?);
    }
    Ok(manifests)
}

fn parse_yaml(file: &Path, text: &str) -> Result<Vec<Manifest>, ManifestError> {
    let documents = documents(text).into_iter();
    let parsed = documents.map(|document| {
        let parsed = yaml::parse(&document.text.join("\n"));
        let line = document.line + document.first_content();
        let place = Place::new(file, document.number, line);
        let object = parsed.map_err(|error| {
            let line = error.location().map_or(0, |location| location.line());
            let line = usize::try_from(line).unwrap_or(0).max(1);
            bad(
                Place::new(file, document.number, document.line + line - 1),
                UserMessageFormatter.format_message(error.without_snippet()),
            )
        })?;
        let object = object.into_iter().next().unwrap_or_default();
        Ok(Manifest { place, object })
    });
    parsed.collect()
}

fn parse_json(file: &Path, text: &str) -> Result<Vec<Manifest>, ManifestError> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut manifests = Vec::new();
    loop {
        let rest = &text[values.byte_offset()..];
        let before = text.len() - rest.trim_start().len();
        let line = text[..before].lines().count().max(1);
        let place = |line| Place::new(file, manifests.len() + 1, line);
        match values.next() {
            None => return Ok(manifests),
            Some(Ok(object)) => manifests.push(Manifest { place: place(line), object }),
            Some(Err(error)) => {
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or(&message);
                return Err(bad(place(error.line()), message));
            }
        }
    }
}

fn documents(text: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let mut open = Document::at(1, 1);
    for (at, line) in text.lines().enumerate() {
        let rest = line.strip_prefix("---").or_else(|| line.strip_prefix("..."));
        let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if let Some(rest) = rest {
            let number = open.number + usize::from(open.has_content());
            let mut next = Document::at(number, at + 1);
            next.text.push(rest);
            documents.push(std::mem::replace(&mut open, next));
        } else {
            open.text.push(line);
        }
    }
    documents.push(open);
    documents.retain(Document::has_content);
    documents
}

/// Returns the objects of a document: the document itself, or the items of a list. Each must have its `apiVersion`
/// and `kind`.
fn checked(manifest: Manifest) -> Result<Vec<Manifest>, ManifestError> {
    let Manifest { place, mut object } = manifest;
    let is_list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    if let (true, Some(Value::Array(items))) = (is_list, object.get_mut("items")) {
        let items = std::mem::take(items).into_iter().map(|object| Manifest { place: place.clone(), object });
        return items.map(checked).collect::<Result<Vec<_>, _>>().map(|lists| lists.concat());
    }
    if !object.is_object() {
        return Err(bad(place, "expected an object with apiVersion, kind and metadata"));
    }
    let lacks = |field: &str| {
        let said = object.pointer(field).and_then(Value::as_str);
        said.is_none_or(str::is_empty)
    };
    let missing = if lacks("/apiVersion") {
        Some("apiVersion")
    } else if lacks("/kind") {
        Some("kind")
    } else if lacks("/metadata/name") && lacks("/metadata/generateName") {
        Some("metadata.name")
    } else {
        None
    };
    if let Some(field) = missing {
        return Err(bad(place, format!("the object has no {field}")));
    }
    Ok(vec![Manifest { place, object }])
}

fn bad(place: Place, problem: impl Into<String>) -> ManifestError {
    ManifestError::Bad { place, problem: problem.into() }
}

// === impl ManifestError ===

impl ManifestError {
    /// Returns whether the files are invalid, as opposed to a rejection by the cluster.
    pub(crate) fn is_wrong_usage(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }
}

// === impl Manifest ===

impl Manifest {
    pub(crate) fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// Returns whether other objects depend on it, as on a CRD or a namespace.
    pub(crate) fn defines_others(&self) -> bool {
        rank(&self.object) < OBJECT
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.object["metadata"]["namespace"].as_str()
    }

    /// Creates the error for an object that the cluster rejects.
    pub(crate) fn refused(&self, error: &dyn std::error::Error) -> ManifestError {
        ManifestError::Refused {
            place: self.place.clone(),
            what: self.to_string(),
            problem: error.to_string(),
        }
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |field: &str| self.object.pointer(field).and_then(Value::as_str);
        write!(f, "{} ", self.kind())?;
        if let Some(namespace) = text("/metadata/namespace") {
            write!(f, "{namespace}/")?;
        }
        match (text("/metadata/name"), text("/metadata/generateName")) {
            (Some(name), _) => f.write_str(name),
            (None, beginning) => write!(f, "{}*", beginning.unwrap_or_default()),
        }
    }
}

// === impl Place ===

impl Place {
    fn new(file: &Path, document: usize, line: usize) -> Self {
        Self { file: file.to_owned(), document, line }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, document, line } = self;
        write!(f, "{}, document {document}, line {line}", file.display())
    }
}

// === impl Document ===

impl Document<'_> {
    fn at(number: usize, line: usize) -> Self {
        Self { number, line, text: Vec::new() }
    }

    /// Returns the number of lines before the first one that is neither empty nor a comment.
    fn first_content(&self) -> usize {
        let mut lines = self.text.iter().map(|line| line.trim());
        lines.position(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or(self.text.len())
    }

    fn has_content(&self) -> bool {
        self.first_content() < self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: &str = "apiVersion: v1\nkind: App\nmetadata:\n  name: a\n";

    fn error(file: &str, text: &str) -> String {
        parse(Path::new(file), text).unwrap_err().to_string()
    }

    #[test]
    fn documents_are_numbered_as_one_would_count() {
        let text = format!("# licence\n---\n{APP}---\n\n# none\n--- # second\n{APP}");
        let manifests = parse(Path::new("o.yaml"), &text).unwrap();
        let places: Vec<_> = manifests.iter().map(|m| m.place.to_string()).collect();
        assert_eq!(places, ["o.yaml, document 1, line 3", "o.yaml, document 2, line 11"]);
    }

    #[test]
    fn mistakes_are_named_by_document_and_line() {
        let text = format!("{APP}---\napiVersion: v1\nkind: [\n");
        assert!(error("o.yaml", &text).starts_with("o.yaml, document 2, line "));
        let text = format!("{APP}---\nkind: A\nkind: B\n");
        let message = error("o.yaml", &text);
        assert!(message.starts_with("o.yaml, document 2, line 7: "), "{message}");
        assert_eq!(
            error("o.yaml", &format!("{APP}---\n- a\n")),
            "o.yaml, document 2, line 6: expected an object with apiVersion, kind and metadata"
        );
        assert_eq!(
            error("o.yaml", "apiVersion: v1\nkind: App\n"),
            "o.yaml, document 1, line 1: the object has no metadata.name"
        );
    }

    #[test]
    fn json_may_hold_several_and_lists() {
        let app = r#"{"apiVersion":"v1","kind":"App","metadata":{"name":"a"}}"#;
        let text = format!("{app}\n{{\"kind\":\"List\",\"items\":[{app},{app}]}}\n");
        assert_eq!(parse(Path::new("o.json"), &text).unwrap().len(), 3);
        let message = error("o.json", &format!("{app}\n{{\n\"kind\" 1}}"));
        assert_eq!(message, "o.json, document 2, line 3: expected `:`");
    }

    #[test]
    fn input_without_an_extension_is_json_or_yaml() {
        let app = r#"{"apiVersion":"v1","kind":"App","metadata":{"name":"a"}}"#;
        let count = |text: &str| parse(Path::new("63"), text).unwrap().len();
        assert_eq!(count(&format!("{app}{app}")), 2);
        assert_eq!(count(&format!("{APP}---\n{app}")), 2);
        let message = error("63", &format!("{APP}---\n- a\n"));
        assert!(message.starts_with("63, document 2, line 6: "), "{message}");
    }

    #[test]
    fn kinds_come_before_their_objects() {
        let manifest = |kind: &str| Manifest {
            place: Place::new(Path::new("o"), 1, 1),
            object: serde_json::json!({ "kind": kind }),
        };
        let mut all = [manifest("App"), manifest("Namespace"), manifest("CustomResourceDefinition")];
        all.sort_by_key(|manifest| rank(&manifest.object));
        assert_eq!(all[0].object["kind"], "CustomResourceDefinition");
        assert_eq!(all[2].object["kind"], "App");
    }
}
