//! Single `.rs` files: extracts their manifest, and prepares the file for cargo.
//!
//! Two forms are supported: a `` //! ```cargo `` doc comment (plain Rust) and `---` frontmatter. The latter is the
//! syntax of cargo's own scripts, which the stable compiler does not accept yet, so these lines are blanked in a
//! copy, which preserves the line numbers.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::workspace::absolute_paths;

/// A file that can be made a package.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// The absolute path of the file.
    pub(crate) file: PathBuf,
    /// The text to compile instead, if the compiler would not accept the file unchanged.
    pub(crate) copy: Option<String>,
    /// Its manifest with absolute paths; empty if it has none.
    pub(crate) manifest: Table,
}

/// Why a file cannot be made a package. The text begins with the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ScriptError(String);

/// The text of the manifest, and its location.
#[derive(Debug, PartialEq)]
struct Block {
    text: String,
    /// The line number in the file (from 1) of the first line of `text`.
    line: usize,
    /// The lines (from 0) to blank, including the fences.
    blank: Option<std::ops::RangeInclusive<usize>>,
}

/// A manifest without an end: the number of its first line (from 1), and the missing line.
type Unended = (usize, String);

// === impl Script ===

impl Script {
    /// Reads `file`; errors name it as the user typed it, `shown`.
    pub(crate) fn read(file: &Path, shown: &Path) -> Result<Self, ScriptError> {
        let refused = |problem: String| ScriptError(format!("{}{problem}", shown.display()));
        let text =
            std::fs::read_to_string(file).map_err(|error| refused(format!(" cannot be read: {error}")))?;
        let block = find(&text).map_err(|(line, fence)| {
            refused(format!(":{line}: the manifest that begins here has no end: expected a line `{fence}`"))
        })?;
        let Some(block) = block else {
            return Ok(Self::new(file, None, Table::new()));
        };
        let manifest: Table = toml::from_str(&block.text).map_err(|error| {
            let line = block.line + line_of(&block.text, error.span().map_or(0, |span| span.start));
            let message = error.message();
            refused(format!(
                ":{line}: the manifest is not valid TOML: {message}\n  \
                 expected what Cargo.toml has, such as\n    [dependencies]\n    serde = \"1\""
            ))
        })?;
        let base = file.parent().unwrap_or(Path::new("/"));
        let copy = block.blank.map(|lines| blanked(&text, &lines));
        let script = Self::new(file, copy, absolute_paths(manifest, base));
        // The name becomes a part of paths.
        let name = script.name();
        let is_of_a_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
        if name.is_empty() || !name.chars().all(is_of_a_name) {
            return Err(refused(format!(
                ": `{name}` is no name of a package (`package.name` in the manifest of the file)\n  \
                 expected letters, digits, `-` and `_`, such as `my-operator`"
            )));
        }
        Ok(script)
    }

    fn new(file: &Path, copy: Option<String>, manifest: Table) -> Self {
        Self { file: file.to_owned(), copy, manifest }
    }

    /// Returns the package's name: from the manifest, or else derived from the file name.
    pub(crate) fn name(&self) -> String {
        let said =
            self.manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
        let stem = self.file.file_stem().unwrap_or_default().to_string_lossy();
        said.map_or_else(|| fit(&stem), str::to_owned)
    }

    /// Returns a table of the manifest; empty if it is missing.
    pub(crate) fn table(&self, key: &str) -> Table {
        match self.manifest.get(key) {
            Some(Value::Table(table)) => table.clone(),
            _ => Table::new(),
        }
    }
}

/// Returns a name that is valid for a cargo package, and in the prefix of Kubernetes annotations.
pub(crate) fn fit(stem: &str) -> String {
    let plain: String = stem
        .to_lowercase()
        .chars()
        .map(|letter| match letter {
            'a'..='z' | '0'..='9' => letter,
            _ => '-',
        })
        .collect();
    let plain = plain.trim_matches('-');
    let taken = [
        "",
        "test",
        "core",
        "std",
        "alloc",
        "serde",
        "serde-json",
        "kube",
        "tokio",
        "tracing",
        "main",
        "lib",
    ];
    if taken.contains(&plain) || plain.starts_with("kopf-rs") {
        format!("{plain}-operator").trim_start_matches('-').to_owned()
    } else if plain.starts_with(|first: char| first.is_ascii_digit()) {
        format!("op-{plain}")
    } else {
        plain.to_owned()
    }
}

fn find(text: &str) -> Result<Option<Block>, Unended> {
    let lines: Vec<&str> = text.lines().collect();
    let shebang = lines.first().is_some_and(|line| line.starts_with("#!") && !line.starts_with("#!["));
    let first = lines.iter().enumerate().skip(usize::from(shebang)).find(|(_, line)| !line.trim().is_empty());
    match first {
        Some((start, line)) if line.starts_with("---") => frontmatter(&lines, start).map(Some),
        _ => comment(&lines),
    }
}

fn frontmatter(lines: &[&str], start: usize) -> Result<Block, Unended> {
    let dashes = lines[start].len() - lines[start].trim_start_matches('-').len();
    let fence = "-".repeat(dashes);
    let length =
        lines[start + 1..].iter().position(|line| line.trim_end() == fence).ok_or((start + 1, fence))?;
    Ok(Block {
        text: lines[start + 1..=start + length].join("\n"),
        line: start + 2,
        blank: Some(start..=start + 1 + length),
    })
}

fn comment(lines: &[&str]) -> Result<Option<Block>, Unended> {
    let inner = |line: &'_ str| line.trim_start().starts_with("//!");
    let content = |line: &str| {
        let text = line.trim_start().trim_start_matches("//!");
        text.strip_prefix(' ').unwrap_or(text).to_owned()
    };
    let opens = |line: &&str| inner(line) && content(line).trim_end() == "```cargo";
    let Some(start) = lines.iter().position(opens) else {
        return Ok(None);
    };
    let body: Vec<String> = lines[start + 1..]
        .iter()
        .take_while(|line| inner(line))
        .map(|line| content(line))
        .take_while(|line| line.trim_end() != "```")
        .collect();
    let end = lines.get(start + 1 + body.len());
    if !end.is_some_and(|line| inner(line) && content(line).trim_end() == "```") {
        return Err((start + 1, "//! ```".to_owned()));
    }
    Ok(Some(Block { text: body.join("\n"), line: start + 2, blank: None }))
}

/// Returns the number of lines before the byte `at`.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

fn blanked(text: &str, lines: &std::ops::RangeInclusive<usize>) -> String {
    let kept = text.split('\n').enumerate();
    let kept: Vec<&str> = kept.map(|(at, line)| if lines.contains(&at) { "" } else { line }).collect();
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doc_comment_holds_the_manifest() {
        let text = "#!/usr/bin/env x\n//! My operator.\n//!\n//! ```cargo\n//! [dependencies]\n//! a = \"1\"\n//! ```\nuse a;\n";
        let block = find(text).unwrap().unwrap();
        assert_eq!(block.text, "[dependencies]\na = \"1\"");
        assert_eq!((block.line, block.blank), (5, None));
    }

    #[test]
    fn frontmatter_is_blanked_and_lines_stay() {
        let text = "#!/usr/bin/env x\n---cargo\n[dependencies]\n---\nfn f() {}\n";
        let block = find(text).unwrap().unwrap();
        assert_eq!((block.text.as_str(), block.line), ("[dependencies]", 3));
        let copy = blanked(text, &block.blank.unwrap());
        assert_eq!(copy, "#!/usr/bin/env x\n\n\n\nfn f() {}\n");
    }

    #[test]
    fn a_file_may_have_none() {
        assert_eq!(find("").unwrap(), None);
        assert_eq!(find("//! ```\n//! code\n//! ```\n").unwrap(), None);
    }

    #[test]
    fn an_open_manifest_is_named() {
        assert_eq!(find("---\na = 1\n"), Err((1, "---".into())));
        assert_eq!(find("//! ```cargo\n//! a = 1\nfn f() {}\n"), Err((1, "//! ```".into())));
    }

    #[test]
    fn a_name_that_would_lead_elsewhere_is_refused() {
        let name = format!("kopf-rs-named-{}.rs", std::process::id());
        let file = std::env::temp_dir().join(name);
        for (name, is_taken) in [
            ("my-operator", true),
            ("ö_2", true),
            ("../other", false),
            ("a/b", false),
            ("/a", false),
            ("a b", false),
            ("", false),
        ] {
            let text = format!("//! ```cargo\n//! package.name = \"{name}\"\n//! ```\n");
            std::fs::write(&file, text).unwrap();
            let read = Script::read(&file, Path::new("op.rs"));
            let told = read.as_ref().err().map(ToString::to_string);
            assert_eq!(read.is_ok(), is_taken, "{name}: {told:?}");
            let start = format!("op.rs: `{name}` is no name of a package");
            assert!(told.is_none_or(|it| it.starts_with(&start)));
        }
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn names_are_made_fit() {
        for (stem, name) in [
            ("myapp", "myapp"),
            ("My_App", "my-app"),
            ("01-minimal", "op-01-minimal"),
            ("serde", "serde-operator"),
            ("ö", "operator"),
        ] {
            assert_eq!(fit(stem), name);
        }
    }
}
