//! Index functions: `index`. They map an object to keys and values. The operator stores the result in the index with
//! the function's id rather than on the object.

use crate::handler::callee::{Callee, Returned};
use crate::handler::cause::Cause;
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::index::Index;
use crate::handler::index::erased::{IndexType, IndexUpdate, Indices};
use crate::handler::index::returned::IndexReturn;
use crate::handler::options::Callback;
use crate::handler::registry::callback::{Context, handler};
use crate::handler::subject::Subject;

use std::any::Any;
use std::hash::Hash;
use std::sync::Arc;

/// Makes an index function from a closure, for [`Registry::index`](crate::Registry::index). The operator calls it inline while it processes a
/// watch event, so it must not block.
///
/// ```
/// use kopf_rs::prelude::*;
/// use kopf_rs::{Registry, indexer};
///
/// let by_node = indexer("by_node", |cause| {
///     let node: Option<String> = cause.read("spec.nodeName")?;
///     Ok::<_, HandlerError>(node.map(|node| (node, cause.name().to_owned())))
/// });
/// let count = handler("count", |cause| async move {
///     let by_node = cause.index::<String, String>("by_node")?;
///     info!("{} has {} pods", cause.name(), by_node.get(cause.name()).len());
///     Ok(())
/// });
/// let registry = Registry::new()
///     .index(("v1", "pods"), by_node.label("app", PRESENT))
///     .on_event(("v1", "nodes"), count);
/// registry.check().unwrap();
/// ```
#[track_caller]
pub fn indexer<F, R>(id: impl Into<String>, function: F) -> Callback
where
    F: Fn(&Cause) -> R + Send + Sync + 'static,
    R: IndexReturn,
{
    let mut callback = handler(id, |_| async { Ok(()) });
    callback.handler.callee =
        Callee::BlockingClosure(Arc::new(move |cause, _| index_returned(cause, function(cause))));
    callback.indexing(IndexType::of_function::<R>())
}

/// Like [`indexer`], for an async closure, which may await.
#[track_caller]
pub fn indexer_async<F, C, R>(id: impl Into<String>, function: F) -> Callback
where
    F: Fn(Context) -> C + Send + Sync + 'static,
    C: Future<Output = R> + Send + 'static,
    R: IndexReturn,
{
    let callback = handler(id, move |context: Context| {
        let cause = Cause::clone(&context);
        let returned = function(context);
        async move { index_returned(&cause, returned.await).map(|_| ()) }
    });
    callback.indexing(IndexType::of_function::<R>())
}

impl Cause {
    /// Returns the index of that name, which is the id of its functions.
    ///
    /// # Errors
    /// Returns a permanent error if there is no such index, or if its keys and values have different types.
    pub fn index<K, V>(&self, name: &str) -> Result<Index<K, V>, HandlerError>
    where
        K: Eq + Hash + Send + Sync + 'static,
        V: Clone + Send + Sync + 'static,
    {
        let indices = self.context.extensions.get::<Indices>();
        let found = indices.as_ref().and_then(|indices| indices.get(name));
        let Some(found) = found else {
            let message = format!(
                "there is no index `{name}`: no function with #[index] has this id (in a unit test, give one by `TestCause::index`)"
            );
            return Err(PermanentError::new(message).into());
        };
        let found: &dyn Any = found;
        let typed = found.downcast_ref::<Index<K, V>>().cloned();
        Ok(typed.ok_or_else(|| {
            let wanted = IndexType::of::<K, V>();
            PermanentError::new(format!("the index `{name}` is no {wanted}"))
        })?)
    }
}

// === for generated code ===

/// Passes the result of an index function to the engine.
///
/// # Errors
/// Returns the error of the function.
pub fn index_returned<R: IndexReturn>(cause: &Cause, returned: R) -> Returned {
    let entries = returned.into_entries()?;
    if let Subject::Index(subject) = &cause.subject {
        subject.entries.put(Box::new(IndexUpdate::from(entries)));
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
