//! What users' functions return, turned into what the engine understands.

use std::error::Error;

use serde::Serialize;
use serde_json::Value;

use crate::handler::callee::Returned;
use crate::handler::error::{HandlerError, PermanentError};

/// Return types of handlers.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not a return type of handlers",
    note = "return nothing, or `HandlerResult<T>`, or any `Result<T, E>` where `T` can be serialized and `E` is an error"
)]
pub trait IntoReturned {
    /// The result as JSON, or the failure.
    ///
    /// # Errors
    /// Where the handler failed, or where its result is no JSON.
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

/// JSON of a handler's result; nothing where it is `null`, as with Kopf's `None`.
fn result<T: Serialize>(value: &T) -> Returned {
    match serde_json::to_value(value) {
        Ok(Value::Null) => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            Err(PermanentError::new(format!("the handler's result is no JSON: {error}")).into())
        }
    }
}

// `Box<dyn Error>` without `Send + Sync` cannot join the blanket implementation above, because the standard library may one day let it
// into the other box. So generated code asks the value itself how to convert it: method lookup finds the special kind first.

/// Says that a value is a result with a box that cannot be sent.
pub trait LocalBoxKind {
    /// How to convert it.
    fn __kopf_kind(&self) -> LocalBox {
        LocalBox
    }
}

impl<T> LocalBoxKind for Result<T, Box<dyn Error>> {}

/// Says that a value is anything else.
pub trait AnyKind {
    /// How to convert it.
    fn __kopf_kind(&self) -> AnyReturned {
        AnyReturned
    }
}

impl<T> AnyKind for &T {}

/// Converts results with boxes that cannot be sent.
#[derive(Debug)]
pub struct LocalBox;

/// Converts all other values.
#[derive(Debug)]
pub struct AnyReturned;

impl LocalBox {
    /// Convert.
    ///
    /// # Errors
    /// Where the handler failed.
    #[expect(clippy::unused_self, reason = "found by method lookup")]
    pub fn convert<T: Serialize>(self, returned: Result<T, Box<dyn Error>>) -> Returned {
        result(&returned.map_err(|error| HandlerError::from_local(error.as_ref()))?)
    }
}

impl AnyReturned {
    /// Convert.
    ///
    /// # Errors
    /// Where the handler failed.
    #[expect(clippy::unused_self, reason = "found by method lookup")]
    pub fn convert<T: IntoReturned>(self, returned: T) -> Returned {
        returned.into_returned()
    }
}
