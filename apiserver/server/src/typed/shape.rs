//! Normalizes JSON to the form that a Go struct encodes to: drops unknown fields, omits empty ones, and normalizes values.
//!
//! Idempotent. Independent of which kinds exist.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::scalar::{self, Why};
use super::{Field, Struct, Type, by_index, schema};

/// The reason why an object does not match its type, as Go's decoder words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    why: Why,
    wanted: String,
    /// The struct of the value, and the path of fields to it, innermost first.
    owner: Option<&'static str>,
    fields: Vec<&'static str>,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let found = match &self.why {
            Why::Text(text) => return f.write_str(text),
            Why::Found(found) => found,
        };
        let wanted = &self.wanted;
        match self.owner {
            None => write!(
                f,
                "json: cannot unmarshal {found} into Go value of type {wanted}"
            ),
            Some(owner) => {
                let mut way = self.fields.clone();
                way.reverse();
                let way = way.join(".");
                write!(
                    f,
                    "json: cannot unmarshal {found} into Go struct field {owner}.{way} of type {wanted}"
                )
            }
        }
    }
}

type Fields = Map<String, Value>;

/// Returns the normalized object and its unknown fields.
///
/// # Errors
///
/// Returns an error if a value has the wrong type.
pub(crate) fn shape(of: &'static Struct, body: Fields) -> Result<(Fields, Vec<String>), Misfit> {
    let mut unknown = Vec::new();
    let shaped = object(of, body, &mut unknown)?;
    Ok((shaped, unknown))
}

/// Returns an object of that type with no fields set.
pub(crate) fn zero_object(of: &'static Struct) -> Fields {
    let mut out = Fields::new();
    for field in &of.fields {
        if field.is_inline() {
            if let Some(inner) = field.of.as_struct() {
                out.append(&mut zero_object(inner));
            }
        } else if !is_omitted_when_zero(field) {
            out.insert(field.name.to_owned(), zero(&field.of));
        }
    }
    out
}

/// Returns the value of a field that is not set, or `None` if it is omitted.
pub(crate) fn zero_field(of: &'static Struct, name: &str) -> Option<Value> {
    let field = of.field(name)?;
    (!is_omitted_when_zero(field)).then(|| zero(&field.of))
}

/// Returns true if Go omits the zero value of the field; structs never count as empty, but may be zero.
fn is_omitted_when_zero(field: &Field) -> bool {
    field.omit_zero || (field.omit_empty && can_be_empty(&field.of))
}

fn can_be_empty(of: &Type) -> bool {
    !matches!(
        of,
        Type::Struct(_)
            | Type::Time
            | Type::MicroTime
            | Type::Quantity
            | Type::IntOrString
            | Type::Raw
            | Type::SchemaOrBool
            | Type::SchemaOrSchemas
            | Type::SchemaOrStrings
    )
}

pub(super) fn zero(of: &Type) -> Value {
    match of {
        Type::Text(_) => "".into(),
        Type::Bool => false.into(),
        Type::Int32 | Type::Int64 | Type::Float | Type::IntOrString => 0.into(),
        Type::Quantity => "0".into(),
        Type::Struct(index) => Value::Object(zero_object(by_index(*index))),
        _ => Value::Null,
    }
}

fn object(
    of: &'static Struct,
    mut given: Fields,
    unknown: &mut Vec<String>,
) -> Result<Fields, Misfit> {
    let mut out = Fields::new();
    let mut misfits = BTreeMap::new();
    fields(of, &mut given, &mut out, unknown, &mut misfits);
    if let Some((_, mut misfit)) = misfits.pop_first() {
        misfit.owner.get_or_insert(of.short());
        return Err(misfit);
    }
    unknown.extend(given.into_iter().map(|(name, _)| name));
    Ok(out)
}

/// Normalizes fields and collects errors by name: Go's decoder reports the first in the text, where fields are mostly in alphabetical order.
fn fields(
    of: &'static Struct,
    given: &mut Fields,
    out: &mut Fields,
    unknown: &mut Vec<String>,
    misfits: &mut BTreeMap<&'static str, Misfit>,
) {
    for field in &of.fields {
        if field.is_inline() {
            if let Some(inner) = field.of.as_struct() {
                let mut below = BTreeMap::new();
                fields(inner, given, out, unknown, &mut below);
                for (name, mut misfit) in below {
                    misfit.fields.push(inner.short());
                    misfits.insert(name, misfit);
                }
            }
            continue;
        }
        let found = given.remove(field.name).filter(|found| !found.is_null());
        let from = unknown.len();
        let value = match found {
            None if is_omitted_when_zero(field) => continue,
            None => zero(&field.of),
            Some(found) => match value(&field.of, found, unknown) {
                Ok(value) => value,
                Err(mut misfit) => {
                    misfit.fields.push(field.name);
                    misfits.insert(field.name, misfit);
                    continue;
                }
            },
        };
        under(field.name, &mut unknown[from..]);
        let omitted = (field.omit_empty && can_be_empty(&field.of) && is_empty(&field.of, &value))
            || (field.omit_zero && value == zero(&field.of));
        if !omitted {
            out.insert(field.name.to_owned(), value);
        }
    }
}

fn is_empty(of: &Type, value: &Value) -> bool {
    match value {
        _ if matches!(of, Type::Pointer(_)) => false,
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Prefixes the paths of unknown fields with the name of the part around them.
fn under(part: &str, unknown: &mut [String]) {
    for path in unknown {
        let dot = if path.starts_with('[') { "" } else { "." };
        *path = format!("{part}{dot}{path}");
    }
}

pub(super) fn value(of: &Type, found: Value, unknown: &mut Vec<String>) -> Result<Value, Misfit> {
    let misfit = |why: Why| Misfit {
        why,
        wanted: of.go_name(),
        owner: None,
        fields: Vec::new(),
    };
    if let Some(scalar) = scalar::value(of, &found) {
        return scalar.map_err(misfit);
    }
    match (of, found) {
        (Type::Pointer(of), found) => value(of, found, unknown),
        (Type::Struct(index), Value::Object(map)) => {
            object(by_index(*index), map, unknown).map(Value::Object)
        }
        (Type::List(of) | Type::Wrapped(of), Value::Array(items)) => list(of, items, unknown),
        (Type::Map(of), Value::Object(entries)) => map(of, entries, unknown),
        (Type::SchemaOrBool, found @ Value::Bool(_))
        | (Type::SchemaOrStrings, found @ Value::Array(_)) => Ok(found),
        // In Go, these types decode themselves and do not report unknown fields.
        (
            Type::SchemaOrBool | Type::SchemaOrSchemas | Type::SchemaOrStrings,
            Value::Object(map),
        ) => object(schema(), map, &mut Vec::new()).map(Value::Object),
        (Type::SchemaOrSchemas, Value::Array(items)) => {
            let of = Type::SchemaOrBool;
            list(&of, items, &mut Vec::new())
        }
        (_, found) => {
            let found = crate::rules::go_type(&found).to_owned();
            Err(misfit(Why::Found(found)))
        }
    }
}

fn list(of: &Type, items: Vec<Value>, unknown: &mut Vec<String>) -> Result<Value, Misfit> {
    let mut shaped = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        let from = unknown.len();
        shaped.push(if item.is_null() {
            zero(of)
        } else {
            value(of, item, unknown)?
        });
        if unknown.len() > from {
            under(&format!("[{at}]"), &mut unknown[from..]);
        }
    }
    Ok(Value::Array(shaped))
}

fn map(of: &Type, entries: Fields, unknown: &mut Vec<String>) -> Result<Value, Misfit> {
    let mut shaped = Fields::new();
    for (key, entry) in entries {
        let from = unknown.len();
        let entry = match entry {
            // The stored form of null bytes is an empty string.
            Value::Null if *of == Type::Bytes => "".into(),
            Value::Null => zero(of),
            entry => value(of, entry, unknown)?,
        };
        under(&key, &mut unknown[from..]);
        shaped.insert(key, entry);
    }
    Ok(Value::Object(shaped))
}

#[cfg(test)]
mod tests {
    use super::super::of_kind;
    use super::*;
    use serde_json::json;

    fn shaped(version: &str, kind: &str, body: Value) -> Result<(Value, Vec<String>), String> {
        let Value::Object(body) = body else {
            return Err("no object".to_owned());
        };
        shape(of_kind(version, kind).unwrap(), body)
            .map(|(body, unknown)| (Value::Object(body), unknown))
            .map_err(|misfit| misfit.to_string())
    }

    #[test]
    fn a_struct_writes_what_go_writes() {
        let (body, unknown) = shaped(
            "apps/v1",
            "Deployment",
            json!({
                "metadata": {"name": "d", "labels": {}, "foo": 1},
                "spec": {
                    "replicas": null, "paused": false, "bar": {},
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "0.5"}}, "baz": 1}]}},
                },
            }),
        )
        .unwrap();
        assert_eq!(
            body,
            json!({
                "metadata": {"name": "d"},
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "strategy": {},
                    "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "500m"}}}]}},
                },
                "status": {},
            })
        );
        let expected = [
            "metadata.foo",
            "spec.template.spec.containers[0].baz",
            "spec.bar",
        ];
        assert_eq!(unknown, expected);
        let again = shaped("apps/v1", "Deployment", body.clone()).unwrap();
        assert_eq!(again, (body, Vec::new()));
    }

    #[test]
    fn misfits_are_told_as_go_tells_them() {
        for (kind, body, expected) in [
            (
                "Deployment",
                json!({"spec": {"replicas": "3"}}),
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                "Deployment",
                json!({"spec": {"template": {"spec": {"containers": [{"name": 1}]}}}}),
                "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string",
            ),
            (
                "Deployment",
                json!({"metadata": {"labels": {"a": true}}}),
                "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                "Deployment",
                json!({"spec": []}),
                "json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec",
            ),
        ] {
            assert_eq!(shaped("apps/v1", kind, body), Err(expected.to_owned()));
        }
    }
}
