//! Splits the bytes of a watch stream into lines, and parses a line.
//!
//! Lines may be of any length. Lines that are complete within one chunk are read in place; only an unfinished line is copied.

use std::borrow::Cow;
use std::ops::ControlFlow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cluster::error::Status;
use crate::cluster::watch::Parse;
use crate::object::event::EventType;
use crate::object::raw::Raw;

/// A larger buffer is released after use.
const KEPT: usize = 64 * 1024;

/// Splits chunks into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    unfinished: Vec<u8>,
}

/// The content of a line.
#[derive(Debug)]
pub(super) enum Line {
    Object(EventType, Raw),
    Bookmark {
        version: String,
        /// True at the end of a streaming list.
        initial_events_end: bool,
    },
    Error(Status),
    Unknown(String),
}

#[derive(Deserialize)]
struct Generic<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
struct BookmarkMetadata {
    #[serde(rename = "resourceVersion")]
    version: String,
    annotations: Option<BookmarkAnnotations>,
}

#[derive(Deserialize)]
struct BookmarkAnnotations {
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<String>,
}

// === impl Lines ===

impl Lines {
    /// Passes every line that is complete with `chunk` to `each`.
    pub(super) fn feed<B>(
        &mut self,
        mut chunk: &[u8],
        mut each: impl FnMut(&[u8]) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        while let Some(at) = memchr::memchr(b'\n', chunk) {
            let line = &chunk[..at];
            if self.unfinished.is_empty() {
                each(line)?;
            } else {
                self.unfinished.extend_from_slice(line);
                each(&self.unfinished)?;
                self.unfinished.clear();
                self.unfinished.shrink_to(KEPT);
            }
            chunk = &chunk[at + 1..];
        }
        self.unfinished.extend_from_slice(chunk);
        ControlFlow::Continue(())
    }

    /// Returns the incomplete last line.
    pub(super) fn unfinished(&self) -> &[u8] {
        &self.unfinished
    }
}

// === impl Line ===

impl Line {
    /// Parses one line; `None` if it is blank. The error never contains content, which may be secret.
    pub(super) fn read(line: &[u8], parse: Parse) -> Result<Option<Self>, String> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let text = std::str::from_utf8(line).map_err(|error| not_a_line(line, &error))?;
        // The server always uses this member order, so the fast path saves a pass over the object.
        if let Some((kind, object)) = shortcut(text)
            && let Some(event) = event_type(kind)
            && let Ok(raw) = parse(object)
        {
            return Ok(Some(Self::Object(event, raw)));
        }
        Self::generic(text, parse).map(Some).map_err(|error| not_a_line(line, &error))
    }

    fn generic(text: &str, parse: Parse) -> Result<Self, Box<dyn std::error::Error>> {
        let Generic { kind, object } = match serde_json::from_str(text) {
            Ok(generic) => generic,
            Err(error) => {
                return bare_status(text).map(Self::Error).ok_or_else(|| error.into());
            }
        };
        let object = object.get();
        Ok(match kind.as_ref() {
            "BOOKMARK" => {
                let Bookmark { metadata } = serde_json::from_str(object)?;
                let end = metadata.annotations.and_then(|all| all.initial_events_end);
                Self::Bookmark {
                    version: metadata.version,
                    initial_events_end: end.is_some_and(|value| value == "true"),
                }
            }
            "ERROR" => Self::Error(serde_json::from_str(object)?),
            other => match event_type(other) {
                Some(event) => Self::Object(event, parse(object)?),
                None => Self::Unknown(other.to_owned()),
            },
        })
    }
}

/// Parses a bare `Status` that is not wrapped in an event, as proxies and overloaded servers write it into a stream.
fn bare_status(text: &str) -> Option<Status> {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    let Kind { kind } = serde_json::from_str(text).ok()?;
    (kind == "Status").then(|| serde_json::from_str(text).ok())?
}

fn shortcut(text: &str) -> Option<(&str, &str)> {
    let (kind, rest) = text.strip_prefix(r#"{"type":""#)?.split_once('"')?;
    let object = rest.strip_prefix(r#","object":"#)?.strip_suffix('}')?;
    Some((kind, object))
}

fn event_type(text: &str) -> Option<EventType> {
    match text {
        "ADDED" => Some(EventType::Added),
        "MODIFIED" => Some(EventType::Modified),
        "DELETED" => Some(EventType::Deleted),
        _ => None,
    }
}

fn not_a_line(line: &[u8], error: &dyn std::fmt::Display) -> String {
    format!("a line of {} bytes is not a watch event: {error}; listing again", line.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&str]) -> (Vec<String>, String) {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for chunk in chunks {
            let flow = lines.feed(chunk.as_bytes(), |line| {
                found.push(String::from_utf8(line.to_vec()).unwrap());
                ControlFlow::<()>::Continue(())
            });
            assert!(flow.is_continue());
        }
        let rest = String::from_utf8(lines.unfinished().to_vec()).unwrap();
        (found, rest)
    }

    #[test]
    fn lines_are_found_wherever_the_chunks_end() {
        let whole = (vec!["one".to_owned(), String::new(), "two".into()], "th".into());
        assert_eq!(cut(&["one\n\ntwo\nth"]), whole);
        assert_eq!(cut(&["o", "n", "e", "\n", "\n", "two", "\nth"]), whole);
        assert_eq!(cut(&["one\n", "", "\ntw", "o\nt", "h"]), whole);
    }

    #[test]
    fn a_long_line_is_given_whole_and_its_buffer_given_back() {
        let long = "x".repeat(3_000_000);
        let mut lines = Lines::default();
        let mut length = 0;
        for chunk in long.as_bytes().chunks(1000).chain([b"\n".as_slice()]) {
            let _ = lines.feed(chunk, |line| {
                length = line.len();
                ControlFlow::<()>::Continue(())
            });
        }
        assert_eq!(length, 3_000_000);
        assert!(lines.unfinished.capacity() <= KEPT);
    }

    fn read(text: &str) -> Line {
        Line::read(text.as_bytes(), Raw::parse).unwrap().unwrap()
    }

    #[test]
    fn an_object_is_read_in_every_spelling() {
        for text in [
            r#"{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u"}}}"#,
            r#"{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u"}} }"#,
            r#" { "object" : {"metadata":{"name":"a","uid":"u"}}, "type" : "ADDED" } "#,
            r#"{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u"}},"more":1}"#,
            r#"{"type":"\u0041DDED","object":{"metadata":{"name":"a","uid":"u"}}}"#,
        ] {
            let Line::Object(EventType::Added, raw) = read(text) else {
                panic!("{text}");
            };
            assert_eq!(raw.facts().name, "a");
            assert_eq!(raw.text(), r#"{"metadata":{"name":"a","uid":"u"}}"#);
        }
    }

    #[test]
    fn bookmarks_errors_and_novelties_are_distinguished() {
        let plain = read(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#);
        assert!(matches!(plain, Line::Bookmark { version, initial_events_end: false } if version == "7"));
        let end = read(
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        );
        assert!(matches!(end, Line::Bookmark { initial_events_end: true, .. }));
        let error = read(r#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#);
        assert!(matches!(error, Line::Error(status) if status.code() == 410));
        let bare = read(r#"{"kind":"Status","apiVersion":"v1","message":"too old","code":410}"#);
        assert!(matches!(bare, Line::Error(status) if status.code() == 410));
        let novelty = read(r#"{"type":"MOVED","object":{}}"#);
        assert!(matches!(novelty, Line::Unknown(kind) if kind == "MOVED"));
        assert!(Line::read(b" \r", Raw::parse).unwrap().is_none());
    }

    #[test]
    fn an_unreadable_line_is_described_without_its_content() {
        for line in [
            r#"{"type":"ADDED","object":{"data":"hush""#.as_bytes(),
            b"hush",
            b"\xffhush",
            br#"{"type":"ADDED"}"#,
            br#"{"type":"BOOKMARK","object":{"hush":1}}"#,
        ] {
            let words = Line::read(line, Raw::parse).unwrap_err();
            assert!(words.contains("is not a watch event"), "{words}");
            assert!(!words.contains("hush"), "{words}");
        }
    }
}
