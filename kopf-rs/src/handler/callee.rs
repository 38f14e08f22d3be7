//! How the function or closure of a handler is called.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use crate::handler::cause::Cause;
use crate::handler::error::HandlerError;
use crate::object::patch::Patch;

/// What a call gives: a result for `status.{id}`, nothing, or an error.
pub type Returned = Result<Option<Value>, HandlerError>;

/// A boxed future of a call.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Returned> + Send + 'a>>;

/// An annotated function.
#[derive(Clone, Copy)]
pub enum Function {
    /// An `async fn`.
    Async(for<'a> fn(&'a Cause, &'a mut Patch) -> Calling<'a>),
    /// A plain `fn`, run on the blocking pool.
    Blocking(fn(&Cause, &mut Patch) -> Returned),
}

/// A closure that is called like an `async fn`.
pub(crate) type Closure = dyn for<'a> Fn(&'a Cause, &'a mut Patch) -> Calling<'a> + Send + Sync;

/// A closure that is called like a plain `fn`, on the blocking pool.
pub(crate) type BlockingClosure = dyn Fn(&Cause, &mut Patch) -> Returned + Send + Sync;

/// What a handler calls: a function known at compile time, or a closure of an explicit registry.
#[derive(Clone)]
pub(crate) enum Callee {
    Fn(Function),
    Closure(Arc<Closure>),
    BlockingClosure(Arc<BlockingClosure>),
}

impl Callee {
    /// Whether it is called on the blocking pool, where no timeout can interrupt it.
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(
            self,
            Self::Fn(Function::Blocking(_)) | Self::BlockingClosure(_)
        )
    }
}

// === for generated code ===

/// Box the future of a handler. A function of its own so that the compiler names the bound when a future cannot be sent.
pub fn handler_future_must_be_send<'a, F: Future + Send + 'a>(
    future: F,
) -> Pin<Box<dyn Future<Output = F::Output> + Send + 'a>> {
    Box::pin(future)
}
