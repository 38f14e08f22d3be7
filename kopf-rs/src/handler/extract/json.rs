//! JSON arguments: received as `Value`, as a map, or as any type that implements `Deserialize`.
//!
//! A mismatch is a permanent error that names the path inside the object.

use std::any::Any;
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::handler::cause::Cause;
use crate::handler::error::HandlerError;
use crate::handler::extract::{GivenAs, LentAs, arg};
use crate::handler::read::{Absent, At, read, stanza};
use crate::object::path::FieldPath;

/// A value that is borrowed from the object if it already has the right type, and deserialized otherwise.
#[derive(Debug)]
pub enum Lent<'a, T> {
    /// Borrowed from the object.
    Borrowed(&'a T),
    /// Deserialized.
    Owned(T),
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        match self {
            Self::Borrowed(value) => value,
            Self::Owned(value) => value,
        }
    }
}

macro_rules! json_arg {
    ($($name:ident at $path:literal, absent as $absent:ident: |$cause:ident| $datum:expr;)*) => {$(
        impl<'a, T: DeserializeOwned + 'static> GivenAs<'a, arg::$name> for T {
            fn from_arg($cause: &'a Cause) -> Result<Self, HandlerError> {
                read($cause.at($path), $datum.as_deref(), Absent::$absent)
            }
            fn from_arg_if_any($cause: &'a Cause) -> Result<Option<Self>, HandlerError> {
                let datum = $datum.filter(|value| !value.is_null());
                let datum = datum.map(|value| read($cause.at($path), Some(&value), Absent::$absent));
                datum.transpose()
            }
        }
        impl<'a> LentAs<'a, arg::$name> for str {
            type Held = Cow<'a, str>;
            fn hold(cause: &'a Cause) -> Result<Cow<'a, str>, HandlerError> {
                let held = <str as LentAs<'a, arg::$name>>::hold_if_any(cause)?;
                held.map_or_else(|| read(cause.at($path), None, Absent::Null).map(Cow::Owned), Ok)
            }
            fn hold_if_any($cause: &'a Cause) -> Result<Option<Cow<'a, str>>, HandlerError> {
                let datum = $datum.filter(|value| !value.is_null());
                datum.map(|value| text($cause.at($path), &value)).transpose()
            }
        }
        impl<'a, T: DeserializeOwned + 'static> LentAs<'a, arg::$name> for T {
            type Held = Lent<'a, T>;
            fn hold(cause: &'a Cause) -> Result<Lent<'a, T>, HandlerError> {
                let held = <T as LentAs<'a, arg::$name>>::hold_if_any(cause)?;
                held.map_or_else(|| lend_nothing(cause.at($path), Absent::$absent), Ok)
            }
            fn hold_if_any($cause: &'a Cause) -> Result<Option<Lent<'a, T>>, HandlerError> {
                let datum = $datum.filter(|value| !value.is_null());
                datum.map(|value| lend($cause.at($path), &value, Absent::$absent)).transpose()
            }
        }
    )*};
}

json_arg! {
    body at "", absent as Empty: |cause| lent(cause.body());
    spec at "spec", absent as Empty: |cause| lent(cause.body().spec());
    status at "status", absent as Empty: |cause| lent(cause.body().status());
    meta at "metadata", absent as Empty: |cause| lent(cause.meta());
    labels at "metadata.labels", absent as Empty: |cause| lent(&cause.meta()["labels"]);
    annotations at "metadata.annotations", absent as Empty: |cause| lent(&cause.meta()["annotations"]);
    old at "old", absent as Null: |cause| cause.old().map(Cow::Borrowed);
    new at "new", absent as Null: |cause| cause.new().map(Cow::Borrowed);
    event at "event", absent as Null: |cause| Some(Cow::<Value>::Owned(cause.event()));
    userinfo at "userInfo", absent as Empty: |cause| cause.review().map(|it| Cow::Borrowed(&it.facts.userinfo));
    headers at "headers", absent as Empty: |cause| lent(cause.headers());
    sslpeer at "sslpeer", absent as Empty: |cause| lent(cause.sslpeer());
}

impl<'a, T: DeserializeOwned> GivenAs<'a, arg::object> for Arc<T> {
    fn from_arg(cause: &'a Cause) -> Result<Self, HandlerError> {
        cause.object().map(Self::new)
    }
}

impl<'a, T: DeserializeOwned + 'static> LentAs<'a, arg::object> for T {
    type Held = Lent<'a, T>;
    fn hold(cause: &'a Cause) -> Result<Lent<'a, T>, HandlerError> {
        <T as LentAs<'a, arg::body>>::hold(cause)
    }
    fn hold_if_any(cause: &'a Cause) -> Result<Option<Lent<'a, T>>, HandlerError> {
        <T as LentAs<'a, arg::body>>::hold_if_any(cause)
    }
}

fn lent(value: &Value) -> Option<Cow<'_, Value>> {
    stanza(value).map(Cow::Borrowed)
}

fn lend<'a, T: DeserializeOwned + 'static>(
    at: At<'_>,
    datum: &Cow<'a, Value>,
    absent: Absent,
) -> Result<Lent<'a, T>, HandlerError> {
    if let Cow::Borrowed(value) = *datum
        && let Some(same) = view(value)
    {
        return Ok(Lent::Borrowed(same));
    }
    read(at, Some(datum), absent).map(Lent::Owned)
}

fn text<'a>(at: At<'_>, datum: &Cow<'a, Value>) -> Result<Cow<'a, str>, HandlerError> {
    if let Cow::Borrowed(Value::String(text)) = *datum {
        return Ok(Cow::Borrowed(text));
    }
    read(at, Some(datum), Absent::Null).map(Cow::Owned)
}

fn lend_nothing<'a, T: DeserializeOwned + 'static>(
    at: At<'_>,
    absent: Absent,
) -> Result<Lent<'a, T>, HandlerError> {
    match nothing() {
        Some(nothing) => Ok(Lent::Borrowed(nothing)),
        None => read(at, None, absent).map(Lent::Owned),
    }
}

/// Returns the value itself if `T` is `Value`, or its map if `T` is a JSON map.
fn view<T: 'static>(value: &Value) -> Option<&T> {
    let value_itself = (value as &dyn Any).downcast_ref();
    value_itself.or_else(|| (value.as_object()? as &dyn Any).downcast_ref())
}

/// Returns `null` or the empty map if `T` is a JSON type.
fn nothing<T: 'static>() -> Option<&'static T> {
    static NULL: Value = Value::Null;
    static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    let null = (&NULL as &dyn Any).downcast_ref();
    null.or_else(|| (&*EMPTY as &dyn Any).downcast_ref())
}

// === fields of stanzas, for generated code ===

/// Returns one field of a stanza. The field is required unless `T` deserializes from `null`. For generated code.
///
/// # Errors
/// Returns a permanent error that names the JSON path if the field does not deserialize into `T`.
pub fn field<T: DeserializeOwned>(cause: &Cause, stanza: &str, names: &[&str]) -> Result<T, HandlerError> {
    let (path, value) = found(cause, stanza, names);
    read(cause.at(&path), value, Absent::Null)
}

/// Like [`field`], but returns `None` if the object has no such field.
///
/// # Errors
/// Returns a permanent error that names the JSON path if the field does not deserialize into `T`.
pub fn field_if_any<T: DeserializeOwned>(
    cause: &Cause,
    stanza: &str,
    names: &[&str],
) -> Result<Option<T>, HandlerError> {
    let (path, value) = found(cause, stanza, names);
    let read = |value| read(cause.at(&path), Some(value), Absent::Null);
    value.map(read).transpose()
}

fn found<'a>(cause: &'a Cause, stanza: &str, names: &[&str]) -> (String, Option<&'a Value>) {
    let root = match stanza {
        "body" => None,
        "meta" => Some("metadata"),
        _ => Some(stanza),
    };
    let path = FieldPath::from_parts(root.into_iter().chain(names.iter().copied()));
    (path.to_string(), path.resolve(cause.body()))
}
