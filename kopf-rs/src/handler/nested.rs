//! Expansion of `#[subhandler]`: a callback that can be registered once it has the value that its function takes.
//!
//! For generated code.

use std::marker::PhantomData;

use crate::handler::callee::{Callee, Function};
use crate::handler::location::{DeclaredAt, SourceLocation};
use crate::handler::options::Callback;
use crate::handler::options::Options;

/// Makes a sub-handler from an annotated function, with the function's name or the given id.
#[must_use]
pub fn subhandler(
    (name, id): (&str, Option<String>),
    location: SourceLocation,
    options: Options,
    call: Function,
) -> Callback {
    let id = id.or_else(|| options.id.clone());
    Callback {
        name: id.unwrap_or_else(|| name.to_owned()),
        declared_at: DeclaredAt::Function(location),
        options,
        callee: Callee::Fn(call),
    }
}

/// A sub-handler whose function takes a value: pass it with [`param`](Self::param) before registration.
#[must_use = "a sub-handler is called where it is registered: `subs.add(handle::id(..).param(..))`"]
#[derive(Clone, Debug)]
pub struct NeedsParam<T>(Callback, PhantomData<T>);

/// A sub-handler whose function takes a text: pass it with [`param`](Self::param) before registration.
#[must_use = "a sub-handler is called where it is registered: `subs.add(handle::id(..).param(..))`"]
#[derive(Clone, Debug)]
pub struct NeedsText(Callback);

impl<T: Send + Sync + 'static> NeedsParam<T> {
    /// Wraps a sub-handler that still lacks the value.
    pub fn of(handler: Callback) -> Self {
        Self(handler, PhantomData)
    }
    /// Sets the value that the function takes.
    #[must_use]
    pub fn param(self, param: T) -> Callback {
        self.0.param(param)
    }
}

impl NeedsText {
    /// Wraps a sub-handler that still lacks the text.
    pub fn of(handler: Callback) -> Self {
        Self(handler)
    }
    /// Sets the text that the function takes.
    #[must_use]
    pub fn param(self, param: impl Into<String>) -> Callback {
        self.0.param(param.into())
    }
}
