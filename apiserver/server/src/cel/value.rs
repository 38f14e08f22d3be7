//! The values of expressions.
//!
//! JSON is converted lazily, only as far as an expression accesses it. Independent of expression trees and functions.

mod equal;
mod given;
mod key;
pub(crate) mod moment;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use serde_json::{Map as JsonMap, Value as Json};

use super::run::format::Format;
use super::run::semver::Semver;
use super::run::url::Url;
pub(super) use equal::{compare, equal};
pub(crate) use key::Key;
use moment::Moment;

/// An evaluation error.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    /// An error message, as cel-go words it.
    Told(String),
    /// The cost exceeds the limit; no operator can hide this error.
    Limit,
}

pub(crate) type Outcome<'a> = Result<Value<'a>, Fault>;

/// The value of an expression or of one of its nodes.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    Timestamp(Moment),
    /// In nanoseconds.
    Duration(i64),
    /// The name of a type.
    Type(&'static str),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Rc<Value<'a>>>),
    /// In billionths.
    Quantity(i128),
    Ip(IpAddr),
    /// An address and its prefix length.
    Cidr(IpAddr, u8),
    Url(Rc<Url>),
    Semver(Rc<Semver>),
    Format(&'static Format),
    /// A value that the schema does not describe; it can only be compared.
    Unknown(&'a Json),
}

/// A list, either from JSON or computed.
#[derive(Clone, Debug)]
pub(crate) struct List<'a> {
    items: Items<'a>,
    /// The schema of the list, if known.
    schema: Option<&'a Json>,
}

#[derive(Clone, Debug)]
enum Items<'a> {
    Given(&'a [Json]),
    Made(Rc<Vec<Value<'a>>>),
}

/// A map or an object, either from JSON or computed.
#[derive(Clone, Debug)]
pub(crate) enum Map<'a> {
    Given {
        map: &'a JsonMap<String, Json>,
        /// `None` makes all fields visible.
        schema: Option<&'a Json>,
        /// True for a Kubernetes object with metadata.
        whole: bool,
    },
    Made(Rc<BTreeMap<Key, Value<'a>>>),
}

// === impl Fault ===

impl Fault {
    pub(super) fn told(why: impl Into<String>) -> Self {
        Self::Told(why.into())
    }

    /// Returns the error of a function that does not take these operands; names the operator if the first operand never fits it.
    pub(super) fn overload(name: &str, given: &[Value<'_>]) -> Self {
        use Value::{Bool, Bytes, Double, Duration, Int, List, Map, Text, Timestamp, Uint};
        let of = given.last().filter(|_| name == "@in").or(given.first());
        let known = of.is_none_or(|of| match name {
            "_+_" => matches!(
                of,
                Int(_)
                    | Uint(_)
                    | Double(_)
                    | Text(_)
                    | Bytes(_)
                    | List(_)
                    | Timestamp(_)
                    | Duration(_)
            ),
            "_-_" => matches!(
                of,
                Int(_) | Uint(_) | Double(_) | Timestamp(_) | Duration(_)
            ),
            "_*_" | "_/_" => matches!(of, Int(_) | Uint(_) | Double(_)),
            "_%_" => matches!(of, Int(_) | Uint(_)),
            "-_" => matches!(of, Int(_) | Double(_) | Duration(_) | Bool(_)),
            "!_" => matches!(of, Bool(_) | Int(_) | Double(_) | Duration(_)),
            "_<_" | "_<=_" | "_>_" | "_>=_" => matches!(
                of,
                Bool(_)
                    | Int(_)
                    | Uint(_)
                    | Double(_)
                    | Text(_)
                    | Bytes(_)
                    | Timestamp(_)
                    | Duration(_)
            ),
            "@in" => matches!(of, List(_) | Map(_)),
            "size" => matches!(of, Text(_) | Bytes(_) | List(_) | Map(_)),
            _ => true,
        });
        Self::Told(if known {
            "no such overload".to_owned()
        } else {
            format!("no such overload: {name}")
        })
    }
}

// === impl Value ===

impl<'a> Value<'a> {
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    /// Returns an empty map.
    pub(crate) fn no_entries() -> Self {
        Self::Map(Map::Made(Rc::default()))
    }

    /// Returns the map with one more entry; a value that is not a map stays unchanged.
    pub(crate) fn with_entry(self, name: &str, value: Self) -> Self {
        match self {
            Self::Map(map) => {
                let kept = map.clone();
                let key = Value::text(name);
                map.insert(&key, value).unwrap_or(Self::Map(kept))
            }
            other => other,
        }
    }

    pub(super) fn list(items: Vec<Self>) -> Self {
        Self::List(List::made(items))
    }

    pub(super) fn texts(texts: impl IntoIterator<Item = String>) -> Self {
        Self::list(texts.into_iter().map(Self::text).collect())
    }

    pub(super) fn some(value: Self) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    /// Returns the type name as cel-go prints it.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Type(_) => "type",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Returns the size that costs are based on.
    pub(super) fn size(&self) -> u64 {
        let count = match self {
            Self::Text(text) => text.chars().count(),
            Self::Bytes(octets) => octets.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(_, bits) => usize::from(bits.div_ceil(8)),
            Self::Optional(Some(inner)) => return inner.size(),
            _ => 1,
        };
        count.try_into().unwrap_or(u64::MAX)
    }

    /// Returns true if the value is the zero value of its type, which `optional.ofNonZeroValue` turns into an empty optional.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Null
            | Self::Optional(None)
            | Self::Int(0)
            | Self::Uint(0)
            | Self::Duration(0) => true,
            Self::Bool(truth) => !truth,
            Self::Double(number) => *number == 0.0,
            Self::Text(text) => text.is_empty(),
            Self::Bytes(octets) => octets.is_empty(),
            Self::List(list) => list.len() == 0,
            Self::Map(map) => map.len() == 0,
            _ => false,
        }
    }
}

// === impl List ===

impl<'a> List<'a> {
    pub(super) fn made(items: Vec<Value<'a>>) -> Self {
        Self {
            items: Items::Made(Rc::new(items)),
            schema: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.items {
            Items::Given(items) => items.len(),
            Items::Made(items) => items.len(),
        }
    }

    /// Returns true if an expression computed the list.
    pub(super) fn is_made(&self) -> bool {
        matches!(self.items, Items::Made(_))
    }

    pub(super) fn get(&self, at: usize) -> Option<Outcome<'a>> {
        match &self.items {
            Items::Given(items) => {
                let part = self.schema.and_then(|schema| schema.get("items"));
                Some(given::value(part, items.get(at)?))
            }
            Items::Made(items) => items.get(at).cloned().map(Ok),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Outcome<'a>> {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    pub(super) fn values(&self) -> Result<Vec<Value<'a>>, Fault> {
        self.iter().collect()
    }

    /// Returns the `x-kubernetes-list-type` of the schema.
    fn list_type(&self) -> &'a str {
        let found = self
            .schema
            .and_then(|schema| schema.get("x-kubernetes-list-type"));
        found.and_then(Json::as_str).unwrap_or_default()
    }

    /// Returns the key fields of a list of type `map`.
    fn key_fields(&self) -> Vec<&'a str> {
        let keys = self
            .schema
            .and_then(|schema| schema.get("x-kubernetes-list-map-keys"));
        let keys = keys.and_then(Json::as_array);
        keys.into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect()
    }

    /// Concatenates two lists. A list of type `set` stays free of duplicates; in one of type `map`, items of `other` replace those with the same key.
    pub(super) fn joined(self, other: &Self) -> Outcome<'a> {
        let schema = self.schema;
        let by = self.list_type();
        let keys = self.key_fields();
        let mut items = match self.items {
            Items::Made(items) => Rc::try_unwrap(items).unwrap_or_else(|items| (*items).clone()),
            Items::Given(_) => self.values()?,
        };
        if by != "set" && by != "map" {
            for item in other.iter() {
                items.push(item?);
            }
        } else {
            for item in other.iter() {
                let item = item?;
                let known = equal::position(&items, &item, by, &keys)?;
                match known {
                    Some(at) if by == "map" => items[at] = item,
                    Some(_) => {}
                    None => items.push(item),
                }
            }
        }
        let items = Items::Made(Rc::new(items));
        Ok(Value::List(Self { items, schema }))
    }
}

// === impl Map ===

impl<'a> Map<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Given { map, .. } => map.len(),
            Self::Made(map) => map.len(),
        }
    }

    pub(super) fn is_made(&self) -> bool {
        matches!(self, Self::Made(_))
    }

    /// Returns the value under a key.
    pub(super) fn find(&self, key: &Value<'_>) -> Result<Option<Value<'a>>, Fault> {
        match self {
            Self::Given { map, schema, whole } => match key {
                Value::Text(name) => given::field(map, *schema, *whole, name).transpose(),
                _ => Err(Fault::told("no such overload")),
            },
            Self::Made(map) => Ok(Key::found(key)
                .into_iter()
                .find_map(|key| map.get(&key))
                .cloned()),
        }
    }

    /// Returns the keys in order.
    pub(super) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Given { map, schema, whole } => map
                .keys()
                .filter_map(|name| given::shown_name(*schema, *whole, name))
                .map(Value::Text)
                .collect(),
            Self::Made(map) => map.keys().cloned().map(Key::value).collect(),
        }
    }

    /// Inserts an entry; the error of an existing key is that of cel-go.
    pub(super) fn insert(self, key: &Value<'_>, value: Value<'a>) -> Outcome<'a> {
        let Self::Made(map) = self else {
            return Err(Fault::told("no such overload"));
        };
        let mut map = Rc::try_unwrap(map).unwrap_or_else(|map| (*map).clone());
        let name = Key::of(key)?;
        if map.contains_key(&name) {
            let why = format!("insert failed: key {} already exists", shown(key));
            return Err(Fault::Told(why));
        }
        map.insert(name, value);
        Ok(Value::Map(Self::Made(Rc::new(map))))
    }
}

/// Formats a value for error messages.
pub(super) fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => crate::schema::go::float(*number),
        Value::Text(text) => text.to_string(),
        other => other.type_name().to_owned(),
    }
}
