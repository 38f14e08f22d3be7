//! The annotation that preserves the fields which a version cannot express, while the object is shown or stored in that version.
//!
//! Users copy, edit and delete annotations, so its content is only a proposal. This module does not know how the
//! content is used.

use std::io::{Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Map, Value};

use crate::conversion::lost::Lost;

/// The prefix of the annotations, followed by the version that can express the fields. Operators do not treat annotations with this prefix as
/// changes.
const PREFIX: &str = "conversion.kopf.rs/";

/// Longer texts are compressed.
const LONG: usize = 4 * 1024;
/// Longer annotations are neither written nor read.
const LONGEST: usize = 64 * 1024;
/// The maximum decompressed size.
const LONGEST_UNPACKED: usize = 2 * 1024 * 1024;
/// The limit for all annotations of an object: an API server refuses the whole response if a conversion returns more.
const ALL_ANNOTATIONS: usize = 256 * 1024;
/// The prefix of an annotation that cannot hold all fields. Their paths follow.
const INCOMPLETE: &str = "incomplete: ";
/// The maximum length of these paths that is written and read.
const PLACES: usize = 200;

/// The preserved fields of an object in a version.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Carried {
    pub(crate) lost: Vec<Lost>,
    /// The paths of fields that were too large to preserve.
    pub(crate) missing: Option<String>,
}

/// Returns the annotation for the lost fields of an object of this version.
fn name(version: &str) -> String {
    format!("{PREFIX}{version}")
}

/// Removes the preserved fields of this version from the object, and returns them. Invalid content yields no fields.
pub(crate) fn take(object: &mut Value, version: &str) -> Carried {
    let found = taken(object, &name(version));
    found.map(|found| read(found.as_str().unwrap_or_default())).unwrap_or_default()
}

fn taken(object: &mut Value, annotation: &str) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let found = annotations.remove(annotation)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    Some(found)
}

/// Parses the text of an annotation, which any user may have written.
pub(crate) fn read(text: &str) -> Carried {
    if let Some(places) = text.strip_prefix(INCOMPLETE) {
        return Carried { missing: Some(places.chars().take(PLACES).collect()), ..Carried::default() };
    }
    let unpacked = match text {
        _ if text.len() > LONGEST => None,
        _ if text.starts_with('[') => Some(text.to_owned()),
        _ => unpacked(text),
    };
    let read: Option<Vec<Lost>> = unpacked.and_then(|text| serde_json::from_str(&text).ok());
    Carried { lost: read.filter(|it| Lost::are_apart(it)).unwrap_or_default(), missing: None }
}

/// Stores the lost fields of an object of this version in its annotation.
///
/// # Errors
/// If the annotation would be too large: its size. The annotation then records which fields are missing, if there is room for that.
pub(crate) fn put(object: &mut Value, version: &str, lost: &[Lost]) -> Result<(), usize> {
    let plain = serde_json::to_string(lost).unwrap_or_default();
    let unpacked_length = plain.len();
    let text = if plain.len() > LONG { packed(&plain) } else { plain };
    let name = name(version);
    let annotations = member(object, "metadata").and_then(|it| member(it, "annotations"));
    let Some(Value::Object(annotations)) = annotations else {
        return Ok(());
    };
    let length_of = |(name, value): (&String, &Value)| name.len() + value.as_str().map_or(0, str::len);
    let taken: usize = annotations.iter().map(length_of).sum();
    let has_room = |text: &str| taken + name.len() + text.len() <= ALL_ANNOTATIONS;
    let fits = text.len() <= LONGEST && unpacked_length <= LONGEST_UNPACKED && has_room(&text);
    let (text, outcome) = if fits { (text, Ok(())) } else { (missing(lost), Err(text.len())) };
    if has_room(&text) {
        annotations.insert(name, text.into());
    }
    outcome
}

/// Returns the text of an annotation that cannot hold these fields.
fn missing(lost: &[Lost]) -> String {
    let places: String = places(lost).chars().take(PLACES).collect();
    format!("{INCOMPLETE}{places}")
}

/// Returns the first of these paths, for messages.
pub(crate) fn places(lost: &[Lost]) -> String {
    let places: Vec<_> = lost.iter().take(3).map(Lost::place).collect();
    places.join(", ")
}

/// Returns a member that is an object, and creates it if absent.
fn member<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let members = object.as_object_mut()?;
    let found = members.entry(name).or_insert(Value::Null);
    if found.is_null() {
        *found = Map::new().into();
    }
    Some(found)
}

fn packed(text: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into memory does not fail.
    let packed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    STANDARD.encode(packed.unwrap_or_default())
}

fn unpacked(text: &str) -> Option<String> {
    let packed = STANDARD.decode(text).ok()?;
    let mut text = String::new();
    let mut decoder = GzDecoder::new(packed.as_slice()).take(LONGEST_UNPACKED as u64);
    decoder.read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lost(value: Value) -> Vec<Lost> {
        let mut object = json!({"spec": {}});
        let back = object.clone();
        object["spec"]["a"] = value;
        Lost::between(&object, &back)
    }

    #[test]
    fn carried_fields_are_taken_out_again() {
        for annotations in [json!(null), json!({}), json!({"a": "b"})] {
            let mut object = json!({"metadata": {"annotations": annotations}});
            for value in [json!(1), json!("x".repeat(1_000_000))] {
                let lost = lost(value);
                put(&mut object, "v1", &lost).unwrap();
                let length =
                    object["metadata"]["annotations"]["conversion.kopf.rs/v1"].as_str().map_or(0, str::len);
                assert!(length > 0 && length < LONGEST, "{length}");
                assert_eq!(take(&mut object, "v1alpha1"), Carried::default());
                assert_eq!(take(&mut object, "v1").lost, lost);
            }
            let left = object["metadata"].get("annotations");
            let has_others = annotations.as_object().is_some_and(|it| !it.is_empty());
            assert_eq!(left.is_some(), has_others);
        }
    }

    #[test]
    fn fields_that_are_too_long_are_replaced_by_their_paths() {
        let noise = noise(100_000);
        let long = lost(json!(noise));
        let mut object = json!({"metadata": {"name": "x"}});
        assert!(put(&mut object, "v1", &long).unwrap_err() > LONGEST);
        let carried = take(&mut object, "v1");
        assert_eq!(carried.missing.as_deref(), Some("spec.a"));
        assert_eq!(carried.lost, []);
        // The API server refuses more than 256 KiB of annotations, so no annotation is added to full ones.
        let some = lost(json!("x".repeat(1000)));
        for (length, is_carried, is_named) in
            [(250_000, true, true), (ALL_ANNOTATIONS - 500, false, true), (ALL_ANNOTATIONS - 5, false, false)]
        {
            let mut object = json!({"metadata": {"annotations": {"a": "x".repeat(length)}}});
            assert_eq!(put(&mut object, "v1", &some).is_ok(), is_carried);
            let annotations = object["metadata"]["annotations"].as_object().unwrap();
            assert_eq!(annotations.contains_key("conversion.kopf.rs/v1"), is_named);
        }
        // It would compress well, but never be read again.
        let object = json!({"metadata": {"name": "x"}});
        let endless = lost(json!("x".repeat(LONGEST_UNPACKED)));
        assert!(put(&mut object.clone(), "v1", &endless).is_err());
    }

    /// Returns text that does not compress well.
    fn noise(length: usize) -> String {
        let mut seed = 1_u64;
        let mut noise = String::new();
        while noise.len() < length {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            noise.extend(format!("{seed:x}").chars());
        }
        noise
    }

    #[test]
    fn invalid_annotations_carry_nothing() {
        let bomb = packed(&" ".repeat(8 * 1024 * 1024));
        for text in [
            json!("junk"),
            json!(""),
            json!(7),
            json!("[{\"at\":"),
            json!("[{\"at\":[1,[]]}]"),
            json!("[{\"at\":[\"spec\"],\"more\":1}]"),
            json!("AAAA"),
            json!(bomb),
            json!("[".repeat(200_000)),
            // Longer than any annotation that is written.
            json!(format!("[{}{{\"at\":[\"spec\"]}}]", " ".repeat(LONGEST))),
            json!("[{\"at\":[\"spec\"]},{\"at\":[\"spec\"]}]"),
        ] {
            let mut object = json!({"metadata": {"annotations": {"conversion.kopf.rs/v1": text}}});
            assert_eq!(take(&mut object, "v1"), Carried::default());
            assert!(object["metadata"].get("annotations").is_none());
        }
    }
}
