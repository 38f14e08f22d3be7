//! Expansion of `#[subhandler]`: a callback that can be registered once it has the value that its function takes.
//!
//! For generated code.

use std::marker::PhantomData;

use crate::handler::options::Callback;

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
