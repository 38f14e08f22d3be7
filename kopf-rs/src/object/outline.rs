//! An object's text taken apart at its joints: enough for some decisions, at a fraction of a tree's price.
//!
//! Promises never to guess: what cannot be read this way is not read at all, and a tree has to tell. Must not know what is decided.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::object::essence::Marks;
use crate::object::raw::Raw;

/// The members of an object and of its metadata, as text.
pub(crate) struct Outline<'a> {
    stanzas: Members<'a>,
    metadata: Metadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    annotations: Members<'a>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finalizers: Vec<Cow<'a, str>>,
    deletion_timestamp: Option<IgnoredAny>,
}

/// The members of a JSON object in their order. Keys that are spelled with escapes make it unreadable.
#[derive(Default)]
struct Members<'a>(Vec<(&'a str, &'a RawValue)>);

impl<'a> Outline<'a> {
    /// `None` where the text is not as servers write it.
    pub(crate) fn of(raw: &'a Raw) -> Option<Self> {
        let stanzas: Members<'_> = serde_json::from_str(raw.text()).ok()?;
        let metadata = serde_json::from_str(stanzas.get("metadata")?.get()).ok()?;
        Some(Self { stanzas, metadata })
    }

    /// Whether it is marked for deletion.
    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it carries the finalizer.
    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().any(|it| it == finalizer)
    }

    /// The keys of its annotations.
    pub(crate) fn annotations(&self) -> impl Iterator<Item = &'a str> {
        self.metadata.annotations.0.iter().map(|(key, _)| *key)
    }

    /// The text of an annotation.
    pub(crate) fn annotation(&self, key: &str) -> Option<Cow<'a, str>> {
        let value = self.metadata.annotations.get(key)?.get();
        let Text(text) = serde_json::from_str(value).ok()?;
        Some(text)
    }

    /// Whether its essence, without extra fields, is written like this. Not to be asked about Secrets.
    pub(crate) fn has_essence(&self, text: &str, marks: &Marks) -> bool {
        let mut written = Written {
            rest: text,
            first: true,
        };
        self.compare(&mut written, marks).is_some() && written.rest.is_empty()
    }

    fn compare(&self, written: &mut Written<'_>, marks: &Marks) -> Option<()> {
        written.open()?;
        for (key, value) in &self.stanzas.0 {
            match *key {
                "apiVersion" | "kind" | "status" => {}
                "metadata" => self.compare_metadata(written, marks)?,
                key => written.member(key, value)?,
            }
        }
        written.close()
    }

    fn compare_metadata(&self, written: &mut Written<'_>, marks: &Marks) -> Option<()> {
        let is_there = |key: &str| self.metadata.annotations.get(key).is_some();
        let annotations = self.metadata.annotations.0.iter();
        let mut counting = annotations
            .filter(|(key, _)| marks.counts(key, is_there))
            .peekable();
        let labels = self.metadata.labels.filter(|it| it.get() != "{}");
        if counting.peek().is_none() && labels.is_none() {
            return Some(());
        }
        written.key("metadata")?;
        written.open()?;
        if counting.peek().is_some() {
            written.key("annotations")?;
            written.open()?;
            counting.try_for_each(|(key, value)| written.member(key, value))?;
            written.close()?;
        }
        if let Some(labels) = labels {
            written.member("labels", labels)?;
        }
        written.close()
    }
}

/// A JSON string, unescaped where necessary only.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// What is left of a text that is compared piece by piece.
struct Written<'a> {
    rest: &'a str,
    /// The next member is the first one of its object.
    first: bool,
}

impl Written<'_> {
    fn piece(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn open(&mut self) -> Option<()> {
        self.first = true;
        self.piece("{")
    }

    fn close(&mut self) -> Option<()> {
        self.first = false;
        self.piece("}")
    }

    fn key(&mut self, key: &str) -> Option<()> {
        if !std::mem::take(&mut self.first) {
            self.piece(",")?;
        }
        self.piece("\"")?;
        self.piece(key)?;
        self.piece("\":")
    }

    fn member(&mut self, key: &str, value: &RawValue) -> Option<()> {
        self.key(key)?;
        self.piece(value.get())
    }
}

// === impl Members ===

impl<'a> Members<'a> {
    fn get(&self, key: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().find(|(it, _)| *it == key);
        found.map(|(_, value)| *value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::body::Body;
    use crate::object::essence::Essence;

    fn marks() -> Marks {
        Marks::new("my.example.com")
    }

    #[test]
    fn essences_are_recognised_by_their_text() {
        for text in [
            r#"{"apiVersion":"g/v1","kind":"X","metadata":{"name":"n"},"spec":{"a":[1,2.5,"\"é"]},"status":{"s":1}}"#,
            r#"{"apiVersion":"g/v1","data":{"k":"v"},"kind":"X","metadata":{"labels":{"l":"1"},"annotations":{"x":"y","my.example.com/z":"1"}}}"#,
            r#"{"metadata":{"annotations":{"a.kopf.rs/x":"1","kubectl.kubernetes.io/last-applied-configuration":"z"},"labels":{}},"spec":{}}"#,
            r#"{"metadata":{"annotations":{"marked.example.com/kopf-managed":"yes","marked.example.com/x":"1","plain":"1"}}}"#,
            r#"{"metadata":{}}"#,
        ] {
            let raw = Raw::parse(text).unwrap();
            let outline = Outline::of(&raw).unwrap();
            let body = raw.body().unwrap();
            let essence = Essence::of(&body, [], &marks(), |_| {}).value().to_string();
            assert!(outline.has_essence(&essence, &marks()), "{essence}");
            for other in [
                "",
                "{}}",
                r#"{"spec":{"a":1}}"#,
                &essence[1..],
                &format!("{essence} "),
            ] {
                assert!(!outline.has_essence(other, &marks()), "{other}");
            }
        }
    }

    #[test]
    fn a_differing_value_is_another_essence() {
        let object = |spec: Value, label: &str| {
            json!({"metadata": {"labels": {"l": label}}, "spec": spec}).to_string()
        };
        let essence = Essence::of(
            &Body::new(json!({"metadata": {"labels": {"l": "1"}}, "spec": {"a": 1}})),
            [],
            &marks(),
            |_| {},
        );
        let essence = essence.value().to_string();
        for (text, same) in [
            (object(json!({"a": 1}), "1"), true),
            (object(json!({"a": 1, "b": null}), "1"), false),
            (object(json!({"a": 1}), "2"), false),
        ] {
            let raw = Raw::parse(&text).unwrap();
            assert_eq!(
                Outline::of(&raw).unwrap().has_essence(&essence, &marks()),
                same,
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_spelled_oddly_is_not_read() {
        for text in [
            r#"{"spec":1}"#,
            r#"{"metadata":null}"#,
            r#"{"\u006detadata":{}}"#,
            r#"{"metadata":{"annotations":{"a\"b":"1"}}}"#,
            r#"{"metadata":{"annotations":[]}}"#,
        ] {
            assert!(Outline::of(&Raw::parse(text).unwrap()).is_none(), "{text}");
        }
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
        assert_eq!(outline.annotation("a").as_deref(), Some("\"x\""));
        assert_eq!(outline.annotation("b"), None);
    }
}
