//! The pages that only the book has: their code is compiled, and their versions are those of the manifests.
//!
//! The step `book` of `./test` builds the book and checks its links.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::root;

/// Pages whose files and commands `readme.rs` follows.
const FOLLOWED: &[&str] = &["tutorial/own-kind.md"];

/// Returns the chapters, as paths below their folder, with their text.
fn chapters() -> Vec<(PathBuf, String)> {
    let book = root().join("docs/book/src");
    let (mut folders, mut chapters) = (vec![book.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("chapters are text");
            chapters.push((path.strip_prefix(&book).expect("it is below").to_owned(), text));
        }
    }
    chapters
}

/// Returns whether a page has Rust code of its own: an included file is compiled where it lies.
fn has_rust(text: &str) -> bool {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("```rust"));
    lines.nth(1).is_some_and(|line| !line.starts_with("{{#include "))
}

#[test]
fn the_code_of_each_chapter_is_compiled() {
    let doctests = fs::read_to_string(root().join("tests/src/book.rs")).expect("the list is there");
    let is_compiled = |path: &Path| {
        let path = path.display().to_string();
        FOLLOWED.contains(&path.as_str()) || doctests.contains(&format!("docs/book/src/{path}\""))
    };
    let chapters = chapters();
    assert!(chapters.len() > 40, "{} chapters are few", chapters.len());
    let with_code: Vec<_> =
        chapters.iter().filter(|(_, text)| has_rust(text)).map(|(path, _)| path).collect();
    assert!(with_code.len() > 1, "{with_code:?}");
    let left_out: Vec<_> = with_code.into_iter().filter(|path| !is_compiled(path)).collect();
    assert!(left_out.is_empty(), "expected these pages of docs/book/src in tests/src/book.rs: {left_out:?}");
}

#[test]
fn the_supported_versions_are_those_of_the_manifests() {
    let page = fs::read_to_string(root().join("docs/book/src/reference/versions.md")).expect("it is there");
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("it is there");
    let manifest: toml::Table = manifest.parse().expect("it is valid");
    let workspace = &manifest["workspace"];
    let dependency = |name: &str| {
        let dependency = &workspace["dependencies"][name];
        dependency.get("version").unwrap_or(dependency).as_str().expect("a version").to_owned()
    };
    let package = |key: &str| workspace["package"][key].as_str().expect("text").to_owned();
    let own = package("version");
    let own = own.rsplit_once('.').expect("three numbers").0;
    let kopf = fs::read_to_string(root().join("docs/coming-from-kopf.md")).expect("it is there");
    let kopf = kopf.split("[Kopf ").nth(1).and_then(|it| it.split(']').next()).expect("a version");
    for (name, version) in [
        ("kopf-rs", own),
        ("Rust", &format!("{} or newer", package("rust-version"))),
        ("`kube`", &dependency("kube")),
        ("`k8s-openapi`", &dependency("k8s-openapi")),
        ("`schemars`", &dependency("schemars")),
        ("Kopf", kopf),
    ] {
        let row = format!("| {name} | {version} |");
        assert!(page.contains(&row), "expected the row {row} in docs/book/src/reference/versions.md");
    }
    let kubernetes = kopf_rs_tests::kubernetes_version();
    let minor = kubernetes.trim_start_matches('v').rsplit_once('.').expect("three numbers").0;
    assert!(page.contains(&format!("Kubernetes {minor}")), "{minor}");
}

#[test]
fn code_of_a_page_is_told_from_included_code() {
    for (page, expected) in [
        ("Text.\n```rust\nlet a = 1;\n```\n", true),
        ("Text.\n```rust,no_run\nlet a = 1;\n```\n", true),
        ("Text.\n```rust\n{{#include a.rs}}\n```\n", false),
        ("Text.\n```text\nlet a = 1;\n```\n", false),
    ] {
        assert_eq!(has_rust(page), expected, "{page}");
    }
}
