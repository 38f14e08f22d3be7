//! Decodes protobuf bodies of Go clients: an envelope with the kind, and the message of that kind.
//!
//! The result is the JSON of the same object; fields that the message lacks stay absent.
//! Decoding only, as responses are JSON. Independent of requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Field, Struct, Type, by_index, of_kind, scalar, schema};

/// The prefix of every protobuf body.
const MAGIC: &[u8] = b"k8s\0";

/// The greatest nesting depth of messages.
const DEPTH: usize = 100;

/// The reason why a body cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// The body is empty.
    #[error("empty data")]
    Nothing,
    /// The body lacks the protobuf prefix.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    Foreign,
    /// The body ends too early.
    #[error("unexpected EOF")]
    Short,
    /// The body has nothing after the prefix.
    #[error("empty body")]
    Empty,
    /// A field has an unknown wire type.
    #[error("proto: illegal wireType {0}")]
    Wire(u64),
    /// A field does not match its type.
    #[error("proto: wrong wireType")]
    Malformed,
    /// The table does not have the kind.
    #[error("no message is known for this kind")]
    Unknown,
}

/// One field of an encoded message.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Float(f64),
}

/// Decodes a body; `apiVersion` and `kind` come from the envelope, or else from the arguments.
///
/// # Errors
///
/// Returns an error if the body is malformed or its kind is unknown.
pub(crate) fn decode(
    body: &[u8],
    api_version: &str,
    kind: &str,
) -> Result<Map<String, Value>, Unreadable> {
    if body.is_empty() {
        return Err(Unreadable::Nothing);
    }
    let envelope = body.strip_prefix(MAGIC).ok_or(Unreadable::Foreign)?;
    if envelope.is_empty() {
        return Err(Unreadable::Empty);
    }
    let (mut version, mut word, mut raw) = (String::new(), String::new(), &[][..]);
    each(envelope, |number, wire| {
        match (number, wire) {
            (1, Wire::Bytes(meta)) => each(meta, |number, wire| {
                match (number, wire) {
                    (1, Wire::Bytes(found)) => version = text(found),
                    (2, Wire::Bytes(found)) => word = text(found),
                    _ => {}
                }
                Ok(())
            })?,
            (2, Wire::Bytes(found)) => raw = found,
            _ => {}
        }
        Ok(())
    })?;
    let known = of_kind(or(&version, api_version), or(&word, kind))
        .or_else(|| (word == "DeleteOptions").then(|| of_kind("v1", "DeleteOptions"))?)
        .ok_or(Unreadable::Unknown)?;
    let mut object = Map::new();
    if !version.is_empty() {
        object.insert("apiVersion".to_owned(), version.into());
    }
    if !word.is_empty() {
        object.insert("kind".to_owned(), word.into());
    }
    message(known, raw, &mut object, DEPTH)?;
    Ok(object)
}

fn or<'a>(given: &'a str, fallback: &'a str) -> &'a str {
    if given.is_empty() { fallback } else { given }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Calls `found` for each field of a message.
fn each<'a>(
    mut rest: &'a [u8],
    mut found: impl FnMut(u64, Wire<'a>) -> Result<(), Unreadable>,
) -> Result<(), Unreadable> {
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let wire = match tag & 7 {
            0 => Wire::Number(varint(&mut rest)?),
            1 => Wire::Float(f64::from_le_bytes(
                take(&mut rest, 8)?
                    .try_into()
                    .map_err(|_| Unreadable::Short)?,
            )),
            2 => {
                let length = usize::try_from(varint(&mut rest)?).map_err(|_| Unreadable::Short)?;
                Wire::Bytes(take(&mut rest, length)?)
            }
            5 => {
                let bytes = take(&mut rest, 4)?
                    .try_into()
                    .map_err(|_| Unreadable::Short)?;
                Wire::Float(f64::from(f32::from_le_bytes(bytes)))
            }
            wire => return Err(Unreadable::Wire(wire)),
        };
        found(tag >> 3, wire)?;
    }
    Ok(())
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Unreadable> {
    let (taken, left) = rest.split_at_checked(length).ok_or(Unreadable::Short)?;
    *rest = left;
    Ok(taken)
}

fn varint(rest: &mut &[u8]) -> Result<u64, Unreadable> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *take(rest, 1)?.first().ok_or(Unreadable::Short)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Unreadable::Malformed)
}

/// Decodes a message into the JSON map of its struct.
fn message(
    of: &'static Struct,
    bytes: &[u8],
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Unreadable> {
    let depth = depth.checked_sub(1).ok_or(Unreadable::Malformed)?;
    each(bytes, |number, wire| {
        match of.fields.iter().find(|field| field.number == number) {
            Some(known) => field(known, wire, into, depth),
            None => Ok(()),
        }
    })
}

fn field(
    known: &'static Field,
    wire: Wire<'_>,
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Unreadable> {
    if let (true, Type::Struct(inner), Wire::Bytes(bytes)) = (known.is_inline(), &known.of, &wire) {
        return message(by_index(*inner), bytes, into, depth);
    }
    let of = match &known.of {
        Type::Pointer(of) => of,
        of => of,
    };
    match of {
        Type::List(of) => {
            let item = value(of, wire, depth)?;
            let slot = into
                .entry(known.name)
                .or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(items) = slot {
                items.push(item);
            }
        }
        Type::Map(of) => {
            let (key, item) = entry(of, wire, depth)?;
            let slot = into
                .entry(known.name)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = slot {
                map.insert(key, item);
            }
        }
        of => {
            let found = value(of, wire, depth)?;
            into.insert(known.name.to_owned(), found);
        }
    }
    Ok(())
}

fn entry(of: &Type, wire: Wire<'_>, depth: usize) -> Result<(String, Value), Unreadable> {
    let Wire::Bytes(bytes) = wire else {
        return Err(Unreadable::Malformed);
    };
    let (mut key, mut item) = (String::new(), Value::Null);
    each(bytes, |number, wire| {
        match (number, wire) {
            (1, Wire::Bytes(found)) => key = text(found),
            (2, wire) => item = value(of, wire, depth)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, item))
}

fn value(of: &Type, wire: Wire<'_>, depth: usize) -> Result<Value, Unreadable> {
    Ok(match (of, wire) {
        (Type::Pointer(of), wire) => value(of, wire, depth)?,
        (Type::Text(_), Wire::Bytes(bytes)) => text(bytes).into(),
        (Type::Bool, Wire::Number(number)) => (number != 0).into(),
        (Type::Int32 | Type::Int64, Wire::Number(number)) => number.cast_signed().into(),
        (Type::Float, Wire::Float(number)) => number.into(),
        (Type::Bytes, Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Type::Struct(index), Wire::Bytes(bytes)) => {
            let mut map = Map::new();
            message(by_index(*index), bytes, &mut map, depth)?;
            Value::Object(map)
        }
        (Type::List(of) | Type::Wrapped(of), Wire::Bytes(bytes)) => {
            let mut items = Vec::new();
            each(bytes, |number, wire| {
                if number == 1 {
                    items.push(value(of, wire, depth)?);
                }
                Ok(())
            })?;
            Value::Array(items)
        }
        (of, Wire::Bytes(bytes)) => special(of, bytes, depth)?,
        _ => return Err(Unreadable::Malformed),
    })
}

/// Decodes types whose JSON form differs from their structure.
fn special(of: &Type, bytes: &[u8], depth: usize) -> Result<Value, Unreadable> {
    let (mut numbers, mut parts) = ([0_i64; 4], [None; 4]);
    let mut lists: Vec<&[u8]> = Vec::new();
    each(bytes, |number, wire| {
        let Some(at) = usize::try_from(number).ok().filter(|at| *at < 4) else {
            return Ok(());
        };
        match wire {
            Wire::Number(found) => numbers[at] = found.cast_signed(),
            Wire::Bytes(found) => {
                parts[at] = Some(found);
                if at == 2 {
                    lists.push(found);
                }
            }
            Wire::Float(_) => {}
        }
        Ok(())
    })?;
    let schema_of = |bytes: &[u8]| -> Result<Value, Unreadable> {
        let mut map = Map::new();
        message(schema(), bytes, &mut map, depth)?;
        Ok(Value::Object(map))
    };
    Ok(match of {
        Type::Quantity => parts[1].map_or_else(|| "0".into(), |found| text(found).into()),
        Type::Time | Type::MicroTime if bytes.is_empty() => Value::Null,
        Type::Time | Type::MicroTime => {
            let nanos = i32::try_from(numbers[2]).map_err(|_| Unreadable::Malformed)?;
            let time = Timestamp::new(numbers[1], nanos).map_err(|_| Unreadable::Malformed)?;
            scalar::written(of, time).into()
        }
        Type::IntOrString if numbers[1] == 1 => text(parts[3].unwrap_or_default()).into(),
        Type::IntOrString => numbers[2].into(),
        Type::Raw => parts[1].map_or(Value::Null, json),
        Type::SchemaOrBool => match parts[2] {
            Some(found) => schema_of(found)?,
            None => (numbers[1] != 0).into(),
        },
        Type::SchemaOrSchemas | Type::SchemaOrStrings if lists.is_empty() => {
            schema_of(parts[1].unwrap_or_default())?
        }
        Type::SchemaOrSchemas => {
            let schemas: Result<Vec<Value>, Unreadable> =
                lists.into_iter().map(schema_of).collect();
            Value::Array(schemas?)
        }
        Type::SchemaOrStrings => lists
            .into_iter()
            .map(|found| Value::from(text(found)))
            .collect(),
        _ => return Err(Unreadable::Malformed),
    })
}

/// Parses JSON within a message.
fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
}
