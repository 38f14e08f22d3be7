//! Sub-handlers: registered while their parent runs, each with its own progress and retries.
//!
//! This module does not call them: the engine provides a runner.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::handler::cause::Cause;
use crate::handler::error::{HandlerError, HandlerResult, PermanentError, causes};
use crate::handler::extract::FromCause;
use crate::handler::extract::extractors::{ByType, family};
use crate::handler::lifecycle::Lifecycle;
use crate::handler::options::{Callback, NO_PARENT};
use crate::handler::subject::Subject;

/// The sub-handlers of one call: Kopf's `@kopf.subhandler` and `kopf.execute()`.
///
/// The parent must register the same sub-handlers in each of its calls for the same object. They run after the parent
/// has returned, or while it awaits [`execute`](Self::execute). The operator writes the outcome of each to the
/// object, and calls the parent again until all are done. Their ids are `parent/child`. The `retry` of the parent
/// counts only its own failures, and not the calls that its sub-handlers need.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[on_create("kopfexamples")]
/// async fn create_fn(#[from(spec.items)] items: Vec<String>, subs: Subhandlers, patch: &mut Patch) -> HandlerResult {
///     for item in items {
///         subs.add(handle::id(&item).param(item));
///     }
///     subs.execute().await?;
///     // Only when all items are handled:
///     patch.set("status.items", "handled");
///     Ok(())
/// }
///
/// #[subhandler(retries = 3)]
/// async fn handle(item: &str, retry: u32) -> HandlerResult {
///     info!("handling {item}, attempt {retry}");
///     Ok(())
/// }
/// ```
///
/// [`subhandler`](macro@crate::subhandler) documents annotated functions. A closure can use values of its parent:
/// [`handler_with`](crate::handler_with) gives a clone of them to each call:
///
/// ```
/// # use kopf_rs::prelude::*;
/// # #[on_create("kopfexamples")]
/// # async fn create_fn(spec: &Value, subs: Subhandlers, memo: Memo) -> HandlerResult {
/// for item in spec["items"].as_array().cloned().unwrap_or_default() {
///     subs.add(handler_with(item["name"].as_str().unwrap_or_default(), (item.clone(), memo.clone()), async |cause, (item, memo)| {
///         if cause.retry() == 0 {
///             retry!(5, "{item} is not ready");
///         }
///         memo.insert(item);
///         Ok(())
///     }));
/// }
/// # Ok(())
/// # }
/// ```
///
/// A failed sub-handler fails its parent when all others are done, unless the parent calls [`ignore_failures`](Self::ignore_failures).
/// In a closure, `cause.subhandlers()?` returns the sub-handlers. A sub-handler can have sub-handlers.
#[derive(Clone)]
pub struct Subhandlers(Arc<Registered>);

struct Registered {
    group: Mutex<Group>,
    runner: Option<Box<dyn RunGroup>>,
}

/// The sub-handlers registered since the last execution.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) callbacks: Vec<Callback>,
    pub(crate) lifecycle: Option<Lifecycle>,
    pub(crate) tolerant: bool,
}

impl Group {
    fn taken(&mut self) -> Self {
        Self {
            callbacks: std::mem::take(&mut self.callbacks),
            lifecycle: self.lifecycle.clone(),
            tolerant: self.tolerant,
        }
    }
}

/// Runs a group for one parent.
pub(crate) trait RunGroup: Send + Sync {
    fn run(&self, group: Group) -> GroupFuture;
}

/// The future of a group.
pub(crate) type GroupFuture = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

/// Some sub-handlers are left for the next call of their parent.
#[derive(Debug, thiserror::Error)]
#[error("some sub-handlers are not done yet")]
pub(crate) struct Unfinished;

impl Subhandlers {
    /// Creates a handle for unit tests of handlers, which registers sub-handlers but never runs them.
    #[must_use]
    pub fn new() -> Self {
        Self::lent(None)
    }

    pub(crate) fn lent(runner: Option<Box<dyn RunGroup>>) -> Self {
        Self(Arc::new(Registered { group: Mutex::default(), runner }))
    }

    /// Registers a sub-handler: a closure, or a function with the attribute [`subhandler`](macro@crate::subhandler).
    /// Its full id is `parent/child`.
    pub fn add(&self, handler: impl IntoSubhandler) {
        self.0.group.lock().callbacks.push(handler.into_callback());
    }

    /// Registers several, as with [`Subhandlers::add`]:
    /// `subs.extend(items.iter().map(|item| fill::id(item).param(item)))`.
    pub fn extend<T: IntoSubhandler>(&self, handlers: impl IntoIterator<Item = T>) {
        handlers.into_iter().for_each(|handler| self.add(handler));
    }

    /// Lets the parent succeed even if sub-handlers fail, as in Kopf.
    pub fn ignore_failures(&self) {
        self.0.group.lock().tolerant = true;
    }

    /// Runs the sub-handlers by this lifecycle instead of the operator's.
    pub fn lifecycle(&self, lifecycle: Lifecycle) {
        self.0.group.lock().lifecycle = Some(lifecycle);
    }

    /// Returns the ids of the sub-handlers that are registered but not executed yet, without the parent's id.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        let group = self.0.group.lock();
        let ids = group.callbacks.iter().map(|callback| callback.handler.id.to_string());
        ids.collect()
    }

    /// Runs the sub-handlers that are due. Returns `Ok` only when all of them are done.
    ///
    /// # Errors
    /// Returns a marker error if some are not done. This is not a failure: pass it on with `?`, and the engine calls the
    /// handler again. Returns a real error if some have failed permanently.
    pub async fn execute(&self) -> HandlerResult {
        let group = self.0.group.lock().taken();
        match &self.0.runner {
            _ if group.callbacks.is_empty() => Ok(()),
            Some(runner) => runner.run(group).await,
            None => Ok(()),
        }
    }
}

/// Types that can be registered as a sub-handler.
#[diagnostic::on_unimplemented(
    message = "the sub-handler cannot be registered without the value that its function takes",
    label = "expected a `Callback`, found `{Self}`: give the value with `.param(..)`"
)]
pub trait IntoSubhandler {
    /// Converts it into a callback.
    fn into_callback(self) -> Callback;
}

impl IntoSubhandler for Callback {
    fn into_callback(self) -> Callback {
        self
    }
}

impl Default for Subhandlers {
    fn default() -> Self {
        Self::new()
    }
}

impl Cause {
    /// Returns the sub-handlers of this call.
    ///
    /// # Errors
    /// Returns an error in raw-event handlers and activities. They store no progress, so neither could their
    /// sub-handlers.
    pub fn subhandlers(&self) -> HandlerResult<Subhandlers> {
        let lent = match &self.subject {
            Subject::Change(subject) => subject.subhandlers.clone(),
            _ => None,
        };
        let lent = lent.and_then(|lent| lent.downcast().ok());
        let lent = lent.map(Subhandlers);
        Ok(lent.ok_or_else(|| PermanentError::new(NO_PARENT))?)
    }

    /// Lets the handler register sub-handlers if it handles changes.
    pub(crate) fn lend_subhandlers(&mut self, lent: &Subhandlers) {
        if let Subject::Change(subject) = &mut self.subject {
            let registered = Arc::clone(&lent.0);
            subject.subhandlers = Some(registered);
        }
    }
}

impl FromCause<'_> for Subhandlers {
    fn from_cause(cause: &Cause) -> Result<Self, HandlerError> {
        cause.subhandlers()
    }
}

/// Families whose handlers can have sub-handlers.
#[diagnostic::on_unimplemented(
    message = "handlers of this attribute have no `Subhandlers`",
    label = "sub-handlers need a parent that is called for a change",
    note = "they belong to #[on_create], #[on_update], #[on_delete], #[on_resume] and #[on_field], which keep progress on the object"
)]
pub trait GivesSubhandlers {}

#[diagnostic::do_not_recommend]
impl GivesSubhandlers for family::Change {}

impl<O> ByType<Subhandlers, O> {
    /// Compiles only if handlers of this family can have sub-handlers.
    pub fn is_given()
    where
        O: GivesSubhandlers,
    {
    }
}

/// Returns whether the error only marks unfinished sub-handlers.
pub(crate) fn is_unfinished(error: &HandlerError) -> bool {
    let HandlerError::Arbitrary(error) = error else {
        return false;
    };
    causes(error.as_ref()).any(<dyn Error>::is::<Unfinished>)
}

impl fmt::Debug for Subhandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subhandlers").field(&self.ids()).finish()
    }
}
