//! Splits an object's text into its members without parsing values. This is enough for some decisions, at a fraction of the cost of a tree.
//!
//! This module guarantees that it never guesses: text that is not written in the server's usual form is not
//! recognised, and the caller parses a tree instead. It must not depend on the decisions.

use crate::object::essence::Marks;
use crate::object::raw::Raw;
use crate::object::skim::{Member, Members, find, members, sign};

/// The members of an object and of its metadata, as text.
pub(crate) struct Outline<'a> {
    stanzas: Members<'a>,
    metadata: Members<'a>,
    annotations: Members<'a>,
}

impl<'a> Outline<'a> {
    /// Returns `None` if the object has no metadata.
    pub(crate) fn of(raw: &'a Raw) -> Option<Self> {
        let levels = members(raw.text(), &["metadata", "annotations"])?;
        let [stanzas, metadata, annotations] = levels.try_into().ok()?;
        find(&stanzas, "metadata")?;
        Some(Self { stanzas, metadata, annotations })
    }

    /// Returns true if the object is marked for deletion.
    pub(crate) fn is_deleting(&self) -> bool {
        find(&self.metadata, "deletionTimestamp").is_some_and(|it| it.value != "null")
    }

    /// Returns true if the object has the finalizer.
    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        let list = find(&self.metadata, "finalizers").map_or("", |it| it.value);
        list.contains(&format!("\"{finalizer}\""))
    }

    /// Returns the keys of the annotations.
    pub(crate) fn annotations(&self) -> impl Iterator<Item = &'a str> {
        self.annotations.iter().map(|it| it.key)
    }

    /// Returns true if the annotation `key` contains the essence of the object without extra fields. Must not be called for Secrets.
    pub(crate) fn has_essence(&self, key: &str, marks: &Marks) -> bool {
        let text = find(&self.annotations, key).map_or("", |it| it.value);
        let text = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        let mut written = Written { rest: text.unwrap_or_default(), first: true };
        self.compare(&mut written, marks).is_some() && written.rest.is_empty()
    }

    fn compare(&self, written: &mut Written<'_>, marks: &Marks) -> Option<()> {
        written.open()?;
        for stanza in &self.stanzas {
            match stanza.key {
                "apiVersion" | "kind" | "status" => {}
                "metadata" => self.compare_metadata(written, marks)?,
                _ => written.member(stanza)?,
            }
        }
        written.close()
    }

    fn compare_metadata(&self, written: &mut Written<'_>, marks: &Marks) -> Option<()> {
        let is_there = |key: &str| find(&self.annotations, key).is_some();
        let counting = self.annotations.iter();
        let mut counting = counting.filter(|it| marks.counts(it.key, is_there)).peekable();
        let labels = find(&self.metadata, "labels").filter(|it| it.value != "{}");
        if counting.peek().is_none() && labels.is_none() {
            return Some(());
        }
        written.key("metadata")?;
        written.open()?;
        if counting.peek().is_some() {
            written.key("annotations")?;
            written.open()?;
            counting.try_for_each(|it| written.member(it))?;
            written.close()?;
        }
        if let Some(labels) = labels {
            written.member(labels)?;
        }
        written.close()
    }
}

/// The rest of a JSON text that is embedded in a JSON string, while it is compared piece by piece.
struct Written<'a> {
    rest: &'a str,
    /// True if the next member is the first one of its object.
    first: bool,
}

/// Characters that Go escapes for the sake of browsers, in strings and in nested strings.
const SPARED: [&str; 5] = ["\\u003c", "\\u003e", "\\u0026", "\\u2028", "\\u2029"];

impl Written<'_> {
    fn plain(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn piece(&mut self, mut text: &str) -> Option<()> {
        while let Some(at) = sign(text.as_bytes()) {
            self.plain(&text[..at])?;
            text = &text[at..];
            let spared = |it: &&&str| text.starts_with(**it) && self.rest.starts_with(**it);
            if let Some(spared) = SPARED.iter().find(spared) {
                self.plain(spared)?;
                text = &text[spared.len()..];
                continue;
            }
            let (sign, rest) = text.split_at_checked(1 + usize::from(text.starts_with('\\')))?;
            for one in sign.chars() {
                if matches!(one, '"' | '\\') {
                    self.plain("\\")?;
                }
                self.plain(one.encode_utf8(&mut [0; 4]))?;
            }
            text = rest;
        }
        self.plain(text)
    }

    fn open(&mut self) -> Option<()> {
        self.first = true;
        self.plain("{")
    }

    fn close(&mut self) -> Option<()> {
        self.first = false;
        self.plain("}")
    }

    fn key(&mut self, key: &str) -> Option<()> {
        if !std::mem::take(&mut self.first) {
            self.plain(",")?;
        }
        self.plain("\\\"")?;
        self.piece(key)?;
        self.plain("\\\":")
    }

    fn member(&mut self, member: &Member<'_>) -> Option<()> {
        self.key(member.key)?;
        self.piece(member.value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::essence::Essence;

    const LAST: &str = "my.example.com/last";

    fn marks() -> Marks {
        Marks::new("my.example.com")
    }

    /// Returns the object with `essence` in its annotation, as a server in Go would write it.
    fn keeping(text: &str, essence: &str) -> Raw {
        let mut object: Value = serde_json::from_str(text).unwrap();
        object["metadata"]["annotations"][LAST] = essence.into();
        let mut text = object.to_string();
        for (sign, spelled) in [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u{2028}", "\\u2028")]
        {
            text = text.replace(sign, spelled);
        }
        Raw::parse(&text).unwrap()
    }

    fn essence_of(text: &str) -> String {
        let body = Raw::parse(text).unwrap().body().unwrap();
        let essence = Essence::of(&body, [], &marks(), |_| {});
        essence.value().to_string()
    }

    fn is_handled(raw: &Raw) -> bool {
        Outline::of(raw).unwrap().has_essence(LAST, &marks())
    }

    #[test]
    fn essences_are_recognised_by_their_text() {
        for text in [
            r#"{"apiVersion":"g/v1","kind":"X","metadata":{"name":"n"},"spec":{"a":[1,2.5,"\"é\\\n\u0001"]},"status":{"s":1}}"#,
            r#"{"apiVersion":"g/v1","data":{"k\"":"v"},"kind":"X","metadata":{"labels":{"l":"1"},"annotations":{"x":"{\"y\":\"\\\"\"}","my.example.com/z":"1"}}}"#,
            r#"{"metadata":{"annotations":{"a.kopf.rs/x":"1","kubectl.kubernetes.io/last-applied-configuration":"z"},"labels":{}},"spec":{}}"#,
            r#"{"metadata":{"annotations":{"marked.example.com/kopf-managed":"yes","marked.example.com/x":"1","plain":"1"}}}"#,
            r#"{"metadata":{},"spec":{"script":"a && b <c> \\u003c \\\\<\u2028"}}"#,
        ] {
            let essence = essence_of(text);
            assert!(is_handled(&keeping(text, &essence)), "{essence}");
            let changed = essence.replacen(['1', 'b', 'y', 'p'], "2", 1);
            for other in ["", "{}}", &changed, &essence[1..], &format!("{essence} ")] {
                assert!(!is_handled(&keeping(text, other)), "{other}");
            }
        }
    }

    #[test]
    fn a_differing_value_is_another_essence() {
        let object = |spec: Value, label: &str| {
            json!({"metadata": {"labels": {"l": label}}, "spec": spec}).to_string()
        };
        let essence = essence_of(&object(json!({"a": 1}), "1"));
        for (text, same) in [
            (object(json!({"a": 1}), "1"), true),
            (object(json!({"a": 1, "b": null}), "1"), false),
            (object(json!({"a": 1}), "2"), false),
        ] {
            assert_eq!(is_handled(&keeping(&text, &essence)), same, "{text}");
        }
    }

    #[test]
    fn a_spelling_that_means_something_else_is_not_taken_for_the_same() {
        let text = r#"{"metadata":{"annotations":{"my.example.com/last":"{\"spec\":\"\\\u003c\"}"}},"spec":"\\u003c"}"#;
        assert!(!is_handled(&Raw::parse(text).unwrap()));
    }

    #[test]
    fn metadata_can_be_asked_for() {
        let raw = Raw::parse(
            r#"{"metadata":{"annotations":{"a":"\"x\"","b":1},"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["f"]}}"#,
        )
        .unwrap();
        let outline = Outline::of(&raw).unwrap();
        assert!(outline.is_deleting() && outline.has_finalizer("f") && !outline.has_finalizer("g"));
        assert!(outline.annotations().eq(["a", "b"]));
        assert!(Outline::of(&Raw::parse(r#"{"spec":1}"#).unwrap()).is_none());
    }
}
