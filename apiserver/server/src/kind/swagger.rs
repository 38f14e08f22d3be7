//! Encodes the `OpenAPI` v2 document as protobuf, which Go clients request: the definitions, without paths.
//!
//! The definitions equal those of the JSON document. Independent of kinds.

use bytes::Bytes;
use serde_json::{Map, Value};

/// The media type of the protobuf document.
pub(crate) const MESSAGE_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Encodes the definitions.
pub(crate) fn message(info: &Value, definitions: &Map<String, Value>) -> Bytes {
    let mut about = Message::default();
    about.text(1, info.get("title"));
    about.text(2, info.get("version"));
    let mut all = Message::default();
    for (name, schema) in definitions {
        all.message(1, &named(name, &of_schema(schema)));
    }
    let mut document = Message::default();
    document.bytes(1, b"2.0");
    document.message(2, &about);
    // The document has an empty list of paths.
    document.bytes(8, b"");
    document.message(9, &all);
    document.0.into()
}

fn named(name: &str, value: &Message) -> Message {
    let mut pair = Message::default();
    pair.bytes(1, name.as_bytes());
    pair.message(2, value);
    pair
}

/// Encodes a value as YAML, which includes JSON.
fn any(value: &Value) -> Message {
    let mut any = Message::default();
    any.bytes(2, value.to_string().as_bytes());
    any
}

fn of_schema(schema: &Value) -> Message {
    let mut message = Message::default();
    let texts = [
        (1, "$ref"),
        (2, "format"),
        (3, "title"),
        (4, "description"),
        (13, "pattern"),
    ];
    for (number, field) in texts {
        message.text(number, schema.get(field));
    }
    for (number, field) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        if let Some(found) = schema.get(field).and_then(Value::as_f64) {
            message.double(number, found);
        }
    }
    let counts = [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ];
    for (number, field) in counts {
        if let Some(found) = schema.get(field).and_then(Value::as_u64) {
            message.number(number, found);
        }
    }
    for (number, field) in [
        (8, "exclusiveMaximum"),
        (10, "exclusiveMinimum"),
        (16, "uniqueItems"),
    ] {
        if schema.get(field) == Some(&Value::Bool(true)) {
            message.number(number, 1);
        }
    }
    structure(schema, &mut message);
    message
}

/// Encodes the sub-schemas and lists of a schema.
fn structure(schema: &Value, message: &mut Message) {
    let list = |field: &str| {
        schema
            .get(field)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    for field in list("required") {
        message.text(19, Some(field));
    }
    for value in list("enum") {
        message.message(20, &any(value));
    }
    if let Some(inner) = schema.get("additionalProperties") {
        let mut item = Message::default();
        match inner.as_bool() {
            Some(allowed) => item.number(2, u64::from(allowed)),
            None => item.message(1, &of_schema(inner)),
        }
        message.message(21, &item);
    }
    if let Some(kind) = schema.get("type").and_then(Value::as_str) {
        let mut item = Message::default();
        item.bytes(1, kind.as_bytes());
        message.message(22, &item);
    }
    if let Some(inner) = schema.get("items") {
        let mut item = Message::default();
        item.message(1, &of_schema(inner));
        message.message(23, &item);
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let mut all = Message::default();
        for (name, property) in properties {
            all.message(1, &named(name, &of_schema(property)));
        }
        message.message(25, &all);
    }
    let fields = schema.as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| name.starts_with("x-")) {
        message.message(31, &named(name, &any(value)));
    }
}

/// An encoded protobuf message.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

// === impl Message ===

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0
                .push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap_or_default());
    }

    fn bytes(&mut self, number: u64, content: &[u8]) {
        self.varint(number << 3 | 2);
        self.varint(content.len() as u64);
        self.0.extend_from_slice(content);
    }

    fn message(&mut self, number: u64, inner: &Self) {
        self.bytes(number, &inner.0);
    }

    fn text(&mut self, number: u64, value: Option<&Value>) {
        if let Some(text) = value.and_then(Value::as_str) {
            self.bytes(number, text.as_bytes());
        }
    }

    fn number(&mut self, number: u64, value: u64) {
        self.varint(number << 3);
        self.varint(value);
    }

    fn double(&mut self, number: u64, value: f64) {
        self.varint(number << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_message_holds_version_title_and_definitions() {
        let Value::Object(definitions) = json!({"a": {"type": "string", "maxLength": 300}}) else {
            panic!("an object")
        };
        let message = message(&json!({"title": "T", "version": "1"}), &definitions);
        let expected = b"\x0a\x032.0\x12\x06\x0a\x01T\x12\x011\x42\0\x4a\x15\x0a\x13\x0a\x01a\x12\x0e\x58\xac\x02\xb2\x01\x08\x0a\x06string";
        assert_eq!(&message[..], &expected[..]);
    }
}
