//! Extracts the arguments of handlers: the argument's name selects the datum, its type selects the conversion.
//!
//! Generated code uses `GivenAs` for arguments taken by value, `LentAs` for arguments taken by reference, and the
//! open trait [`FromCause`] for arguments whose names Kopf does not define. Plain code can use these traits too, so
//! this module must not depend on macros.

use std::any::type_name;
use std::ops::Deref;
use std::sync::Arc;

use crate::handler::cause::Cause;
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;

pub mod arg;
pub(crate) mod background;
pub(crate) mod extractors;
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

/// Types in which a handler can take the argument named `K` by value. The compiler quotes this trait, so its messages
/// must read as sentences.
#[diagnostic::on_unimplemented(
    message = "this handler argument cannot be received as `{Self}`",
    label = "unsupported type for the argument `{K}`",
    note = "the documentation of `kopf_rs::on_create` lists the types of each argument"
)]
pub trait GivenAs<'a, K>: Sized {
    /// Extracts the argument.
    ///
    /// # Errors
    /// Returns an error if the datum is absent or does not convert to `Self`.
    fn from_arg(cause: &'a Cause) -> Result<Self, HandlerError>;

    /// Extracts the argument if its datum is present.
    ///
    /// # Errors
    /// Returns an error if the datum is present but does not convert to `Self`.
    fn from_arg_if_any(cause: &'a Cause) -> Result<Option<Self>, HandlerError> {
        Self::from_arg(cause).map(Some)
    }
}

/// Types in which a handler can take the argument named `K` by reference: the engine first obtains a guard, then
/// borrows from it.
#[diagnostic::on_unimplemented(
    message = "this handler argument cannot be received as `&{Self}`",
    label = "unsupported type for the argument `{K}`",
    note = "the documentation of `kopf_rs::on_create` lists the types of each argument"
)]
pub trait LentAs<'a, K> {
    /// The guard that lives while the handler runs.
    type Held: Deref<Target = Self>;

    /// Obtains the guard.
    ///
    /// # Errors
    /// Returns an error if the datum is absent or does not convert to `Self`.
    fn hold(cause: &'a Cause) -> Result<Self::Held, HandlerError>;

    /// Obtains the guard if the datum is present.
    ///
    /// # Errors
    /// Returns an error if the datum is present but does not convert to `Self`.
    fn hold_if_any(cause: &'a Cause) -> Result<Option<Self::Held>, HandlerError> {
        Self::hold(cause).map(Some)
    }
}

/// Types that handlers can ask for under any argument name. Implement it for your own extractors.
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
    /// Extracts the argument.
    ///
    /// # Errors
    /// Returns an error if the argument cannot be made. The handler then counts as failed, and its function is not
    /// called.
    fn from_cause(cause: &'a Cause) -> Result<Self, HandlerError>;
}

/// An extractor for a value that was registered with `Operator::with`, by its type.
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
    // A named field, since a tuple field `0` would shadow the first field of a tuple struct `T` behind `Deref`.
    value: Arc<T>,
}

// === impl State ===

impl<T> State<T> {
    /// Returns the shared value. An associated function, because a method could shadow one of `T`.
    #[cfg(feature = "cli")]
    pub(crate) fn shared(this: &Self) -> Arc<T> {
        Arc::clone(&this.value)
    }
}

impl<T> Deref for State<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value) }
    }
}

impl<T> From<T> for State<T> {
    fn from(value: T) -> Self {
        Self { value: Arc::new(value) }
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

impl<'a, T: Clone + Send + Sync + 'static> GivenAs<'a, arg::param> for T {
    fn from_arg(cause: &'a Cause) -> Result<Self, HandlerError> {
        <T as LentAs<'a, arg::param>>::hold(cause).cloned()
    }
    fn from_arg_if_any(cause: &'a Cause) -> Result<Option<Self>, HandlerError> {
        Ok(<T as LentAs<'a, arg::param>>::hold_if_any(cause)?.cloned())
    }
}

impl<'a, T: Send + Sync + 'static> LentAs<'a, arg::param> for T {
    type Held = &'a T;
    fn hold(cause: &'a Cause) -> Result<&'a T, HandlerError> {
        <T as LentAs<'a, arg::param>>::hold_if_any(cause)?.ok_or_else(no_param)
    }
    fn hold_if_any(cause: &'a Cause) -> Result<Option<&'a T>, HandlerError> {
        let Some(param) = cause.param.as_deref() else {
            return Ok(None);
        };
        let param = param.downcast_ref().map(Some);
        param.ok_or_else(|| wrong_param(type_name::<T>()))
    }
}

impl<'a> LentAs<'a, arg::param> for str {
    type Held = &'a str;
    fn hold(cause: &'a Cause) -> Result<&'a str, HandlerError> {
        <str as LentAs<'a, arg::param>>::hold_if_any(cause)?.ok_or_else(no_param)
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
        impl<'a, T: Clone + Send + Sync + 'static> GivenAs<'a, arg::$name> for T {
            fn from_arg(cause: &'a Cause) -> Result<Self, HandlerError> {
                cause.state().map(|given| T::clone(&given))
            }
            fn from_arg_if_any(cause: &'a Cause) -> Result<Option<Self>, HandlerError> {
                let given: Option<Arc<T>> = cause.context.extensions.get();
                Ok(given.map(|given| T::clone(&given)))
            }
        }
        impl<'a, T: Send + Sync + 'static> LentAs<'a, arg::$name> for T {
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
