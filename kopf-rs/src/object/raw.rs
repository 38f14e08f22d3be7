//! An object as it travels: its JSON text without `managedFields`, and the few facts every hop needs.
//!
//! Text costs a tenth of a tree; the tree is made once per handling cycle, by [`Raw::body`]. Parsing promises to build no tree
//! and to copy the text once, into an allocation of exactly its size. Must not know what the object means.

use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::object::body::Body;

/// JSON text of one object plus slim metadata. Cloning copies pointers only.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    text: Arc<str>,
    facts: Arc<Facts>,
}

/// What the engine needs to know of an object without parsing all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) uid: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource_version: String,
}

/// Text that is no Kubernetes object.
#[derive(Debug, thiserror::Error)]
#[error("expected a Kubernetes object in JSON: {0}")]
pub(crate) struct NotAnObject(#[from] serde_json::Error);

/// The one slim pass over the text: everything else is skipped, not built.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Slim<'a> {
    api_version: Option<IgnoredAny>,
    kind: Option<IgnoredAny>,
    #[serde(borrow)]
    metadata: Option<SlimMeta<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimMeta<'a> {
    uid: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

impl Raw {
    /// Scan `text` once: check that it is JSON, take the facts, cut `managedFields` out.
    pub(crate) fn parse(text: &str) -> Result<Self, NotAnObject> {
        let (slim, text) = scan(text)?;
        let cut = cut_of(text, &slim);
        Ok(Self {
            text: joined(text, "", cut),
            facts: Arc::new(facts(slim)),
        })
    }

    /// As [`Raw::parse`], for an item of a list: items come without `apiVersion` and `kind`, so they are put in where absent.
    pub(crate) fn parse_item(
        text: &str,
        api_version: &str,
        kind: &str,
    ) -> Result<Self, NotAnObject> {
        let (slim, text) = scan(text)?;
        let mut head = String::new();
        for (absent, key, value) in [
            (slim.api_version.is_none(), "apiVersion", api_version),
            (slim.kind.is_none(), "kind", kind),
        ] {
            if absent {
                let member = format!("\"{key}\":{},", Value::from(value));
                head.push_str(&member);
            }
        }
        if text[1..].trim_start().starts_with('}') {
            head.pop();
        }
        let cut = cut_of(text, &slim);
        Ok(Self {
            text: joined(text, &head, cut),
            facts: Arc::new(facts(slim)),
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The object as a tree. Parsed anew on every call: call it once per cycle.
    ///
    /// # Errors
    /// Where the text is JSON, but no tree can be made of it: nested deeper than 128 levels.
    pub(crate) fn body(&self) -> Result<Body, NotAnObject> {
        Ok(Body::new(serde_json::from_str(&self.text)?))
    }
}

/// The slim pass, and the text without surrounding white space.
fn scan(text: &str) -> Result<(Slim<'_>, &str), NotAnObject> {
    let text = text.trim_ascii();
    if !text.starts_with('{') {
        // Serde would also take a list for a structure.
        return Err(serde_json::Error::custom("no JSON object").into());
    }
    Ok((serde_json::from_str(text)?, text))
}

fn facts(slim: Slim<'_>) -> Facts {
    let Some(meta) = slim.metadata else {
        return Facts::default();
    };
    Facts {
        uid: meta.uid.unwrap_or_default(),
        name: meta.name.unwrap_or_default(),
        namespace: meta.namespace,
        resource_version: meta.resource_version.unwrap_or_default(),
    }
}

/// Where the member `managedFields` stands, one comma included. Nothing where it is absent or spelled with escapes.
fn cut_of(text: &str, slim: &Slim<'_>) -> Option<Range<usize>> {
    let value = slim.metadata.as_ref()?.managed_fields?.get();
    let begin = (value.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let end = begin + value.len();
    let before = text.get(..begin)?.trim_ascii_end().strip_suffix(':')?;
    let before = before.trim_ascii_end().strip_suffix("\"managedFields\"")?;
    let before = before.trim_ascii_end();
    if let Some(before) = before.strip_suffix(',') {
        return Some(before.len()..end);
    }
    let after = text[end..].trim_ascii_start();
    let after = after.strip_prefix(',').unwrap_or(after);
    Some(before.len()..text.len() - after.len())
}

/// `text` with `head` behind its first brace and without `cut`.
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
            (
                r#"{"metadata":{"managedFields":[1]}}"#,
                r#"{"metadata":{}}"#,
            ),
            (
                r#"{"metadata":{"managedFields":[{"a":"]"}],"name":"n"}}"#,
                r#"{"metadata":{"name":"n"}}"#,
            ),
            (
                r#"{"metadata":{"name":"n","managedFields":[]}}"#,
                r#"{"metadata":{"name":"n"}}"#,
            ),
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
        let item = |text| {
            Raw::parse_item(text, "g/v1", "Kind")
                .unwrap()
                .text()
                .to_owned()
        };
        assert_eq!(
            item(r#"{"metadata":{"managedFields":[]}}"#),
            r#"{"apiVersion":"g/v1","kind":"Kind","metadata":{}}"#
        );
        assert_eq!(
            item(r#"{"kind":"Other","a":1}"#),
            r#"{"apiVersion":"g/v1","kind":"Other","a":1}"#
        );
        assert_eq!(item("{ }"), r#"{"apiVersion":"g/v1","kind":"Kind" }"#);
    }

    #[test]
    fn refuses_what_is_no_object() {
        for text in [
            "",
            "[]",
            "[1,2,{}]",
            "null",
            "{",
            "{} {}",
            r#"{"metadata":7}"#,
            "{\"a\":\"\u{1}\"}",
        ] {
            assert!(Raw::parse(text).is_err(), "{text:?}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500));
        assert!(Raw::parse(&deep).unwrap().body().is_err());
    }
}
