//! Standard output and standard error that take nothing any more: full, or a pipe that nobody reads.
//!
//! `println!` panics then, in each call of a handler that prints, for ever. Must not know who prints.

#[cfg(feature = "cli")]
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the streams of the process are the operator's.
#[cfg(feature = "cli")]
static OWN: AtomicBool = AtomicBool::new(false);

/// From now on the streams of the process are the operator's.
#[cfg(feature = "cli")]
pub(crate) fn own_streams() {
    OWN.store(true, Ordering::Relaxed);
}

/// What `println!` and its like panic with begins so; the stream and the reason follow.
const FAILED: &str = "failed printing to ";

/// If a panic with this text comes from a print: drop what is printed from now on, and give the text that says so.
///
/// Only in programs of the command line: the streams of a process around the operator are not the operator's.
pub(crate) fn drop_if_lost(panic: &str) -> Option<String> {
    let (stream, _) = panic.strip_prefix(FAILED)?.split_once(": ")?;
    discard(stream).then(|| format!("{panic}; what is printed there is dropped from now on"))
}

/// Let the stream lead nowhere.
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
