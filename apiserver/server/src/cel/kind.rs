//! The types of values in expressions.
//!
//! Types are printed as cel-go prints them. Independent of expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::parse::RESERVED;

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Any type; checked at evaluation.
    Dyn,
    /// The type of a faulty or unsupported node; it fits everywhere, so that an error is reported once.
    Unknown,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    Type,
    List(Box<Kind>),
    Map(Box<Kind>, Box<Kind>),
    Optional(Box<Kind>),
    Object(Arc<Object>),
    /// A type that Kubernetes adds.
    Named(&'static str),
    /// A type variable, which unification resolves.
    Open(usize),
}

/// An object type with declared fields.
#[derive(Debug, PartialEq)]
pub(crate) struct Object {
    name: String,
    pub(super) fields: BTreeMap<String, Kind>,
}

/// Words with a meaning in expressions, in addition to the reserved ones.
const WORDS: [&str; 4] = ["true", "false", "null", "in"];

/// The type names that expressions may use as values.
pub(crate) const TYPES: [&str; 9] = [
    "int",
    "uint",
    "double",
    "string",
    "bool",
    "bytes",
    "list",
    "map",
    "null_type",
];

// === impl Kind ===

impl Kind {
    /// Returns the type for values of a schema, or `None` if expressions cannot access them.
    pub(crate) fn of(schema: &Value, whole: bool) -> Option<Self> {
        of_schema(schema, whole, "selfType1")
    }

    pub(super) fn list(of: Self) -> Self {
        Self::List(Box::new(of))
    }

    pub(super) fn is_loose(&self) -> bool {
        matches!(self, Self::Dyn | Self::Unknown)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Dyn | Self::Open(_) => "dyn",
            Self::Unknown => "!error!",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
            Self::Type => "type",
            Self::List(of) => return write!(f, "list({of})"),
            Self::Map(key, of) => return write!(f, "map({key}, {of})"),
            Self::Optional(of) => return write!(f, "optional_type({of})"),
            Self::Object(of) => &of.name,
            Self::Named(name) => name,
        };
        f.write_str(word)
    }
}

fn of_schema(schema: &Value, whole: bool, name: &str) -> Option<Kind> {
    let is = |flag: &str| schema.get(flag) == Some(&Value::Bool(true));
    if is("x-kubernetes-int-or-string") {
        return Some(Kind::Dyn);
    }
    let embedded = |part: &Value| part.get("x-kubernetes-embedded-resource") == Some(&true.into());
    let text = |name: &str| schema.get(name).and_then(Value::as_str);
    Some(match text("type")? {
        "array" => {
            let items = schema.get("items")?;
            let of = of_schema(items, embedded(items), &format!("{name}.@idx"))?;
            Kind::list(of)
        }
        "object" => {
            let extra = schema.get("additionalProperties").filter(|e| e.is_object());
            if let Some(extra) = extra {
                let of = of_schema(extra, embedded(extra), &format!("{name}.@elem"))?;
                return Some(Kind::Map(Box::new(Kind::Text), Box::new(of)));
            }
            object(schema, whole, name)
        }
        "string" => match text("format") {
            Some("byte") => Kind::Bytes,
            Some("duration") => Kind::Duration,
            Some("date" | "date-time") => Kind::Timestamp,
            _ => Kind::Text,
        },
        "boolean" => Kind::Bool,
        "number" => Kind::Double,
        "integer" => Kind::Int,
        _ => return None,
    })
}

fn object(schema: &Value, whole: bool, name: &str) -> Kind {
    let mut fields = BTreeMap::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (field, part) in properties.into_iter().flatten() {
        let embedded = part.get("x-kubernetes-embedded-resource") == Some(&true.into());
        let Some(escaped) = escaped(field) else {
            continue;
        };
        if let Some(of) = of_schema(part, embedded, &format!("{name}.{escaped}")) {
            fields.insert(escaped, of);
        }
    }
    if whole {
        let names = ["name", "generateName"].map(|field| (field.to_owned(), Kind::Text));
        let metadata = Object {
            name: format!("{name}.metadata"),
            fields: BTreeMap::from(names),
        };
        fields.insert("metadata".to_owned(), Kind::Object(Arc::new(metadata)));
        fields.insert("kind".to_owned(), Kind::Text);
        fields.insert("apiVersion".to_owned(), Kind::Text);
    }
    Kind::Object(Arc::new(Object {
        name: name.to_owned(),
        fields,
    }))
}

fn is_word(name: &str) -> bool {
    WORDS.contains(&name) || RESERVED.contains(&name)
}

/// Returns the property name as expressions write it, or `None` if they cannot.
pub(crate) fn escaped(name: &str) -> Option<String> {
    if is_word(name) {
        return Some(format!("__{name}__"));
    }
    let escaped = name
        .replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = name.starts_with(|c: char| !c.is_ascii_digit());
    (starts && escaped.chars().all(letter)).then_some(escaped)
}

/// Returns the field that a name refers to; a reserved word also matches the field with the escaped name.
pub(super) fn meant<'a, T>(fields: &'a BTreeMap<String, T>, name: &str) -> Option<&'a T> {
    let escaped = || is_word(name).then(|| fields.get(&format!("__{name}__")));
    fields.get(name).or_else(|| escaped().flatten())
}

/// Returns the property name for an escaped name, or `None` if the escape is invalid.
pub(super) fn unescaped(name: &str) -> Option<std::borrow::Cow<'_, str>> {
    if !name.contains("__") {
        return Some(name.into());
    }
    let mut rest = name;
    let mut made = String::new();
    while let Some(at) = rest.find("__") {
        made.push_str(&rest[..at]);
        let tail = &rest[at + 2..];
        let end = tail
            .find('_')
            .filter(|end| *end > 0 && tail[*end..].starts_with("__"));
        let Some(end) = end else {
            // No escape starts here, but one may start at the next character.
            made.push('_');
            rest = &rest[at + 1..];
            continue;
        };
        made.push_str(match &tail[..end] {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            word if is_word(word) && word.len() + 4 == name.len() => word,
            _ => return None,
        });
        rest = &tail[end + 2..];
    }
    made.push_str(rest);
    Some(made.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields_by_table() {
        for (name, written) in [
            ("plain", "plain"),
            ("namespace", "__namespace__"),
            ("while", "__while__"),
            ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
            ("a__b", "a__underscores__b"),
            (".a", "__dot__a"),
        ] {
            assert_eq!(escaped(name).as_deref(), Some(written));
            assert_eq!(unescaped(written).as_deref(), Some(name));
        }
        assert_eq!(escaped("1a"), None);
        assert_eq!(escaped("a b"), None);
        assert_eq!(unescaped("namespace").as_deref(), Some("namespace"));
        assert_eq!(unescaped("a__b").as_deref(), Some("a__b"));
        assert_eq!(unescaped("a___b").as_deref(), Some("a___b"));
        assert_eq!(unescaped("__nonsense__"), None);
    }
}
