//! Corrupted watch streams and listing pages: lines are found at any chunk boundaries, and the lazily parsed text agrees with a full parse.

use std::ops::ControlFlow;

use kopf_rs_fuzz::{Run, Target, attack, texts};
use serde_json::Value;

use super::line::{Line, Lines};
use super::pages::read_page;
use crate::cluster::error::Asked;
use crate::object::essence::Marks;
use crate::object::lazy_json::Outline;
use crate::object::raw::Raw;

const STREAMS: &[&str] = &[
    r#"{"type":"ADDED","object":{"apiVersion":"g/v1","kind":"K","metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"7","managedFields":[{"f":{}}],"annotations":{"op.kopf.rs/last-handled-configuration":"{\"spec\":{\"a\":1}}"},"labels":{}},"spec":{"a":1}}}"#,
    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"8\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n\n",
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"too old\",\"details\":{\"retryAfterSeconds\":3}}}\r\n",
    r#"{"kind":"Status","apiVersion":"v1","code":403,"message":"no"}"#,
    r#"{"kind":"L","metadata":{"resourceVersion":"9","continue":"abc"},"items":[{"metadata":{"name":"a","managedFields":[]}},{}]}"#,
    "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"managedFields\":1,\"name\":\"\\u0041\"}}}\n{\"type\":\"MODIFIED\",\"object\":{\"metadata\":null}}\n",
];

const WORDS: &[&str] = &[
    "\n",
    "\r\n",
    "{\"type\":\"ADDED\",\"object\":",
    "{\"type\":\"ERROR\",\"object\":",
    "\"managedFields\":",
    "\"managedFields\":[]",
    "\"metadata\":{",
    "\"metadata\":null",
    "\"annotations\":{",
    "\"uid\":",
    "\"code\":",
    "\\u0000",
    "\\ud800",
    "\\",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "1e999",
    "-",
    "null",
    "\"items\":[",
    "\"continue\":",
];

fn streams() -> Run {
    Box::new(|input| {
        let size = input.len() % 7 + 1;
        let whole = lines(std::iter::once(input));
        assert_eq!(whole, lines(input.chunks(size)), "in chunks of {size}");
        for line in &whole {
            look_at(line);
        }
        let mut items = Vec::new();
        let page = read_page(input, &mut |item| {
            items.push(Raw::parse_item(item, "g/v1", "K")?);
            Ok(())
        });
        if page.is_ok() {
            items.iter().for_each(compare);
        }
    })
}

fn lines<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    for chunk in chunks {
        let flow = lines.feed(chunk, |line| {
            found.push(line.to_vec());
            ControlFlow::<()>::Continue(())
        });
        assert!(flow.is_continue());
    }
    found.push(lines.unfinished().to_vec());
    found
}

fn look_at(line: &[u8]) {
    for parse in [Raw::parse, Raw::parse_whole] {
        match Line::read(line, parse) {
            Ok(Some(Line::Object(_, raw))) => compare(&raw),
            Ok(Some(Line::Error(status))) => {
                let asked = Asked { verbs: &["watch"], resource: None, namespace: None, subresource: None };
                assert!(!status.into_error(&asked, None).to_string().is_empty());
            }
            Ok(Some(Line::Bookmark { .. } | Line::Unknown(_)) | None) | Err(_) => {}
        }
    }
}

/// Compares the text and its outline with the fully parsed tree, if it parses.
fn compare(raw: &Raw) {
    // No server writes a key twice, and which of two values counts is not promised.
    if raw.text().matches("\"metadata\"").count() > 1 {
        return;
    }
    let outline = Outline::of(raw);
    let Ok(body) = raw.body() else { return };
    let (tree, facts): (&Value, _) = (&body, raw.facts());
    let metadata = &tree["metadata"];
    assert_eq!(metadata["name"].as_str().unwrap_or_default(), facts.name);
    assert_eq!(metadata["uid"].as_str().unwrap_or_default(), facts.uid);
    assert_eq!(metadata["namespace"].as_str(), facts.namespace.as_deref());
    let Some(outline) = outline else { return };
    let marks = Marks::new("op.kopf.rs");
    let key = "op.kopf.rs/last-handled-configuration";
    if outline.has_essence(key, &marks) {
        let text = metadata["annotations"][key].as_str().unwrap_or_default();
        let stored: Result<Value, _> = serde_json::from_str(text);
        assert!(stored.is_ok(), "an essence that is none: {text}");
    }
    assert!(outline.annotations().count() <= raw.text().len());
}

#[test]
fn no_stream_breaks_a_watch() {
    let target =
        Target { name: "watch-line", share: 1, tokens: WORDS, samples: || texts(STREAMS), begin: streams };
    attack(&[target], 3000);
}
