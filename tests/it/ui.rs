//! Compiler messages: none for code that must compile, and the recorded ones for mistakes in attributes and signatures.
//!
//! Calls rustc directly for each case, with the libraries that are built for the tests anyway, because cargo would build all dependencies
//! again. `KOPF_RS_UI=record cargo test -p kopf-rs-tests ui` records the messages again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use kopf_rs_tests::built_library;

use crate::cli::root;

// The code that must compile is part of this program.
#[path = "../ui/pass/as_wished.rs"]
#[expect(clippy::unused_async, clippy::needless_pass_by_value, reason = "the signatures are what is tried")]
mod as_wished;
#[path = "../ui/pass/everything_at_once.rs"]
#[expect(clippy::unnecessary_wraps, reason = "the signatures are what is tried")]
mod everything_at_once;
#[path = "../ui/pass/forbidden_unsafe.rs"]
mod forbidden_unsafe;
#[path = "../ui/pass/handlers_anywhere.rs"]
#[expect(clippy::needless_pass_by_value, reason = "the signatures are what is tried")]
mod handlers_anywhere;
#[path = "../ui/pass/other_imports.rs"]
#[expect(clippy::unused_async, reason = "the signatures are what is tried")]
mod other_imports;
#[path = "../ui/pass/raised.rs"]
#[expect(clippy::unused_async, reason = "the signatures are what is tried")]
mod raised;
#[path = "../ui/pass/subhandlers.rs"]
#[expect(
    clippy::unused_async,
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "the signatures are what is tried"
)]
mod subhandlers;

const CASES: &str = "tests/ui/fail";

#[test]
fn messages_are_as_recorded() {
    let library = built_library("kopf_rs");
    let cases = files("rs");
    assert!(!cases.is_empty());
    let recorded = files("stderr");
    let with_messages: BTreeSet<_> = recorded.iter().map(|it| it.with_extension("rs")).collect();
    let orphans: Vec<_> = with_messages.difference(&cases).collect();
    assert!(orphans.is_empty(), "messages without a case: {orphans:?}");

    let wrong = Mutex::new(Vec::new());
    let next = Mutex::new(cases.iter());
    let work = || {
        while let Some(case) = { next.lock().unwrap().next() } {
            if let Err(problem) = check(case, &library) {
                wrong.lock().unwrap().push(problem);
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Returns the cases, or their recorded messages, as paths in the repository.
fn files(ending: &str) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(root().join(CASES)).expect("the folder is there");
    let paths = entries.map(|entry| Path::new(CASES).join(entry.expect("it can be read").file_name()));
    paths.filter(|path| path.extension().is_some_and(|it| it == ending)).collect()
}

fn check(case: &Path, library: &Path) -> Result<(), String> {
    let said = compile(case, library);
    let name = case.display();
    if said.is_empty() {
        return Err(format!("{name} compiles"));
    }
    let recorded = root().join(case).with_extension("stderr");
    if std::env::var_os("KOPF_RS_UI").is_some_and(|mode| mode == "record") {
        fs::write(recorded, said).expect("the repository can be written to");
        return Ok(());
    }
    let expected = fs::read_to_string(recorded).unwrap_or_default();
    if said == expected {
        return Ok(());
    }
    Err(format!("== {name}: expected\n{expected}\n== {name}: said\n{said}"))
}

/// Returns the compiler messages for a file, in the recorded form; empty if it compiles.
fn compile(case: &Path, library: &Path) -> String {
    let output = tempfile(case);
    let libraries = library.parent().expect("a library is in a folder");
    let run = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--emit=metadata", "--color=never", "-L"])
        .arg(format!("dependency={}", dependencies(libraries).display()))
        .arg(format!("--extern=kopf_rs={}", library.display()))
        .arg("-o")
        .arg(&output)
        .arg(case)
        // The same folder as for cargo's build of the library, so that both refer to files in the same way.
        .current_dir(root())
        .output()
        .expect("rustc can be started");
    let _ = fs::remove_file(&output);
    if run.status.success() {
        return String::new();
    }
    recordable(&String::from_utf8_lossy(&run.stderr), case)
}

fn tempfile(case: &Path) -> PathBuf {
    let stem = case.file_stem().expect("a file has a name");
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(stem).with_extension("rmeta")
}

/// Returns the folder of the dependencies: cargo copies the workspace's libraries to the folder above it.
fn dependencies(libraries: &Path) -> PathBuf {
    if libraries.ends_with("deps") { libraries.to_owned() } else { libraries.join("deps") }
}

/// Removes the parts of a message that depend on other files: their line numbers and source lines, and the width of the margin.
fn recordable(said: &str, case: &Path) -> String {
    let case = case.to_string_lossy();
    let mut foreign = false;
    let mut lines = Vec::new();
    for line in said.lines() {
        let text = line.trim_start();
        let idle = [
            "error: aborting due to ",
            "For more information",
            "Some errors have",
            "= note: the full name for the type has been written to ",
            "= note: consider using `--verbose` to print the full type name",
        ];
        if idle.iter().any(|words| text.starts_with(words)) {
            continue;
        }
        if let Some(place) = text.strip_prefix("--> ").or(text.strip_prefix("::: ")) {
            foreign = !place.starts_with(&*case);
            let file = place.split(':').next().unwrap_or(place);
            lines.push(format!("   --> {}", if foreign { file } else { place }));
        } else if let Some((number, source)) = source_line(text) {
            let number = if foreign { "" } else { number };
            lines.push(format!("{number:>4} {source}"));
        } else if text.starts_with("= ") {
            lines.push(format!("     {text}"));
        } else if let Some(rest) = counted(text) {
            lines.push(format!("             {rest}"));
        } else {
            lines.push(line.to_owned());
        }
    }
    let text = lines.join("\n");
    format!("{}\n", text.trim_end())
}

/// Splits `12 | let a = 1;`, `| ^^^` or `12 + use x;` into the number and the source.
fn source_line(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &text[..text.len() - rest.len()];
    let source = rest.trim_start();
    let is_source = source.starts_with('|') || (!number.is_empty() && source.starts_with(['+', '-', '~']));
    is_source.then_some((number, source))
}

/// Replaces the number of other types, which changes with every new type.
fn counted(text: &str) -> Option<&'static str> {
    let words = text.strip_prefix("and ")?.strip_suffix(" others")?;
    words.parse::<u32>().is_ok().then_some("and $N others")
}
