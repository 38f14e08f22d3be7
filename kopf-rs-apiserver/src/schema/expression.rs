//! Expressions in CEL, with the functions Kubernetes adds to the language.
//!
//! Promise: the same expression on the same values gives the same answer; nothing is changed. What the evaluator cannot do is
//! an error, never a yes. Must not know rules or requests.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use base64::Engine as _;
use kube_cel::KubeCelExt as _;
use kube_cel::cel::objects::{Key, OptionalValue};
use kube_cel::cel::parser::{Expression, Parser};
use kube_cel::cel::{Context, Value as Cel};
use serde_json::Value;

use super::bounds;
use super::cel::kind::{TYPES, escaped};

/// Whether this build can evaluate expressions at all.
pub(super) const AVAILABLE: bool = true;

/// How many expressions are kept parsed.
const KEPT: usize = 4096;

type Parsed = Result<Arc<Expression>, String>;

static PARSED: LazyLock<Mutex<HashMap<String, Parsed>>> = LazyLock::new(Mutex::default);

/// The functions that expressions may call.
pub(super) struct Expressions(Context<'static>);

/// What an expression is about.
pub(super) struct Values<'a> {
    pub(super) schema: &'a Value,
    pub(super) value: &'a Value,
    pub(super) old: Option<&'a Value>,
    /// The old value is bound as an optional one.
    pub(super) optional: bool,
}

// === impl Expressions ===

impl Expressions {
    pub(super) fn new() -> Self {
        let mut context = Context::default().with_all();
        // The evaluator knows no types as values: their names stand for them.
        context.add_function("type", |value: Cel| named(type_of(&value)));
        for name in TYPES {
            context.add_variable_from_value(name, Cel::String(Arc::new(named(name))));
        }
        Self(context)
    }

    /// Whether an expression names `oldSelf`.
    #[expect(clippy::unused_self, reason = "its twin and its siblings are methods")]
    pub(super) fn names_old(&self, source: &str) -> bool {
        parsed(source).is_ok_and(|found| found.references().has_variable("oldSelf"))
    }

    /// Whether an expression holds.
    pub(super) fn truth(&self, source: &str, values: &Values<'_>) -> Result<bool, String> {
        match self.evaluate(source, values)? {
            Cel::Bool(truth) => Ok(truth),
            other => Err(format!("no such overload: {:?}", other.type_of())),
        }
    }

    /// The text an expression makes, if it makes any.
    pub(super) fn text(&self, source: &str, values: &Values<'_>) -> Option<String> {
        match self.evaluate(source, values) {
            Ok(Cel::String(text)) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    fn evaluate(&self, source: &str, values: &Values<'_>) -> Result<Cel, String> {
        let expression = parsed(source)?;
        let mut scope = self.0.new_inner_scope();
        scope.add_variable_from_value("self", value(values.schema, values.value));
        let old = values.old.map(|old| value(values.schema, old));
        if values.optional {
            let old = old.map_or_else(OptionalValue::none, OptionalValue::of);
            scope.add_variable_from_value("oldSelf", Cel::Opaque(Arc::new(old)));
        } else if let Some(old) = old {
            scope.add_variable_from_value("oldSelf", old);
        }
        Cel::resolve(&expression, &scope).map_err(|error| error.to_string())
    }
}

/// What stands for a type among values.
fn named(name: &str) -> String {
    format!("type {name}")
}

fn type_of(value: &Cel) -> &'static str {
    match value {
        Cel::Int(_) => "int",
        Cel::UInt(_) => "uint",
        Cel::Float(_) => "double",
        Cel::String(_) => "string",
        Cel::Bool(_) => "bool",
        Cel::Bytes(_) => "bytes",
        Cel::List(_) => "list",
        Cel::Map(_) => "map",
        Cel::Null => "null_type",
        _ => "dyn",
    }
}

fn parsed(source: &str) -> Parsed {
    let mut known = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(source) {
        return found.clone();
    }
    if known.len() >= KEPT {
        known.clear();
    }
    let told = |errors: String| errors.replace("\n| ", "\n | ");
    let parser = Parser::default().enable_optional_syntax(true);
    let compiled = || {
        parser
            .parse(source)
            .map_err(|errors| told(errors.to_string()))
    };
    let fresh = bounds::check(source).and_then(|()| compiled().map(Arc::new));
    known.insert(source.to_owned(), fresh.clone());
    fresh
}

/// Whether an expression names `oldSelf`; or why it is none.
pub(super) fn compile(source: &str) -> Result<bool, String> {
    parsed(source).map(|found| found.references().has_variable("oldSelf"))
}

/// What a schema calls its values.
pub(super) fn type_name(schema: &Value) -> &str {
    schema.get("type").and_then(Value::as_str).unwrap_or("any")
}

/// A value as expressions see it, by its schema.
fn value(schema: &Value, found: &Value) -> Cel {
    match found {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(whole) if type_name(schema) != "number" => Cel::Int(whole),
            _ => Cel::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => string(schema, text),
        Value::Array(items) => {
            let part = schema.get("items").unwrap_or(&Value::Null);
            Cel::List(Arc::new(
                items.iter().map(|item| value(part, item)).collect(),
            ))
        }
        Value::Object(map) => {
            let properties = schema.get("properties");
            let extra = schema.get("additionalProperties").filter(|e| e.is_object());
            let entries = map.iter().map(|(name, found)| {
                let known = properties.and_then(|properties| properties.get(name));
                let part = known.or(extra).unwrap_or(&Value::Null);
                let name = if known.is_some() {
                    escaped(name).unwrap_or_else(|| name.clone())
                } else {
                    name.clone()
                };
                (Key::String(Arc::new(name)), value(part, found))
            });
            let map: HashMap<Key, Cel> = entries.collect();
            Cel::Map(map.into())
        }
    }
}

fn string(schema: &Value, text: &str) -> Cel {
    let plain = || Cel::String(Arc::new(text.to_owned()));
    match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => {
            chrono::DateTime::parse_from_rfc3339(text).map_or_else(|_| plain(), Cel::Timestamp)
        }
        Some("date") => chrono::DateTime::parse_from_rfc3339(&format!("{text}T00:00:00Z"))
            .map_or_else(|_| plain(), Cel::Timestamp),
        Some("duration") => super::format::duration(text).map_or_else(plain, |nanos| {
            Cel::Duration(chrono::Duration::nanoseconds(nanos))
        }),
        Some("byte") => base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_or_else(|_| plain(), |bytes| Cel::Bytes(Arc::new(bytes))),
        _ => plain(),
    }
}
