//! Handles standard output and standard error that accept no data any more: a full disk, or a pipe without a reader.
//!
//! In this case `println!` panics, in every call of a handler that prints. This module does not know which code
//! prints.

#[cfg(feature = "cli")]
use std::sync::atomic::{AtomicBool, Ordering};

/// True if the operator owns the streams of the process.
#[cfg(feature = "cli")]
static OWN: AtomicBool = AtomicBool::new(false);

/// Declares that the operator owns the streams of the process.
#[cfg(feature = "cli")]
pub(crate) fn own_streams() {
    OWN.store(true, Ordering::Relaxed);
}

/// The prefix of the panic message of `println!` and similar macros. The stream and the reason follow.
const FAILED: &str = "failed printing to ";

/// If a panic with this text stems from printing, discards all further output of the stream, and returns a text that explains it.
///
/// Only in programs of the command line: an embedding program owns its streams.
pub(crate) fn drop_if_lost(panic: &str) -> Option<String> {
    let (stream, _) = panic.strip_prefix(FAILED)?.split_once(": ")?;
    discard(stream).then(|| format!("{panic}; what is printed there is dropped from now on"))
}

/// Redirects the stream to the null device.
#[cfg(all(unix, feature = "cli"))]
fn discard(stream: &str) -> bool {
    if !OWN.load(Ordering::Relaxed) {
        return false;
    }
    let Ok(nowhere) = std::fs::File::options().write(true).open("/dev/null") else {
        return false;
    };
    let led_there = match stream {
        "stdout" => rustix::stdio::dup2_stdout(&nowhere),
        "stderr" => rustix::stdio::dup2_stderr(&nowhere),
        _ => return false,
    };
    led_there.is_ok()
}

#[cfg(not(all(unix, feature = "cli")))]
fn discard(_stream: &str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_panics_are_nothing_to_it() {
        for text in ["no", "failed printing to", "failed printing to paper: torn"] {
            assert_eq!(drop_if_lost(text), None);
        }
    }
}
