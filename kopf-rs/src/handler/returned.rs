//! Converts the return values of user functions into the engine's form.

use std::error::Error;

use serde::Serialize;

use crate::handler::callee::Returned;
use crate::handler::error::HandlerError;
use crate::handler::read::to_json;

/// Types that a handler can return.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not a return type of handlers",
    note = "return nothing, or `HandlerResult<T>`, or any `Result<T, E>` where `T` can be serialized and `E` is an error"
)]
pub trait IntoReturned {
    /// Returns the result as JSON, or the failure.
    ///
    /// # Errors
    /// Returns an error if the handler failed, or if its result cannot be written as JSON.
    fn into_returned(self) -> Returned;
}

impl IntoReturned for () {
    fn into_returned(self) -> Returned {
        Ok(None)
    }
}

impl<T: Serialize, E: Into<HandlerError>> IntoReturned for Result<T, E> {
    fn into_returned(self) -> Returned {
        result(&self.map_err(Into::into)?)
    }
}

/// Serializes a handler's result. `null` means no result, as Kopf's `None` does.
fn result<T: Serialize>(value: &T) -> Returned {
    let value = to_json(value, "the handler's result")?;
    Ok(Some(value).filter(|it| !it.is_null()))
}

// `Box<dyn Error>` without `Send + Sync` cannot join the blanket implementation above, because the standard library
// may one day implement the conversion into the other box. Therefore, generated code selects the conversion by method
// lookup, which finds the more specific trait first.

/// Detects by method lookup that a value is a result with an error box that is not `Send`.
pub trait LocalBoxKind {
    /// Returns the converter for such results.
    fn __kopf_kind(&self) -> LocalBox {
        LocalBox
    }
}

impl<T> LocalBoxKind for Result<T, Box<dyn Error>> {}

/// Detects by method lookup that a value has any other type.
pub trait AnyKind {
    /// Returns the converter for other values.
    fn __kopf_kind(&self) -> AnyReturned {
        AnyReturned
    }
}

impl<T> AnyKind for &T {}

/// Converts results whose error box is not `Send`.
#[derive(Debug)]
pub struct LocalBox;

/// Converts all other values.
#[derive(Debug)]
pub struct AnyReturned;

impl LocalBox {
    /// Converts the returned result.
    ///
    /// # Errors
    /// Returns the error of the handler.
    #[expect(clippy::unused_self, reason = "found by method lookup")]
    pub fn convert<T: Serialize>(self, returned: Result<T, Box<dyn Error>>) -> Returned {
        result(&returned.map_err(|error| HandlerError::from_local(error.as_ref()))?)
    }
}

impl AnyReturned {
    /// Converts the returned value.
    ///
    /// # Errors
    /// Returns the error of the handler.
    #[expect(clippy::unused_self, reason = "found by method lookup")]
    pub fn convert<T: IntoReturned>(self, returned: T) -> Returned {
        returned.into_returned()
    }
}
