//! What `#[subhandler]` makes of a function: a callback, once it has what the function takes.
//!
//! For generated code.

use std::marker::PhantomData;

use crate::handler::callee::{Callee, Function};
use crate::handler::location::{DeclaredAt, SourceLocation};
use crate::handler::options::{CallbackOptions, ChangeOptions, CommonOptions};
use crate::handler::registry::callback::Callback;

/// The sub-handler that an annotated function is, called by its name or by the id it is given.
#[must_use]
pub fn subhandler(
    (name, id): (&str, Option<String>),
    location: SourceLocation,
    common: CommonOptions,
    options: ChangeOptions,
    call: Function,
) -> Callback {
    let id = id.or(common.id);
    Callback {
        name: id.unwrap_or_else(|| name.to_owned()),
        declared_at: DeclaredAt::Function(location),
        options: CallbackOptions {
            param: common.param,
            change: options,
            ..CallbackOptions::default()
        },
        callee: Callee::Fn(call),
    }
}

/// A sub-handler whose function takes a value: give it with [`param`](Self::param), then it can be registered.
#[must_use = "a sub-handler is called where it is registered: `subs.add(handle::id(..).param(..))`"]
#[derive(Clone, Debug)]
pub struct NeedsParam<T>(Callback, PhantomData<T>);

/// A sub-handler whose function takes a text: give it with [`param`](Self::param), then it can be registered.
#[must_use = "a sub-handler is called where it is registered: `subs.add(handle::id(..).param(..))`"]
#[derive(Clone, Debug)]
pub struct NeedsText(Callback);

impl<T: Send + Sync + 'static> NeedsParam<T> {
    /// Of a sub-handler without it.
    pub fn of(handler: Callback) -> Self {
        Self(handler, PhantomData)
    }
    /// What its function is given.
    #[must_use]
    pub fn param(self, param: T) -> Callback {
        self.0.param(param)
    }
}

impl NeedsText {
    /// Of a sub-handler without it.
    pub fn of(handler: Callback) -> Self {
        Self(handler)
    }
    /// What its function is given.
    #[must_use]
    pub fn param(self, param: impl Into<String>) -> Callback {
        self.0.param(param.into())
    }
}
