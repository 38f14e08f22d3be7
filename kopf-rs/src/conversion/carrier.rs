//! The annotation that carries what a version cannot express, while the object is shown or stored in that version.
//!
//! Users copy, edit and delete annotations: what is read is no more than a proposal. Must not know what is done with it.

use std::io::{Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Map, Value};

use crate::conversion::lost::Lost;

/// What the names of the annotations begin with: the version that could express it follows. Operators do not count annotations under such names
/// as changes.
const PREFIX: &str = "conversion.kopf.rs/";

/// Longer texts are packed.
const LONG: usize = 4 * 1024;
/// Longer ones are refused: all annotations of an object share 256 KiB.
const LONGEST: usize = 64 * 1024;
/// What is packed may be so long.
const LONGEST_UNPACKED: u64 = 2 * 1024 * 1024;

/// The annotation for what was lost of an object of this version.
fn name(version: &str) -> String {
    format!("{PREFIX}{version}")
}

/// Take out of the object what is carried for it in this version. What cannot be understood is nothing.
pub(crate) fn take(object: &mut Value, version: &str) -> Vec<Lost> {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return Vec::new();
    };
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
        return Vec::new();
    };
    let Some(found) = annotations.remove(&name(version)) else {
        return Vec::new();
    };
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    let text = found.as_str().unwrap_or_default();
    let unpacked = if text.starts_with('[') {
        Some(text.to_owned())
    } else {
        unpacked(text)
    };
    let read = unpacked.and_then(|text| serde_json::from_str(&text).ok());
    read.unwrap_or_default()
}

/// Let the object carry what was lost of it in this version.
///
/// # Errors
/// Where that is more than an annotation may be: how long it would be.
pub(crate) fn put(object: &mut Value, version: &str, lost: &[Lost]) -> Result<(), usize> {
    let text = serde_json::to_string(lost).unwrap_or_default();
    let text = if text.len() > LONG {
        packed(&text)
    } else {
        text
    };
    if text.len() > LONGEST {
        return Err(text.len());
    }
    let metadata = member(object, "metadata");
    let annotations = metadata.and_then(|it| member(it, "annotations"));
    if let Some(Value::Object(annotations)) = annotations {
        annotations.insert(name(version), text.into());
    }
    Ok(())
}

/// A member that is an object, made where there is none.
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
    let packed = encoder
        .write_all(text.as_bytes())
        .and_then(|()| encoder.finish());
    STANDARD.encode(packed.unwrap_or_default())
}

fn unpacked(text: &str) -> Option<String> {
    let packed = STANDARD.decode(text).ok()?;
    let mut text = String::new();
    let mut decoder = GzDecoder::new(packed.as_slice()).take(LONGEST_UNPACKED);
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
    fn what_is_carried_is_taken_out_again() {
        for annotations in [json!(null), json!({}), json!({"a": "b"})] {
            let mut object = json!({"metadata": {"annotations": annotations}});
            for value in [json!(1), json!("x".repeat(1_000_000))] {
                let lost = lost(value);
                put(&mut object, "v1", &lost).unwrap();
                let length = object["metadata"]["annotations"]["conversion.kopf.rs/v1"]
                    .as_str()
                    .map_or(0, str::len);
                assert!(length > 0 && length < LONGEST, "{length}");
                assert_eq!(take(&mut object, "v1alpha1"), []);
                assert_eq!(take(&mut object, "v1"), lost);
            }
            let left = object["metadata"].get("annotations");
            let has_others = annotations.as_object().is_some_and(|it| !it.is_empty());
            assert_eq!(left.is_some(), has_others);
        }
    }

    #[test]
    fn what_is_too_long_is_refused() {
        // It does not pack well.
        let mut seed = 1_u64;
        let noise = (0..14_000).map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{seed:x}")
        });
        let noise: String = noise.collect();
        let mut object = json!({"metadata": {"name": "x"}});
        let before = object.clone();
        assert!(put(&mut object, "v1", &lost(json!(noise))).unwrap_err() > LONGEST);
        assert_eq!(object, before);
    }

    #[test]
    fn what_cannot_be_understood_is_nothing() {
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
        ] {
            let mut object = json!({"metadata": {"annotations": {"conversion.kopf.rs/v1": text}}});
            assert_eq!(take(&mut object, "v1"), []);
            assert!(object["metadata"].get("annotations").is_none());
        }
    }
}
