//! The types that come with the server: what fields they have, how those travel, merge and are left out.
//!
//! Promise: the table is that of Kubernetes 1.36, made by the program in `tables/` from its published types and `OpenAPI`.
//! Parsed once per process, on first use. Must not know requests or the store.

mod emptied;
pub(crate) mod proto;
pub(crate) mod quantity;
pub(crate) mod reach;
mod restore;
mod scalar;
mod shape;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

pub(crate) use emptied::forget_empty;
pub(crate) use quantity::{nanos, written};
pub(crate) use restore::restore;
pub(crate) use shape::{shape, zero_field, zero_object};

const TABLE: &str = include_str!("../tables/types.txt");

static TYPES: LazyLock<Types> = LazyLock::new(|| parse(TABLE));

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// Text, with Go's name for its type.
    Text(&'static str),
    Bool,
    Int32,
    Int64,
    Float,
    Bytes,
    Quantity,
    Time,
    MicroTime,
    IntOrString,
    /// Any JSON.
    Raw,
    SchemaOrBool,
    SchemaOrSchemas,
    SchemaOrStrings,
    Struct(usize),
    Pointer(Box<Type>),
    List(Box<Type>),
    /// A list that is a message of its own in protobuf.
    Wrapped(Box<Type>),
    Map(Box<Type>),
}

/// How the parts of a list or map are told apart when objects are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Relation {
    /// As the type has it: maps by key, lists as a whole.
    #[default]
    Usual,
    Atomic,
    Set,
    Keys(Vec<&'static str>),
}

/// What strategic merge patch does with a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strategy {
    pub(crate) merge: bool,
    pub(crate) retain_keys: bool,
    pub(crate) key: Option<&'static str>,
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The JSON name; `-` for a struct whose fields stand among those of its owner.
    pub(crate) name: &'static str,
    number: u64,
    pub(crate) of: Type,
    omit_empty: bool,
    omit_zero: bool,
    pub(crate) relation: Relation,
    pub(crate) strategy: Strategy,
    default: Option<Value>,
}

/// A struct.
#[derive(Clone, Debug)]
pub(crate) struct Struct {
    /// The end of its package, and its name: `core/v1.Pod`.
    pub(crate) name: &'static str,
    /// Merged as a whole.
    pub(crate) atomic: bool,
    pub(crate) fields: Vec<Field>,
}

/// All types.
#[derive(Debug, Default)]
struct Types {
    kinds: HashMap<(&'static str, &'static str), usize>,
    structs: Vec<Struct>,
    schema: usize,
}

// === impl Field ===

impl Field {
    /// What the field is taken for when it is not there.
    pub(crate) fn usual(&self) -> Option<Value> {
        let written = !self.omit_empty && !matches!(self.of, Type::Pointer(_));
        let zero = || written.then(|| shape::zero(&self.of));
        self.default.clone().or_else(zero)
    }

    /// Whether its fields stand among those of its owner.
    pub(crate) fn is_inline(&self) -> bool {
        self.name == "-"
    }
}

// === impl Struct ===

impl Struct {
    /// A field by its JSON name, among those of embedded structs too.
    pub(crate) fn field(&'static self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find_map(|field| match field.of {
            Type::Struct(inner) if field.is_inline() => by_index(inner).field(name),
            _ => (field.name == name).then_some(field),
        })
    }

    /// `Pod`.
    pub(crate) fn short(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// `v1.Pod`.
    fn go_name(&self) -> &'static str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

// === impl Type ===

impl Type {
    /// What Go calls this type.
    fn go_name(&self) -> String {
        match self {
            Self::Text(name) => (*name).to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int32 | Self::IntOrString => "int32".to_owned(),
            Self::Int64 => "int64".to_owned(),
            Self::Float => "float64".to_owned(),
            Self::Bytes => "[]uint8".to_owned(),
            Self::Quantity => "resource.Quantity".to_owned(),
            Self::Time | Self::MicroTime => "string".to_owned(),
            Self::Raw => "runtime.RawExtension".to_owned(),
            Self::SchemaOrBool => "v1.JSONSchemaPropsOrBool".to_owned(),
            Self::SchemaOrSchemas => "v1.JSONSchemaPropsOrArray".to_owned(),
            Self::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray".to_owned(),
            Self::Struct(index) => by_index(*index).go_name().to_owned(),
            Self::Pointer(of) => of.go_name(),
            Self::List(of) | Self::Wrapped(of) => format!("[]{}", of.go_name()),
            Self::Map(of) => format!("map[string]{}", of.go_name()),
        }
    }

    /// The struct this is, or points to.
    pub(crate) fn as_struct(&self) -> Option<&'static Struct> {
        match self {
            Self::Struct(index) => Some(by_index(*index)),
            Self::Pointer(of) => of.as_struct(),
            Self::SchemaOrBool | Self::SchemaOrSchemas => Some(schema()),
            _ => None,
        }
    }

    /// What a list or map holds.
    pub(crate) fn element(&self) -> Option<&Self> {
        match self {
            Self::Pointer(of) => of.element(),
            Self::List(of) | Self::Wrapped(of) | Self::Map(of) => Some(of),
            _ => None,
        }
    }
}

/// The struct of a kind.
pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Struct> {
    let types: &Types = &TYPES;
    types
        .kinds
        .get(&(api_version, kind))
        .map(|index| by_index(*index))
}

/// Whether there is a struct of that name, and a field in it.
#[cfg(test)]
pub(crate) fn is_known(name: &str, field: Option<&str>) -> bool {
    let found = TYPES.structs.iter().find(|of| of.name == name);
    found.is_some_and(|of| field.is_none_or(|field| of.field(field).is_some()))
}

/// What metadata looks like.
pub(crate) fn metadata() -> Option<&'static Struct> {
    of_kind("v1", "ConfigMap")?
        .field("metadata")?
        .of
        .as_struct()
}

fn by_index(index: usize) -> &'static Struct {
    &TYPES.structs[index]
}

/// The struct of JSON schemas.
fn schema() -> &'static Struct {
    by_index(TYPES.schema)
}

fn parse(table: &'static str) -> Types {
    let lines = || table.lines();
    let names: HashMap<&str, usize> = lines()
        .filter_map(|line| line.strip_prefix("type "))
        .enumerate()
        .map(|(index, rest)| (rest.split(' ').next().unwrap_or(rest), index))
        .collect();
    let index = |name: &str| names.get(name).copied().unwrap_or_default();
    let mut types = Types {
        schema: index("apiextensions/v1.JSONSchemaProps"),
        ..Types::default()
    };
    for line in lines() {
        let words: Vec<&'static str> = line.split(' ').collect();
        match words.as_slice() {
            ["kind", version, kind, name] => {
                types.kinds.insert((version, kind), index(name));
            }
            ["type", name, rest @ ..] => types.structs.push(Struct {
                name,
                atomic: rest.contains(&"atomic"),
                fields: Vec::new(),
            }),
            ["", name, number, of, options @ ..] => {
                if let Some(last) = types.structs.last_mut() {
                    last.fields
                        .push(field(name, number, type_of(of, &index), options));
                }
            }
            _ => {}
        }
    }
    // Templates of claims and options of evictions carry their type; whole objects have lost theirs when they come here.
    for inner in ["core/v1.PersistentVolumeClaim", "meta/v1.DeleteOptions"] {
        if let Some(inner) = types.structs.get_mut(index(inner)) {
            for name in ["kind", "apiVersion"] {
                let text = field(name, "0", Type::Text("string"), &["o"]);
                inner.fields.push(text);
            }
        }
    }
    types
}

fn field(name: &'static str, number: &str, of: Type, options: &[&'static str]) -> Field {
    let mut field = Field {
        name,
        number: number.parse().unwrap_or_default(),
        of,
        omit_empty: false,
        omit_zero: false,
        relation: Relation::Usual,
        strategy: Strategy::default(),
        default: None,
    };
    for option in options {
        match option.split_once('=').unwrap_or((option, "")) {
            ("o", _) => field.omit_empty = true,
            ("z", _) => field.omit_zero = true,
            ("atomic", _) => field.relation = Relation::Atomic,
            ("set", _) => field.relation = Relation::Set,
            ("map", keys) => field.relation = Relation::Keys(keys.split(',').collect()),
            ("default", text) => field.default = serde_json::from_str(text).ok(),
            ("patch", words) => {
                field.strategy.merge = words.contains("merge");
                field.strategy.retain_keys = words.contains("retainKeys");
            }
            ("key", key) => field.strategy.key = Some(key),
            _ => {}
        }
    }
    field
}

fn type_of(text: &'static str, index: &impl Fn(&str) -> usize) -> Type {
    let inner = |rest: &'static str| Box::new(type_of(rest, index));
    if let Some(rest) = text.strip_prefix('*') {
        return Type::Pointer(inner(rest));
    }
    if let Some(rest) = text.strip_prefix("w[]") {
        return Type::Wrapped(inner(rest));
    }
    if let Some(rest) = text.strip_prefix("[]") {
        return Type::List(inner(rest));
    }
    if let Some(rest) = text.strip_prefix("{}") {
        return Type::Map(inner(rest));
    }
    if let Some(name) = text.strip_prefix('@') {
        return Type::Struct(index(name));
    }
    match text {
        "bool" => Type::Bool,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "float64" => Type::Float,
        "bytes" => Type::Bytes,
        "Quantity" => Type::Quantity,
        "Time" => Type::Time,
        "MicroTime" => Type::MicroTime,
        "IntOrString" => Type::IntOrString,
        "Raw" => Type::Raw,
        "SchemaOrBool" => Type::SchemaOrBool,
        "SchemaOrSchemas" => Type::SchemaOrSchemas,
        "SchemaOrStrings" => Type::SchemaOrStrings,
        text => Type::Text(text.strip_prefix("string=").unwrap_or("string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_understood() {
        for line in TABLE.lines().filter(|line| line.starts_with(' ')) {
            let name = line.split(' ').nth(3).unwrap_or_default();
            let word = name.trim_start_matches(['*', '[', ']', '{', '}', 'w']);
            let known = word.starts_with('@')
                || word.starts_with("string")
                || !matches!(type_of(word, &|_| 0), Type::Text(_));
            assert!(known, "{line}");
        }
        let map = of_kind("v1", "ConfigMap").unwrap();
        assert_eq!(map.short(), "ConfigMap");
        assert_eq!(map.field("data").unwrap().of.go_name(), "map[string]string");
        let pod = of_kind("v1", "PodTemplate").unwrap();
        let spec = pod.field("template").unwrap().of.as_struct().unwrap();
        let spec = spec.field("spec").unwrap().of.as_struct().unwrap();
        let keys = Relation::Keys(vec!["name"]);
        assert_eq!(spec.field("containers").unwrap().relation, keys);
        let volume = spec.field("volumes").unwrap().of.element().unwrap();
        assert!(volume.as_struct().unwrap().field("emptyDir").is_some());
    }
}
