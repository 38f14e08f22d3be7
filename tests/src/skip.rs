//! What could not be tested here, and why.
//!
//! A missing toolchain is no failure on a developer's machine: the test passes, and a line in the file named by
//! `KOPF_RS_SKIP_FILE` tells `./test` what to print last. With `CI=true` nothing is skipped: the same gap panics. `./test --fast` leaves
//! out the tests that `tests/slow.txt` names, and one that it should name fails.

use std::io::Write as _;

/// A component that this machine lacks.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what} is not installed ({detail})")]
pub struct Missing {
    /// The component, as a user would install it.
    pub what: String,
    /// What was tried, and how it failed.
    pub detail: String,
}

/// Records that `test` did not run for want of `missing`.
///
/// # Panics
///
/// With `CI=true`, where every component must be present.
pub fn skipped(test: &str, missing: &Missing) {
    assert!(
        !in_ci(),
        "{test}: {missing}, and nothing is skipped with CI=true"
    );
    record(
        std::env::var_os("KOPF_RS_SKIP_FILE").as_deref(),
        test,
        missing,
    );
}

/// With `KOPF_RS_FAST=1` nothing slow is begun.
///
/// # Panics
///
/// Then: the test should have been left out.
pub(crate) fn slow(what: &str) {
    assert!(
        std::env::var_os("KOPF_RS_FAST").is_none(),
        "{what} is too slow for `./test --fast`: tests/slow.txt must name this test"
    );
}

/// Whether nothing may be skipped, `CI=true`.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

fn record(file: Option<&std::ffi::OsStr>, test: &str, missing: &Missing) {
    let line = format!("{test}: {missing}\n");
    let written = file.map(|path| {
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)?
            .write_all(line.as_bytes())
    });
    if !matches!(written, Some(Ok(()))) {
        say(&format!("skipped {line}"));
    }
}

/// Writes to standard error past the test runner's capture: for what a person waits on, and for closing lines.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::{Missing, record};

    #[test]
    fn a_skip_is_a_line_with_its_reason() {
        let file = std::env::temp_dir().join(format!("kopf-rs-skip-{}", std::process::id()));
        let missing = Missing {
            what: "Go".into(),
            detail: "no `go` on PATH".into(),
        };
        record(Some(file.as_os_str()), "update::real", &missing);
        record(Some(file.as_os_str()), "create::real", &missing);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(
            text,
            "update::real: Go is not installed (no `go` on PATH)\ncreate::real: Go is not installed (no `go` on PATH)\n"
        );
    }
}
