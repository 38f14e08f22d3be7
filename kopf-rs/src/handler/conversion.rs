//! Declares functions that convert the objects of a kind from one version to another.
//!
//! A conversion is not a handler: no event causes it, and it changes nothing except its input. This module depends on
//! neither chains of conversions nor conversion reviews.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::handler::callee::Returned;
use crate::handler::conversion::filling::Filling;
use crate::handler::error::{HandlerError, HandlerResult, PermanentError};
use crate::handler::location::{DeclaredAt, SourceLocation};
use crate::handler::outcome::panic_text;
use crate::object::selector::{Definition, Selector, SelectorName};

pub(crate) mod filling;

pub(crate) use filling::Filler;

/// The part of an object that a function converts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvertedPart {
    /// `spec`
    Spec,
    /// `status`
    Status,
    /// The whole object.
    Object,
}

/// The input of a conversion: a part of an object as JSON, which may need missing fields filled in.
#[derive(Debug)]
pub struct ConversionInput<'a> {
    value: &'a Value,
    filler: Option<Filler>,
    /// Why the input does not deserialize into the argument of the function.
    unreadable: RefCell<Option<String>>,
}

/// A closure in place of an annotated function, for [`Registry::on_convert`](crate::Registry::on_convert). Made by [`conversion`].
#[derive(Clone)]
pub struct Conversion {
    pub(super) name: String,
    pub(super) declared_at: DeclaredAt,
    part: ConvertedPart,
    call: Arc<Convert>,
}

type Convert = dyn Fn(&ConversionInput<'_>) -> Returned + Send + Sync;

/// A function that converts a part of the objects of a kind.
#[derive(Clone)]
pub(crate) struct ConversionFunction {
    pub(crate) name: String,
    pub(crate) declared_at: DeclaredAt,
    /// The name of the CRD: `plural.group`.
    pub(crate) kind: String,
    pub(crate) group: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) part: ConvertedPart,
    /// The definitions of both versions, of those that are Rust types.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "only `--manifests` reads it"))]
    pub(crate) definitions: Vec<Definition>,
    call: Arc<Convert>,
}

/// Why a conversion returned nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotConverted {
    /// The part does not deserialize into the argument: it may be incomplete.
    Unreadable(String),
    /// The function returned an error or panicked.
    Failed(String),
}

/// Makes a conversion from a closure, for [`Registry::on_convert`](crate::Registry::on_convert). It converts the
/// `spec` unless you choose another part.
///
/// ```
/// use kopf_rs::prelude::*;
/// use kopf_rs::{Registry, conversion};
///
/// let up = conversion("up", |spec: Value| Ok(json!({"host": spec["address"]})));
/// let down = conversion("down", |spec: Value| Ok(json!({"address": spec["host"]})));
/// let registry = Registry::new()
///     .on_convert(("example.com", "v1alpha1", "things"), ("example.com", "v1", "things"), up)
///     .on_convert(("example.com", "v1", "things"), ("example.com", "v1alpha1", "things"), down);
/// # assert_eq!(registry.len(), 2);
/// ```
#[track_caller]
pub fn conversion<A, B, F>(name: impl Into<String>, function: F) -> Conversion
where
    A: DeserializeOwned,
    B: Serialize,
    F: Fn(A) -> HandlerResult<B> + Send + Sync + 'static,
{
    Conversion {
        name: name.into(),
        declared_at: DeclaredAt::Closure(Location::caller()),
        part: ConvertedPart::Spec,
        call: Arc::new(move |given: &ConversionInput<'_>| {
            let converted = function(given.read::<A>()?)?;
            serialized(&converted)
        }),
    }
}

// === impl ===

impl Conversion {
    /// Converts the `status` instead of the `spec`.
    #[must_use]
    pub fn of_status(mut self) -> Self {
        self.part = ConvertedPart::Status;
        self
    }

    /// Converts the whole object instead of the `spec`.
    #[must_use]
    pub fn of_object(mut self) -> Self {
        self.part = ConvertedPart::Object;
        self
    }

    /// Adds the two versions; returns a message if they do not fit together.
    pub(crate) fn between(self, from: &Selector, to: &Selector) -> Result<ConversionFunction, String> {
        let (one, other) = (versioned(from)?, versioned(to)?);
        if (&one.group, &one.plural) != (&other.group, &other.plural) {
            return Err(format!(
                "{from} and {to} are not versions of one resource: objects are converted only between versions of their own resource"
            ));
        }
        if one.version == other.version {
            return Err(format!("`from` and `to` are both {}", one.version));
        }
        Ok(ConversionFunction {
            name: self.name,
            declared_at: self.declared_at,
            kind: format!("{}.{}", one.plural, one.group),
            group: one.group,
            from: one.version,
            to: other.version,
            part: self.part,
            definitions: [from, to].into_iter().filter_map(|it| it.definition).collect(),
            call: self.call,
        })
    }
}

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Conversion({:?}, {:?})", self.name, self.part)
    }
}

impl ConversionFunction {
    /// Calls the function. A `filler` fills in missing fields.
    pub(crate) fn call(&self, part: &Value, filler: Option<Filler>) -> Result<Option<Value>, NotConverted> {
        let given = ConversionInput { value: part, filler, unreadable: RefCell::default() };
        let called = catch_unwind(AssertUnwindSafe(|| (self.call)(&given)));
        let called = called.map_err(|payload| {
            let text = panic_text(payload.as_ref()).unwrap_or("a value that is no text");
            NotConverted::Failed(format!("`{}` has panicked: {text}", self.name))
        })?;
        if let Some(why) = given.unreadable.into_inner() {
            return Err(NotConverted::Unreadable(why));
        }
        match called {
            Ok(converted) => Ok(converted.map(|mut it| {
                drop_nulls(&mut it);
                it
            })),
            Err(error) => Err(NotConverted::Failed(format!("`{}` has failed: {error}", self.name))),
        }
    }
}

impl fmt::Debug for ConversionFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, from, to, .. } = self;
        write!(f, "ConversionFunction({name}, {kind}: {from} to {to})")
    }
}

impl ConvertedPart {
    /// Returns the object's member that this part is; `None` for the whole object.
    pub(crate) fn member(self) -> Option<&'static str> {
        match self {
            Self::Spec => Some("spec"),
            Self::Status => Some("status"),
            Self::Object => None,
        }
    }
}

impl ConversionInput<'_> {
    /// Deserializes the part into the argument of the function.
    ///
    /// # Errors
    /// Returns an error if the part does not deserialize.
    pub fn read<A: DeserializeOwned>(&self) -> Result<A, HandlerError> {
        let read = match self.filler {
            None => serde_path_to_error::deserialize(self.value)
                .map_err(|error| format!("{}: {}", error.path(), error.inner())),
            Some(filler) => {
                A::deserialize(Filling::new(self.value, filler)).map_err(|error| error.to_string())
            }
        };
        read.map_err(|why| {
            let error = PermanentError::new(why.clone());
            self.unreadable.replace(Some(why));
            error.into()
        })
    }
}

/// A resource in one version.
struct Versioned {
    group: String,
    version: String,
    plural: String,
}

fn versioned(selector: &Selector) -> Result<Versioned, String> {
    let plural = match &selector.name {
        SelectorName::Any(name) | SelectorName::Plural(name) => Some(name),
        _ => None,
    };
    let group = selector.group.as_ref().filter(|it| !it.is_empty());
    match (group, &selector.version, plural) {
        (Some(group), Some(version), Some(plural)) => {
            Ok(Versioned { group: group.clone(), version: version.clone(), plural: plural.clone() })
        }
        _ => Err(format!(
            "`{selector}` is incomplete: a conversion needs the group, the version and the plural name, such as `\"myapps.example.com\", from = \"v1alpha1\", to = \"v1\"`"
        )),
    }
}

/// Removes `null` members, since types that serialize an `Option` as `null` mean an absent field.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, it| !it.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn serialized<B: Serialize>(value: &B) -> Returned {
    let value = serde_json::to_value(value);
    let value = value.map_err(|error| PermanentError::new(format!("no JSON: {error}")))?;
    Ok(Some(value).filter(|it| !it.is_null()))
}

// === for generated code ===

/// Makes the conversion of an annotated function.
pub fn conversion_function(
    name: &str,
    location: SourceLocation,
    part: ConvertedPart,
    call: fn(&ConversionInput<'_>) -> Returned,
) -> Conversion {
    let declared_at = DeclaredAt::Function(location);
    Conversion { name: name.to_owned(), declared_at, part, call: Arc::new(call) }
}

/// Detects by method lookup that a value is a result.
pub trait ConvertedResult {
    /// Returns the converter for results.
    fn __kopf_converted(&self) -> OfResult {
        OfResult
    }
}

impl<T, E> ConvertedResult for Result<T, E> {}

/// Detects by method lookup that a value is not a result.
pub trait ConvertedValue {
    /// Returns the converter for plain values.
    fn __kopf_converted(&self) -> OfValue {
        OfValue
    }
}

impl<T> ConvertedValue for &T {}

/// Converts results.
#[derive(Debug)]
pub struct OfResult;

/// Converts all other values.
#[derive(Debug)]
pub struct OfValue;

impl OfResult {
    /// Converts the returned result.
    ///
    /// # Errors
    /// Returns the error of the function if the function has failed.
    #[expect(clippy::unused_self, reason = "found by method lookup")]
    pub fn convert<T: Serialize, E: Into<HandlerError>>(self, returned: Result<T, E>) -> Returned {
        serialized(&returned.map_err(Into::into)?)
    }
}

impl OfValue {
    /// Converts the returned value.
    ///
    /// # Errors
    /// Returns an error if the value cannot be written as JSON.
    #[expect(clippy::unused_self, reason = "found by method lookup")]
    pub fn convert<T: Serialize>(self, returned: T) -> Returned {
        serialized(&returned)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Old {
        size: u32,
        name: Option<String>,
    }

    fn function(conversion: Conversion) -> ConversionFunction {
        let of = |version| Selector::positional(&["example.com", version, "things"]).unwrap();
        conversion.between(&of("v1alpha1"), &of("v1")).unwrap()
    }

    #[test]
    fn a_part_is_converted_or_the_reason_returned() {
        let it = function(conversion("up", |old: Old| {
            assert!(old.size != 13, "unlucky");
            if old.size == 0 {
                return Err(PermanentError::new("no size").into());
            }
            Ok(old)
        }));
        let converted = it.call(&json!({"size": 1, "name": null, "more": 1}), None);
        assert_eq!(converted, Ok(Some(json!({"size": 1}))));
        let failed = |text: &str| Err(NotConverted::Failed(text.to_owned()));
        assert_eq!(it.call(&json!({"size": 0}), None), failed("`up` has failed: no size"));
        assert_eq!(it.call(&json!({"size": 13}), None), failed("`up` has panicked: unlucky"));
        let Err(NotConverted::Unreadable(why)) = it.call(&json!({"size": "x"}), None) else {
            panic!("it cannot be read");
        };
        assert!(why.starts_with("size: invalid type"), "{why}");
        let filled = it.call(&json!({"name": "a"}), Some(Filler::first()));
        assert_eq!(filled.unwrap().unwrap()["name"], "a");
    }

    #[test]
    fn versions_are_of_one_resource_and_differ() {
        let up = || conversion("up", |spec: Value| Ok(spec));
        for (from, to, expected) in [
            (["example.com", "v1", "things"], ["example.com", "v1", "things"], "both v1"),
            (
                ["example.com", "v1", "things"],
                ["example.com", "v2", "others"],
                "not versions of one resource",
            ),
            (["", "v1", "things"], ["", "v2", "things"], "the group, the version and the plural name"),
        ] {
            let [from, to] = [from, to].map(|it| Selector::positional(&it).unwrap());
            let problem = up().between(&from, &to).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
