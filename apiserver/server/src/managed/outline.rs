//! The merge structure of objects: which maps and lists are atomic, which are merged part by part, and what identifies a list item.
//!
//! Guarantees one view of built-in types, of the schemas of custom kinds, and of data without a schema.
//! Must not depend on field sets or managers.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::schema::go::value as go;
use crate::schema::go::{reread, type_of};
use crate::typed::{self, Relation, Struct, Type};

/// The type information for a place in an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outline<'a> {
    Struct(&'static Struct),
    Field(&'a Type, &'a Relation),
    /// The schema of a whole custom object.
    Root(&'a Value),
    /// A schema, and whether it or an enclosing schema preserves unknown fields.
    Schema(&'a Value, bool),
    /// No schema: maps are granular, lists are atomic.
    Free,
    /// An undeclared place: no value is valid here.
    Undeclared,
}

/// The forms that are valid at a place; if there are several, the value decides.
#[derive(Clone, Debug, Default)]
struct Choice<'a> {
    map: Option<Form<'a>>,
    scalar: Option<Scalar>,
    list: Option<Form<'a>>,
}

/// The type of a value without parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Number,
    Text,
    Boolean,
    Any,
}

/// The merge structure of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form<'a> {
    /// A value without parts.
    Scalar(Scalar),
    /// An atomic map.
    WholeMap,
    Map,
    /// An atomic list.
    WholeList,
    /// A list whose items are identified by their value.
    Set,
    /// A list whose items are identified by these fields.
    Keyed(Vec<&'a str>),
}

const USUAL: Relation = Relation::Usual;

/// The schema of a string.
static TEXT: LazyLock<Value> = LazyLock::new(|| json!({"type": "string"}));

// === impl Choice ===

impl<'a> Choice<'a> {
    fn map(whole: bool) -> Self {
        Self {
            map: Some(Form::map(whole)),
            ..Self::default()
        }
    }

    fn list(form: Form<'a>) -> Self {
        Self {
            list: Some(form),
            ..Self::default()
        }
    }

    fn scalar(scalar: Scalar) -> Self {
        Self {
            scalar: Some(scalar),
            ..Self::default()
        }
    }

    fn any(map: Form<'a>, list: Form<'a>) -> Self {
        Self {
            map: Some(map),
            scalar: Some(Scalar::Any),
            list: Some(list),
        }
    }

    /// Keeps only the form that fits a value; keeps all of them if none fits or the value is null.
    fn narrowed(self, value: &Value) -> Self {
        match (value, &self) {
            (Value::Object(_), Self { map: Some(_), .. }) => Self {
                scalar: None,
                list: None,
                ..self
            },
            (Value::Array(_), Self { list: Some(_), .. }) => Self {
                map: None,
                scalar: None,
                ..self
            },
            (
                Value::Bool(_) | Value::Number(_) | Value::String(_),
                Self {
                    scalar: Some(_), ..
                },
            ) => Self {
                map: None,
                list: None,
                ..self
            },
            _ => self,
        }
    }

    /// Returns the preferred form: map, then scalar, then list.
    fn first(self) -> Form<'a> {
        let scalar = self.scalar.map(Form::Scalar);
        let found = self.map.or(scalar).or(self.list);
        found.unwrap_or(Form::Scalar(Scalar::Any))
    }

    fn kinds(&self) -> [bool; 3] {
        [
            self.map.is_some(),
            self.scalar.is_some(),
            self.list.is_some(),
        ]
    }
}

// === impl Form ===

impl Form<'_> {
    fn map(whole: bool) -> Self {
        if whole { Self::WholeMap } else { Self::Map }
    }
}

// === impl Outline ===

impl<'a> Outline<'a> {
    /// Returns the form of a value at this place.
    pub(crate) fn form(self, value: &Value) -> Form<'a> {
        self.choice().narrowed(value).first()
    }

    /// Returns whether both values match the same forms at this place.
    pub(crate) fn alike(self, one: &Value, other: &Value) -> bool {
        let kinds = |value| self.choice().narrowed(value).kinds();
        kinds(one) == kinds(other)
    }

    fn choice(self) -> Choice<'a> {
        match self {
            Self::Struct(of) => Choice::map(of.atomic),
            Self::Field(of, relation) => choice_of_field(of, relation),
            Self::Root(schema) => Choice::map(schema["x-kubernetes-map-type"] == "atomic"),
            Self::Schema(schema, _) => choice_of_schema(schema),
            Self::Free | Self::Undeclared => Choice::any(Form::Map, Form::WholeList),
        }
    }

    /// Returns the outline of a map's field.
    pub(crate) fn child(self, name: &str) -> Self {
        match self {
            Self::Struct(of) => match of.field(name) {
                Some(field) => Self::Field(&field.of, &field.relation),
                None => Self::Undeclared,
            },
            Self::Field(of, _) => match (of.as_struct(), of.element()) {
                (Some(of), _) => Self::Struct(of).child(name),
                (None, Some(element)) => Self::Field(element, &USUAL),
                (None, None) => Self::Free,
            },
            Self::Root(schema) => child_of_schema(schema, keeps(schema), true, name),
            Self::Schema(schema, kept) => {
                let whole = schema["x-kubernetes-embedded-resource"] == true;
                child_of_schema(schema, kept, whole, name)
            }
            Self::Free | Self::Undeclared => Self::Free,
        }
    }

    /// Returns the outline of a list's items.
    pub(crate) fn item(self) -> Self {
        match self {
            Self::Field(of, _) => of
                .element()
                .map_or(Self::Free, |of| Self::Field(of, &USUAL)),
            Self::Schema(schema, kept) => schema.get("items").map_or(Self::Free, |items| {
                Self::Schema(items, kept || keeps(items))
            }),
            _ => Self::Free,
        }
    }

    /// Returns whether the outline has no type information about its parts.
    pub(crate) fn is_free(self) -> bool {
        match self {
            Self::Free | Self::Undeclared => true,
            Self::Schema(schema, _) => {
                let bare = schema["properties"].as_object().is_none_or(Map::is_empty);
                bare && match self.child("") {
                    Self::Free => true,
                    Self::Schema(extra, _) => extra["type"].as_str().is_none_or(str::is_empty),
                    _ => false,
                }
            }
            Self::Struct(_) | Self::Field(..) | Self::Root(_) => false,
        }
    }

    /// Returns whether a field is declared by the type, as opposed to a key of a free map.
    pub(crate) fn names(self, field: &str) -> bool {
        let is_type = matches!(field, "apiVersion" | "kind" | "metadata");
        match self {
            Self::Struct(of) => of.field(field).is_some(),
            Self::Field(of, _) => of.as_struct().is_some_and(|of| of.field(field).is_some()),
            Self::Root(_) if is_type => true,
            Self::Schema(schema, _)
                if is_type && schema["x-kubernetes-embedded-resource"] == true =>
            {
                true
            }
            Self::Root(schema) | Self::Schema(schema, _) => {
                schema["properties"].get(field).is_some()
            }
            Self::Free | Self::Undeclared => false,
        }
    }

    /// Returns the name of a list item in a field set, or the reason why it has none.
    pub(crate) fn item_name(self, form: &Form<'_>, item: &Value) -> Result<String, String> {
        match (form, item) {
            (Form::Keyed(keys), Value::Object(map)) => self.keys_of(keys, map),
            (Form::Keyed(_), Value::Null) => {
                Err("associative list with keys may not have a null element".to_owned())
            }
            (Form::Keyed(_), _) => {
                Err("associative list with keys may not have non-map elements".to_owned())
            }
            (_, Value::Object(_)) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            (_, Value::Array(_)) => {
                Err("not supported: associative list with lists as elements".to_owned())
            }
            (_, Value::Null) => Err(
                "associative list without keys has an element that's an explicit null".to_owned(),
            ),
            (_, item) => Ok(format!("v:{}", written(item))),
        }
    }

    fn keys_of(self, keys: &[&str], item: &Map<String, Value>) -> Result<String, String> {
        let of = self.item();
        let found: Map<String, Value> = keys
            .iter()
            .filter_map(|key| {
                let value = item.get(*key).cloned().or_else(|| of.default_of(key))?;
                Some(((*key).to_owned(), written(&value)))
            })
            .collect();
        if found.is_empty() {
            return Err(format!(
                "associative list with keys has an element that omits all key fields {keys:?} (and doesn't have default values for any key fields)"
            )
            .replace("\", \"", "\" \""));
        }
        Ok(format!("k:{}", Value::Object(found)))
    }

    fn default_of(self, key: &str) -> Option<Value> {
        match self {
            Self::Struct(of) => of.field(key)?.usual(),
            Self::Field(of, _) => of.as_struct()?.field(key)?.usual(),
            Self::Schema(schema, _) => schema["properties"].get(key)?.get("default").cloned(),
            _ => None,
        }
    }
}

// === impl Scalar ===

impl Scalar {
    /// Returns the reason why a value does not match, if it does not.
    pub(crate) fn misfit(self, value: &Value) -> Option<String> {
        let (wanted, got) = match (self, value) {
            (_, Value::Null)
            | (Self::Number, Value::Number(_))
            | (Self::Text, Value::String(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::Any, Value::Bool(_) | Value::Number(_) | Value::String(_)) => return None,
            (Self::Number, _) => ("numeric (int or float)", type_of(value).to_owned()),
            (Self::Text, _) => {
                let literal = literal(value);
                (
                    "string",
                    format!("&value.valueUnstructured{{Value:{literal}}}"),
                )
            }
            (Self::Boolean, _) => ("boolean", boxed(value)),
            (Self::Any, _) => ("any scalar", boxed(value)),
        };
        Some(format!("expected {wanted}, got {got}"))
    }
}

/// Formats a value as Go's `%v` prints a pointer to a struct with it.
pub(crate) fn boxed(value: &Value) -> String {
    format!("&{{{}}}", go(value))
}

/// Formats a JSON value as Go's `%#v` prints it.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Number(_) => go(value),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let entry = |(name, value): (&String, &Value)| format!("{name:?}:{}", literal(value));
            let entries: Vec<String> = map.iter().map(entry).collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
    }
}

/// Returns a value as field sets contain it: whole numbers have no decimal point.
fn written(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(reread(number)),
        other => other.clone(),
    }
}

fn keeps(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn choice_of_field<'a>(of: &'a Type, relation: &'a Relation) -> Choice<'a> {
    let atomic = *relation == Relation::Atomic;
    match of {
        Type::Pointer(of) => choice_of_field(of, relation),
        Type::Text(_) | Type::Bytes => Choice::scalar(Scalar::Text),
        Type::Bool => Choice::scalar(Scalar::Boolean),
        Type::Int32 | Type::Int64 | Type::Float => Choice::scalar(Scalar::Number),
        Type::Quantity | Type::Time | Type::MicroTime | Type::IntOrString => {
            Choice::scalar(Scalar::Any)
        }
        Type::Struct(_) => Choice::map(atomic || of.as_struct().is_some_and(|of| of.atomic)),
        Type::Map(_) => Choice::map(atomic),
        Type::List(_) | Type::Wrapped(_) => Choice::list(match relation {
            Relation::Set => Form::Set,
            Relation::Keys(keys) => Form::Keyed(keys.clone()),
            Relation::Usual | Relation::Atomic => Form::WholeList,
        }),
        Type::Raw | Type::SchemaOrBool | Type::SchemaOrSchemas | Type::SchemaOrStrings => {
            Choice::any(Form::WholeMap, Form::WholeList)
        }
    }
}

fn choice_of_schema(schema: &Value) -> Choice<'_> {
    let map = || Form::map(schema["x-kubernetes-map-type"] == "atomic");
    match schema["type"].as_str().unwrap_or_default() {
        "object" => Choice {
            map: Some(map()),
            ..Choice::default()
        },
        "array" => Choice::list(list_of_schema(schema)),
        "integer" | "number" => Choice::scalar(Scalar::Number),
        "boolean" => Choice::scalar(Scalar::Boolean),
        "string" => {
            let format = schema["format"].as_str().unwrap_or_default();
            let plain = matches!(format, "" | "byte");
            Choice::scalar(if plain { Scalar::Text } else { Scalar::Any })
        }
        _ => Choice::any(map(), list_of_schema(schema)),
    }
}

fn list_of_schema(schema: &Value) -> Form<'_> {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Form::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array();
            let keys = keys.into_iter().flatten().filter_map(Value::as_str);
            Form::Keyed(keys.collect())
        }
        _ => Form::WholeList,
    }
}

/// Returns the outline of a field of a map with a schema; `whole` says that the map is an object with type and metadata.
fn child_of_schema<'a>(schema: &'a Value, kept: bool, whole: bool, name: &str) -> Outline<'a> {
    match name {
        "metadata" if whole => return typed::metadata().map_or(Outline::Free, Outline::Struct),
        "apiVersion" | "kind" if whole => return Outline::Schema(&TEXT, kept),
        _ => {}
    }
    let below = |schema: &'a Value| Outline::Schema(schema, kept || keeps(schema));
    let properties = schema["properties"].as_object();
    if let Some(known) = properties.and_then(|properties| properties.get(name)) {
        return below(known);
    }
    let bare = !whole && properties.is_none_or(Map::is_empty);
    match schema.get("additionalProperties") {
        Some(extra @ Value::Object(_)) => below(extra),
        Some(Value::Bool(true)) => Outline::Free,
        None | Some(Value::Null) if kept || bare => Outline::Free,
        _ => Outline::Undeclared,
    }
}
