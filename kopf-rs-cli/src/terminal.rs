//! Standard error: lines, and below them a status line if it is a terminal.
//!
//! Guarantees that lines of this program and of its children do not mix with the status line. All text for people goes through this module,
//! which does not know its meaning.

use std::io::{self, BufRead, BufReader, IsTerminal as _, Read, Write as _};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The status line; `None` if there is none in this process.
static STATUS: Mutex<Option<String>> = Mutex::new(None);

/// Moves to the beginning of the line, and empties it.
const CLEAR: &str = "\r\x1b[2K";

/// Longer lines of a child process are written in parts.
const LONGEST: u64 = 1 << 16;

/// Where a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Error,
}

/// Begins a status line if standard error is a terminal that can show one.
pub(crate) fn begin_status() {
    let is_dumb = std::env::var_os("TERM").is_none_or(|it| it.is_empty() || it == "dumb");
    if io::stderr().is_terminal() && !is_dumb {
        *STATUS.lock().unwrap_or_else(PoisonError::into_inner) = Some(String::new());
    }
}

/// Returns whether there is a status line.
pub(crate) fn has_status() -> bool {
    STATUS.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Replaces the status line, if there is one.
pub(crate) fn show_status(text: &str) {
    let mut status = STATUS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(shown) = status.as_mut() {
        text.clone_into(shown);
        write_error(&line_of(shown));
    }
}

/// Removes the status line.
pub(crate) fn end_status() {
    let mut status = STATUS.lock().unwrap_or_else(PoisonError::into_inner);
    if status.take().is_some() {
        write_error(CLEAR);
    }
}

/// Writes whole lines to standard error.
pub(crate) fn say(text: &str) {
    put(Stream::Error, format!("{}\n", text.strip_suffix('\n').unwrap_or(text)).as_bytes());
}

/// Returns an output for a child: this program's own, unless there is a status line.
pub(crate) fn output_of_child() -> Stdio {
    if has_status() { Stdio::piped() } else { Stdio::inherit() }
}

/// Copies the lines of a child in a thread, and calls `seen` after each line. The returned receiver is disconnected at the end.
pub(crate) fn relay(
    from: impl Read + Send + 'static,
    to: Stream,
    seen: impl Fn() + Send + 'static,
) -> Receiver<()> {
    let (open, end) = channel::<()>();
    thread::spawn(move || {
        let _open = open;
        let mut reader = BufReader::new(from);
        while let Some(line) = next_line(&mut reader) {
            put(to, &line);
            seen();
        }
    });
    end
}

/// Returns the next line with its end, or a part of a very long one, as bytes, because it may not be valid UTF-8; `None` at the end.
fn next_line(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    reader.take(LONGEST).read_until(b'\n', &mut line).ok().filter(|read| *read > 0)?;
    if !line.ends_with(b"\n") {
        line.push(b'\n');
    }
    Some(line)
}

/// Waits until the last lines of a child that has ended are written, but not long: its children may keep the output open.
pub(crate) fn drain(relays: impl IntoIterator<Item = Receiver<()>>) {
    for relay in relays {
        let _ended = relay.recv_timeout(Duration::from_secs(1));
    }
}

/// Writes lines above the status line. Ignores errors, since the text is only informative.
fn put(to: Stream, lines: &[u8]) {
    let status = STATUS.lock().unwrap_or_else(PoisonError::into_inner);
    if status.is_some() {
        write_error(CLEAR);
    }
    let _said = match to {
        Stream::Output => io::stdout().write_all(lines).and_then(|()| io::stdout().flush()),
        Stream::Error => io::stderr().write_all(lines),
    };
    if let Some(status) = status.as_deref() {
        write_error(&line_of(status));
    }
}

fn write_error(text: &str) {
    let _said = io::stderr().write_all(text.as_bytes());
}

fn line_of(status: &str) -> String {
    if status.is_empty() {
        return CLEAR.to_owned();
    }
    format!("{CLEAR}\x1b[7m{}\x1b[0m", fitted(status, width()))
}

/// Returns the number of columns of the terminal.
fn width() -> usize {
    const USUAL: usize = 80;
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stderr())
        && size.ws_col > 0
    {
        return size.ws_col.into();
    }
    USUAL
}

/// Returns the text with a blank on both sides, cut so that it does not wrap: a wrapped line could not be cleared.
fn fitted(text: &str, width: usize) -> String {
    let room = width.saturating_sub(3);
    let plain = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    if text.chars().count() <= room {
        return format!(" {} ", plain.collect::<String>());
    }
    let cut: String = plain.take(room.saturating_sub(1)).collect();
    format!(" {cut}… ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_written_in_parts() {
        let mut endless = BufReader::new(io::repeat(b'a'));
        assert_eq!(next_line(&mut endless).unwrap().len(), 65_537);
        let mut text = &b"a\nb"[..];
        let mut lines = std::iter::from_fn(|| next_line(&mut text));
        assert_eq!((lines.next().unwrap(), lines.next().unwrap()), (b"a\n".to_vec(), b"b\n".to_vec()));
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn a_status_line_never_wraps() {
        assert_eq!(fitted("building", 80), " building ");
        assert_eq!(fitted("a\nb", 80), " a b ");
        for width in 0..20 {
            let shown = fitted("running for 12 seconds", width);
            assert!(shown.chars().count() < width.max(4), "{width}: {shown:?}");
        }
        assert_eq!(fitted("running", 9), " runni… ");
    }
}
