//! Records the tests that could not run here, with the reason.
//!
//! A missing toolchain is not a failure on a developer's machine: the test passes and writes a line to the file that `KOPF_RS_SKIP_FILE`
//! names, which `./test` prints at the end. With `CI=true` a missing toolchain panics. `./test --fast` leaves out the tests in
//! `tests/slow.txt`; a slow test that is not in that file fails.

use std::io::Write as _;

/// A component that this machine lacks.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what} is not installed ({detail})")]
pub struct Missing {
    /// The component, by the name that a user would install.
    pub what: String,
    /// The failed attempt to use it, with the error.
    pub detail: String,
}

/// Records that `test` did not run because `missing` is absent.
///
/// # Panics
///
/// Panics with `CI=true`, where every component must be present.
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

/// Asserts that slow work may start.
///
/// # Panics
///
/// Panics with `KOPF_RS_FAST=1`, because `tests/slow.txt` should have excluded the test.
pub(crate) fn slow(what: &str) {
    assert!(
        std::env::var_os("KOPF_RS_FAST").is_none(),
        "{what} is too slow for `./test --fast`: tests/slow.txt must name this test"
    );
}

/// Returns whether `CI=true` forbids skipped tests.
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

/// Writes to standard error past the test runner's capture, for progress that a person waits for and for summary lines.
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
