//! Arguments: the name picks the datum, the type picks the conversion.
//!
//! Generated code asks `FromArg` for arguments taken by value, `LendArg` for arguments taken by reference, and the open trait
//! [`FromCause`] for arguments whose name is none of Kopf's. Must not know macros: plain code can use these traits too.

use std::any::type_name;
use std::ops::Deref;
use std::sync::Arc;

use crate::handler::cause::Cause;
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;

pub mod arg;
pub(crate) mod background;
pub(crate) mod given;
pub(crate) mod index;
pub(crate) mod json;
pub(crate) mod plain;

#[cfg(test)]
#[expect(
    clippy::unused_async,
    clippy::needless_pass_by_value,
    reason = "handlers ask for what they are tested with"
)]
mod tests;

/// Types in which the argument named `K` can be received by value.
#[diagnostic::on_unimplemented(
    message = "this handler argument cannot be received as `{Self}`",
    label = "unsupported type for the argument `{K}`",
    note = "the documentation of `kopf_rs::on_create` lists the types of each argument"
)]
pub trait FromArg<'a, K>: Sized {
    /// Make the argument.
    ///
    /// # Errors
    /// Where the datum is absent, or is no `Self`.
    fn from_arg(cause: &'a Cause) -> Result<Self, HandlerError>;

    /// Make the argument if its datum is there.
    ///
    /// # Errors
    /// Where the datum is there, but is no `Self`.
    fn from_arg_if_any(cause: &'a Cause) -> Result<Option<Self>, HandlerError> {
        Self::from_arg(cause).map(Some)
    }
}

/// Types in which the argument named `K` can be received by reference: first the value is held, then it is lent.
#[diagnostic::on_unimplemented(
    message = "this handler argument cannot be received as `&{Self}`",
    label = "unsupported type for the argument `{K}`",
    note = "the documentation of `kopf_rs::on_create` lists the types of each argument"
)]
pub trait LendArg<'a, K> {
    /// What is kept while the handler runs, and lent to it.
    type Held: Deref<Target = Self>;

    /// Get hold of the datum.
    ///
    /// # Errors
    /// Where the datum is absent, or is no `Self`.
    fn hold(cause: &'a Cause) -> Result<Self::Held, HandlerError>;

    /// Get hold of the datum if it is there.
    ///
    /// # Errors
    /// Where the datum is there, but is no `Self`.
    fn hold_if_any(cause: &'a Cause) -> Result<Option<Self::Held>, HandlerError> {
        Self::hold(cause).map(Some)
    }
}

/// Types that handlers may ask for under any name: implement it for your own.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// /// The value of the label `app`.
/// struct App(String);
///
/// impl FromCause<'_> for App {
///     fn from_cause(cause: &Cause) -> HandlerResult<Self> {
///         let app = cause.labels().get("app");
///         let app = app.ok_or_else(|| PermanentError::new("the label app is missing"))?;
///         Ok(Self(app.to_owned()))
///     }
/// }
///
/// #[on_create("kopfexamples")]
/// async fn create_fn(app: App) {
///     info!("created for {}", app.0);
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type that can be injected into a handler",
    label = "cannot be injected by type",
    note = "arguments with Kopf's names (spec, name, logger, ...) are recognised by name: the documentation of `kopf_rs::on_create` lists them",
    note = "another name for such an argument is given by `#[from(spec)]`; take a value that the operator was given as `State<T>`; any type that implements `kopf_rs::FromCause` can be injected"
)]
pub trait FromCause<'a>: Sized {
    /// Make the argument.
    ///
    /// # Errors
    /// If the argument cannot be made. The handler counts as failed then, and its function is not called.
    fn from_cause(cause: &'a Cause) -> Result<Self, HandlerError>;
}

/// A value that the operator was given by `Operator::with`, as an argument of its type.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// struct Db { url: String }
///
/// #[on_create("kopfexamples")]
/// async fn create_fn(db: State<Db>) {
///     info!("the database is at {}", db.url);
/// }
///
/// # async fn test() {
/// // In a unit test:
/// let db = State::from(Db { url: "memory".into() });
/// create_fn(db).await;
/// # }
/// ```
#[derive(Debug, Default)]
pub struct State<T> {
    // Named, lest it hide the first field of a tuple struct.
    value: Arc<T>,
}

// === impl State ===

impl<T> Deref for State<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self {
            value: Arc::clone(&self.value),
        }
    }
}

impl<T> From<T> for State<T> {
    fn from(value: T) -> Self {
        Self {
            value: Arc::new(value),
        }
    }
}

// === impl FromCause ===

impl<T: Send + Sync + 'static> FromCause<'_> for State<T> {
    fn from_cause(cause: &Cause) -> Result<Self, HandlerError> {
        cause.state().map(|value| Self { value })
    }
}

impl<'a> FromCause<'a> for &'a Cause {
    fn from_cause(cause: &'a Cause) -> Result<Self, HandlerError> {
        Ok(cause)
    }
}

impl FromCause<'_> for Logger {
    fn from_cause(cause: &Cause) -> Result<Self, HandlerError> {
        Ok(cause.logger().clone())
    }
}

impl FromCause<'_> for Memo {
    fn from_cause(cause: &Cause) -> Result<Self, HandlerError> {
        Ok(cause.memo().clone())
    }
}

// === arguments by type: param, client, settings ===

impl<'a, T: Clone + Send + Sync + 'static> FromArg<'a, arg::param> for T {
    fn from_arg(cause: &'a Cause) -> Result<Self, HandlerError> {
        <T as LendArg<'a, arg::param>>::hold(cause).cloned()
    }
    fn from_arg_if_any(cause: &'a Cause) -> Result<Option<Self>, HandlerError> {
        Ok(<T as LendArg<'a, arg::param>>::hold_if_any(cause)?.cloned())
    }
}

impl<'a, T: Send + Sync + 'static> LendArg<'a, arg::param> for T {
    type Held = &'a T;
    fn hold(cause: &'a Cause) -> Result<&'a T, HandlerError> {
        <T as LendArg<'a, arg::param>>::hold_if_any(cause)?.ok_or_else(no_param)
    }
    fn hold_if_any(cause: &'a Cause) -> Result<Option<&'a T>, HandlerError> {
        let Some(param) = cause.param.as_deref() else {
            return Ok(None);
        };
        let param = param.downcast_ref().map(Some);
        param.ok_or_else(|| wrong_param(type_name::<T>()))
    }
}

impl<'a> LendArg<'a, arg::param> for str {
    type Held = &'a str;
    fn hold(cause: &'a Cause) -> Result<&'a str, HandlerError> {
        <str as LendArg<'a, arg::param>>::hold_if_any(cause)?.ok_or_else(no_param)
    }
    fn hold_if_any(cause: &'a Cause) -> Result<Option<&'a str>, HandlerError> {
        let Some(param) = cause.param.as_deref() else {
            return Ok(None);
        };
        let text = param.downcast_ref::<&'static str>().copied();
        let text = text.or_else(|| param.downcast_ref::<String>().map(String::as_str));
        text.map(Some).ok_or_else(|| wrong_param("&str"))
    }
}

macro_rules! given {
    ($($name:ident)*) => {$(
        impl<'a, T: Clone + Send + Sync + 'static> FromArg<'a, arg::$name> for T {
            fn from_arg(cause: &'a Cause) -> Result<Self, HandlerError> {
                cause.state().map(|given| T::clone(&given))
            }
            fn from_arg_if_any(cause: &'a Cause) -> Result<Option<Self>, HandlerError> {
                let given: Option<Arc<T>> = cause.context.extensions.get();
                Ok(given.map(|given| T::clone(&given)))
            }
        }
        impl<'a, T: Send + Sync + 'static> LendArg<'a, arg::$name> for T {
            type Held = Arc<T>;
            fn hold(cause: &'a Cause) -> Result<Arc<T>, HandlerError> {
                cause.state()
            }
            fn hold_if_any(cause: &'a Cause) -> Result<Option<Arc<T>>, HandlerError> {
                Ok(cause.context.extensions.get())
            }
        }
    )*};
}

given! { client settings }

fn no_param() -> HandlerError {
    PermanentError::new("the handler asks for `param`, but was declared without one").into()
}

fn wrong_param(wanted: &str) -> HandlerError {
    PermanentError::new(format!(
        "the handler asks for `param` as `{wanted}`, but was declared with a value of another type"
    ))
    .into()
}
