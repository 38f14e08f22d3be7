//! Reads the source files of a library: its kinds, and where modules are declared. Judges by the text, because only the compiler knows for
//! certain.

use std::fs;
use std::path::{Path, PathBuf};

use crate::dev::sources::folders_of;

/// A type with `#[kube(group = "..", version = "..", kind = "..")]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    /// The attributes and the definition of the type of its spec.
    pub(super) code: String,
    /// The name of that type.
    pub(super) spec: String,
    /// The path of its module, such as `crate::order`.
    pub(super) module: String,
    pub(super) file: PathBuf,
    /// The module imports the trait with the definition.
    pub(super) imports_definition: bool,
    /// False for a version that `kopf-rs add conversion` has added.
    pub(super) is_stored: bool,
}

impl FoundKind {
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}/{}", self.group, self.version, self.kind)
    }
}

/// The source files of a library.
pub(super) struct Sources {
    /// The file of the root module.
    pub(super) root: PathBuf,
    files: Vec<(PathBuf, String)>,
}

impl Sources {
    /// Reads the file of the library's root module, and all source files below its folder. A file that cannot be read has no kinds.
    pub(super) fn read(root: &Path) -> Self {
        let folders = root.parent().map(folders_of).unwrap_or_default();
        let entries = folders.into_iter().filter_map(|it| fs::read_dir(it).ok()).flatten().flatten();
        let paths = entries.map(|it| it.path()).filter(|it| it.extension().is_some_and(|it| it == "rs"));
        let read = |path: PathBuf| fs::read_to_string(&path).ok().map(|text| (path, text));
        let mut files: Vec<_> = paths.filter_map(read).collect();
        files.sort();
        Self { root: root.to_owned(), files }
    }

    /// Returns all kinds in all versions.
    pub(super) fn kinds(&self) -> Vec<FoundKind> {
        let all = self.files.iter().flat_map(|(file, text)| kinds_in(text, file, &self.module(file)));
        all.collect()
    }

    /// Returns each kind once.
    pub(super) fn stored_kinds(&self) -> Vec<FoundKind> {
        self.kinds().into_iter().filter(|it| it.is_stored).collect()
    }

    fn module(&self, file: &Path) -> String {
        let below = self.root.parent().and_then(|folder| file.strip_prefix(folder).ok());
        if file == self.root {
            return "crate".to_owned();
        }
        let below = below.unwrap_or(file).with_extension("");
        let parts = below.iter().map(|it| it.to_string_lossy().into_owned()).filter(|it| it != "mod");
        std::iter::once("crate".to_owned()).chain(parts).collect::<Vec<_>>().join("::")
    }
}

fn kinds_in(text: &str, file: &Path, module: &str) -> Vec<FoundKind> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("#[kube(") {
        let Some(end) = text[at..].find(")]") else { continue };
        let attribute = &text[at..at + end];
        let value = |key: &str| {
            let (_, rest) = attribute.split_once(&format!("{key} = \""))?;
            rest.split_once('"').map(|(value, _)| value.to_owned())
        };
        let (Some(group), Some(version), Some(kind)) = (value("group"), value("version"), value("kind"))
        else {
            continue;
        };
        // The item begins after the last empty line, with its documentation.
        let start = text[..at].rfind("\n\n").map_or(0, |it| it + 2);
        let rest = &text[at..];
        let Some(name) = rest.split_once("struct ").map(|(_, rest)| rest) else { continue };
        let spec: String = name.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect();
        let line = name.lines().next().unwrap_or_default().trim_end();
        let end = if line.ends_with(['}', ';']) {
            Some(rest.len() - name.len() + line.len())
        } else {
            rest.find("\n}").map(|it| it + 2)
        };
        let Some(end) = end else { continue };
        found.push(FoundKind {
            is_stored: !text.contains(&format!("#[on_convert(from = super::{kind}, to = {kind})]")),
            imports_definition: text.contains("CustomResourceExt"),
            code: text[start..at + end].to_owned(),
            module: module.to_owned(),
            file: file.to_owned(),
            group,
            version,
            kind,
            spec,
        });
    }
    found
}

/// Returns the line that declares the module.
pub(super) fn declares(text: &str, module: &str) -> Option<usize> {
    let is_it = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let rest = line.strip_prefix("mod ").and_then(|it| it.trim_start().strip_prefix(module));
        rest.is_some_and(|it| it.trim_start().starts_with([';', '{']))
    };
    text.lines().position(is_it).map(|it| it + 1)
}

/// Returns the text with the declaration of the module, after the documentation and the attributes of the file.
pub(super) fn with_module(text: &str, module: &str) -> String {
    let (head, rest) = text.split_at(head_of(text));
    let head = if head.is_empty() || head.ends_with("\n\n") { head.to_owned() } else { format!("{head}\n") };
    // Further declarations follow without an empty line.
    let gap = if rest.starts_with("pub mod ") || rest.starts_with("mod ") { "" } else { "\n" };
    format!("{head}pub mod {module};\n{gap}{rest}")
}

/// Returns the length of the documentation and the attributes of a file, with the comments before them.
fn head_of(text: &str) -> usize {
    let (mut head, mut at) = (0, 0);
    let (mut is_comment, mut is_doc, mut brackets) = (false, false, 0);
    for line in text.split_inclusive('\n') {
        at += line.len();
        let line = line.trim();
        if is_comment || line.starts_with("/*") {
            is_doc = if is_comment { is_doc } else { line.starts_with("/*!") };
            is_comment = !line.contains("*/");
            if !is_doc {
                // It may belong to the item below.
                continue;
            }
        } else if brackets > 0 || line.starts_with("#![") {
            brackets += line.matches('[').count();
            brackets = brackets.saturating_sub(line.matches(']').count());
        } else if line.starts_with("//") && !line.starts_with("//!") {
            // It may belong to the item below.
            continue;
        } else if !line.is_empty() && !line.starts_with("//!") {
            break;
        }
        head = at;
    }
    head
}

/// Returns the folder for the modules that a file declares.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    let is_root = file.file_name().is_some_and(|it| it == "lib.rs" || it == "mod.rs" || it == "main.rs");
    if is_root { file.parent().map(Path::to_owned).unwrap_or_default() } else { file.with_extension("") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_with_their_types() {
        let text = "use a;\n\n/// A demo.\n#[derive(Clone)]\n#[kube(group = \"example.com\", version = \"v1\", kind = \"Demo\", namespaced)]\n\
                    #[kube(status = \"DemoStatus\")]\npub struct DemoSpec {\n    a: String,\n}\n\nstruct Other {\n}\n";
        let found = kinds_in(text, Path::new("src/lib.rs"), "crate");
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&*found.group, &*found.version, &*found.kind), ("example.com", "v1", "Demo"));
        assert_eq!((&*found.spec, found.is_stored), ("DemoSpec", true));
        assert!(
            found.code.starts_with("/// A demo.\n#[derive(Clone)]")
                && found.code.ends_with("    a: String,\n}")
        );
    }

    #[test]
    fn a_type_ends_where_its_line_closes_it() {
        let attribute = "#[kube(group = \"a.b\", version = \"v1\", kind = \"Demo\")]\n";
        for spec in ["struct DemoSpec { a: String }", "pub struct DemoSpec {}", "struct DemoSpec;"] {
            let text = format!("{attribute}{spec}\n\nfn other() {{\n}}\n");
            let found = kinds_in(&text, Path::new("src/lib.rs"), "crate");
            assert_eq!((&*found[0].code, &*found[0].spec), (&*format!("{attribute}{spec}"), "DemoSpec"));
        }
    }

    #[test]
    fn only_source_folders_are_read() {
        let root = std::env::temp_dir().join(format!("kopf-rs-add-sources-{}", std::process::id()));
        for folder in ["target/package", ".git", "a"] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join("b.rs"), "").unwrap();
        }
        fs::write(root.join("lib.rs"), "").unwrap();
        let sources = Sources::read(&root.join("lib.rs"));
        let found: Vec<_> = sources.files.iter().map(|(path, _)| path.strip_prefix(&root).unwrap()).collect();
        assert_eq!(found, [Path::new("a/b.rs"), Path::new("lib.rs")]);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn modules_are_declared_after_the_documentation() {
        for (text, expected) in [
            ("//! Doc.\n\nuse a;\n", "//! Doc.\n\npub mod x;\n\nuse a;\n"),
            ("//! Doc.\nuse a;\n", "//! Doc.\n\npub mod x;\n\nuse a;\n"),
            ("use a;\n", "pub mod x;\n\nuse a;\n"),
            ("//! Doc.\n\npub mod y;\n\nuse a;\n", "//! Doc.\n\npub mod x;\npub mod y;\n\nuse a;\n"),
            ("// SPDX\n\n//! Doc.\nuse a;\n", "// SPDX\n\n//! Doc.\n\npub mod x;\n\nuse a;\n"),
            ("/* SPDX\n */\n//! Doc.\nuse a;\n", "/* SPDX\n */\n//! Doc.\n\npub mod x;\n\nuse a;\n"),
            ("/*! Doc.\n */\nuse a;\n", "/*! Doc.\n */\n\npub mod x;\n\nuse a;\n"),
            ("/** It\n runs. */\nfn a() {}\n", "pub mod x;\n\n/** It\n runs. */\nfn a() {}\n"),
            (
                "#![allow(\n    b\n)] // c\n// A\nuse a;\n",
                "#![allow(\n    b\n)] // c\n\npub mod x;\n\n// A\nuse a;\n",
            ),
        ] {
            assert_eq!(with_module(text, "x"), expected);
        }
        assert_eq!(declares("use a;\npub mod x;\n", "x"), Some(2));
        assert_eq!(declares("mod xy;\n", "x"), None);
        assert_eq!(folder_of(Path::new("src/lib.rs")), Path::new("src"));
        assert_eq!(folder_of(Path::new("src/order.rs")), Path::new("src/order"));
    }
}
