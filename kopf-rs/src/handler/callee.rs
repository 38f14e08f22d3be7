//! Calls the function or closure of a handler.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use crate::handler::cause::Cause;
use crate::handler::error::HandlerError;
use crate::object::patch::Patch;

/// The outcome of a call: a result for `status.{id}`, no result, or an error.
pub type Returned = Result<Option<Value>, HandlerError>;

/// The boxed future of a call.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Returned> + Send + 'a>>;

/// An annotated function.
#[derive(Clone, Copy)]
pub enum Function {
    /// An `async fn`.
    Async(for<'a> fn(&'a Cause, &'a mut Patch) -> Calling<'a>),
    /// A plain `fn`, run on the blocking pool.
    Blocking(fn(&Cause, &mut Patch) -> Returned),
}

/// A closure that the engine awaits, like an `async fn`.
pub(crate) type Closure = dyn for<'a> Fn(&'a Cause, &'a mut Patch) -> Calling<'a> + Send + Sync;

/// A closure that the engine runs on the blocking pool, like a plain `fn`.
pub(crate) type BlockingClosure = dyn Fn(&Cause, &mut Patch) -> Returned + Send + Sync;

/// The code that a handler calls: a function known at compile time, or a closure of an explicit registry.
#[derive(Clone)]
pub(crate) enum Callee {
    Fn(Function),
    Closure(Arc<Closure>),
    BlockingClosure(Arc<BlockingClosure>),
}

impl Callee {
    /// Returns whether the code runs on the blocking pool, where no timeout can interrupt it.
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(self, Self::Fn(Function::Blocking(_)) | Self::BlockingClosure(_))
    }
}

// === for generated code ===

/// Boxes the future of a handler. This is a separate function so that the compiler names the bound when a future is
/// not `Send`.
pub fn handler_future_must_be_send<'a, F: Future + Send + 'a>(
    future: F,
) -> Pin<Box<dyn Future<Output = F::Output> + Send + 'a>> {
    Box::pin(future)
}
