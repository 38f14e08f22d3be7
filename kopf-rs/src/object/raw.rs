//! An object in transit: its JSON text without `managedFields`, and the few facts that every stage needs.
//!
//! Text costs a tenth of a tree; the tree is built once per handling cycle, by [`Raw::body`]. This module guarantees
//! that parsing builds no tree and copies the text once, into an allocation of the exact size. It must not depend on
//! the meaning of the object.

use std::ops::Range;
use std::sync::Arc;

use serde::de::Error as _;
use serde_json::{Map, Value, json};

use crate::object::body::Body;
use crate::object::skim::{Members, find, members};

/// The JSON text of one object plus slim metadata. Cloning copies only pointers.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    text: Arc<str>,
    facts: Arc<Facts>,
}

/// The facts about an object that the engine needs without a full parse.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) uid: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource_version: String,
}

/// The error for text that is not a Kubernetes object.
#[derive(Debug, thiserror::Error)]
#[error("expected a Kubernetes object in JSON: {0}")]
pub(crate) struct NotAnObject(#[from] serde_json::Error);

impl Raw {
    /// Scans `text` once: extracts the facts and removes `managedFields`.
    pub(crate) fn parse(text: &str) -> Result<Self, NotAnObject> {
        Skimmed::of(text)?.raw("")
    }

    /// Like [`Raw::parse`], for an item of a list: items lack `apiVersion` and `kind`, which are added if absent.
    pub(crate) fn parse_item(text: &str, api_version: &str, kind: &str) -> Result<Self, NotAnObject> {
        let skimmed = Skimmed::of(text)?;
        let mut head = String::new();
        for (key, value) in [("apiVersion", api_version), ("kind", kind)] {
            if find(&skimmed.stanzas, key).is_none() {
                let member = format!("\"{key}\":{},", Value::from(value));
                head.push_str(&member);
            }
        }
        if skimmed.stanzas.is_empty() {
            head.pop();
        }
        skimmed.raw(&head)
    }

    /// Like [`Raw::parse`], but keeps `managedFields`.
    pub(crate) fn parse_whole(text: &str) -> Result<Self, NotAnObject> {
        let skimmed = Skimmed::of(text)?;
        Ok(Self { text: skimmed.text.into(), facts: Arc::new(skimmed.facts()?) })
    }

    /// Returns an object of which nothing else is known.
    pub(crate) fn named(facts: Facts, api_version: &str, kind: &str) -> Self {
        let mut metadata = json!({"name": facts.name, "uid": facts.uid});
        if let Some(namespace) = &facts.namespace {
            metadata["namespace"] = namespace.as_str().into();
        }
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        Self { text: object.to_string().into(), facts: Arc::new(facts) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns a stanza as a tree if it exists.
    pub(crate) fn stanza(&self, key: &str) -> Option<Value> {
        let levels = members(&self.text, &[])?;
        let found = find(levels.first()?, key)?;
        serde_json::from_str(found.value).ok()
    }

    /// Returns the object as a tree. Parses on every call, so call it once per cycle.
    ///
    /// # Errors
    /// If the text is JSON but too deeply nested for a tree: more than 128 levels.
    pub(crate) fn body(&self) -> Result<Body, NotAnObject> {
        Ok(Body::new(serde_json::from_str(&self.text)?))
    }

    /// Returns the object with a tree that is parsed on first use. Only for text that [`Raw::body`] has parsed successfully.
    pub(crate) fn body_later(&self) -> Body {
        Body::of_text(self.text.clone())
    }
}

/// The member positions of a text.
struct Skimmed<'a> {
    /// Without surrounding white space.
    text: &'a str,
    stanzas: Members<'a>,
    metadata: Members<'a>,
}

impl<'a> Skimmed<'a> {
    fn of(text: &'a str) -> Result<Self, NotAnObject> {
        let text = text.trim_ascii();
        let levels = members(text, &["metadata"]).unwrap_or_default();
        let [stanzas, metadata] = levels.try_into().map_err(|_| refusal(text))?;
        let found = find(&stanzas, "metadata");
        if found.is_some_and(|it| it.value != "null" && !it.value.starts_with('{')) {
            return Err(refusal(text));
        }
        Ok(Self { text, stanzas, metadata })
    }

    /// Returns the text without `managedFields` and with `head` after its first brace.
    fn raw(&self, head: &str) -> Result<Raw, NotAnObject> {
        Ok(Raw { text: joined(self.text, head, self.cut()), facts: Arc::new(self.facts()?) })
    }

    fn facts(&self) -> Result<Facts, NotAnObject> {
        let text = |key: &str| -> Result<Option<String>, serde_json::Error> {
            let found = find(&self.metadata, key);
            found.map_or(Ok(None), |it| serde_json::from_str(it.value))
        };
        Ok(Facts {
            uid: text("uid")?.unwrap_or_default(),
            name: text("name")?.unwrap_or_default(),
            namespace: text("namespace")?,
            resource_version: text("resourceVersion")?.unwrap_or_default(),
        })
    }

    /// Returns the range of the member `managedFields` including one comma, or `None` if it is absent or its key is escaped.
    fn cut(&self) -> Option<Range<usize>> {
        let all = &self.metadata;
        let found = all.iter().position(|it| it.key == "managedFields" && it.value != "null")?;
        Some(match (found.checked_sub(1), all.get(found + 1)) {
            (Some(before), _) => all[before].at.end..all[found].at.end,
            (None, Some(after)) => all[found].at.start..after.at.start,
            (None, None) => all[found].at.clone(),
        })
    }
}

/// Returns the reason why `text` is not an object.
fn refusal(text: &str) -> NotAnObject {
    let read = serde_json::from_str::<Map<String, Value>>(text);
    let unusual = || serde_json::Error::custom("the metadata is not a JSON object");
    read.err().unwrap_or_else(unusual).into()
}

/// Returns `text` with `head` after its first brace and without the range `cut`.
fn joined(text: &str, head: &str, cut: Option<Range<usize>>) -> Arc<str> {
    let cut = cut.unwrap_or(text.len()..text.len());
    if head.is_empty() && cut.is_empty() {
        return text.into();
    }
    let mut all = String::with_capacity(text.len() + head.len() - cut.len());
    all.push('{');
    all.push_str(head);
    all.push_str(&text[1..cut.start]);
    all.push_str(&text[cut.end..]);
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(text: &str) -> String {
        Raw::parse(text).unwrap().text().to_owned()
    }

    #[test]
    fn takes_the_facts() {
        let raw = Raw::parse(
            r#" {"kind":"X","metadata":{"uid":"u","name":"n","namespace":"s","resourceVersion":"7"},"spec":{"uid":"no"}}
"#,
        )
        .unwrap();
        let facts = Facts {
            uid: "u".into(),
            name: "n".into(),
            namespace: Some("s".into()),
            resource_version: "7".into(),
        };
        assert_eq!(*raw.facts(), facts);
        assert_eq!(raw.body().unwrap().name(), "n");
        let raw = Raw::parse(r#"{"metadata":{}}"#).unwrap();
        assert_eq!(*raw.facts(), Facts::default());
    }

    #[test]
    fn cuts_managed_fields_wherever_they_stand() {
        for (given, expected) in [
            (r#"{"metadata":{"managedFields":[1]}}"#, r#"{"metadata":{}}"#),
            (r#"{"metadata":{"managedFields":[{"a":"]"}],"name":"n"}}"#, r#"{"metadata":{"name":"n"}}"#),
            (r#"{"metadata":{"name":"n","managedFields":[]}}"#, r#"{"metadata":{"name":"n"}}"#),
            (
                r#"{"metadata":{"a":1, "managedFields" : [] , "name":"n"},"spec":1}"#,
                r#"{"metadata":{"a":1 , "name":"n"},"spec":1}"#,
            ),
            (
                r#"{"metadata":{"managedFields":null,"name":"n"}}"#,
                r#"{"metadata":{"managedFields":null,"name":"n"}}"#,
            ),
            (
                r#"{"spec":{"managedFields":[1]},"metadata":{}}"#,
                r#"{"spec":{"managedFields":[1]},"metadata":{}}"#,
            ),
        ] {
            assert_eq!(text_of(given), expected);
        }
    }

    #[test]
    fn completes_items_of_lists() {
        let item = |text| Raw::parse_item(text, "g/v1", "Kind").unwrap().text().to_owned();
        assert_eq!(
            item(r#"{"metadata":{"managedFields":[]}}"#),
            r#"{"apiVersion":"g/v1","kind":"Kind","metadata":{}}"#
        );
        assert_eq!(item(r#"{"kind":"Other","a":1}"#), r#"{"apiVersion":"g/v1","kind":"Other","a":1}"#);
        assert_eq!(item("{ }"), r#"{"apiVersion":"g/v1","kind":"Kind" }"#);
    }

    #[test]
    fn a_named_object_equals_its_text() {
        for namespace in [None, Some("s".to_owned())] {
            let (uid, name) = ("u".to_owned(), "a \"n\"".to_owned());
            let facts = Facts { uid, name, namespace, resource_version: String::new() };
            let raw = Raw::named(facts.clone(), "g/v1", "Kind");
            assert_eq!(*Raw::parse(raw.text()).unwrap().facts(), facts);
        }
    }

    #[test]
    fn refuses_invalid_objects() {
        for text in
            ["", "[]", "[1,2,{}]", "null", "{", "{} {}", r#"{"metadata":7}"#, r#"{"metadata":{"uid":7}}"#]
        {
            assert!(Raw::parse(text).is_err(), "{text:?}");
        }
        for text in ["{\"a\":\"\u{1}\"}", r#"{"a":tru}"#] {
            assert!(Raw::parse(text).unwrap().body().is_err(), "{text:?}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500));
        assert!(Raw::parse(&deep).unwrap().body().is_err());
    }
}
