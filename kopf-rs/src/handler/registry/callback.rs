//! Handlers without attributes: closures with options, for explicit registries.

use std::future::Future;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::handler::callee::{Callee, Calling};
use crate::handler::cause::Cause;
use crate::handler::error::{HandlerError, HandlerResult};
use crate::handler::location::DeclaredAt;
use crate::handler::options::Callback;
use crate::handler::returned::IntoReturned;
use crate::handler::status::{Status, StatusArgument};
use crate::object::patch::Patch;

/// The argument of a closure: the [`Cause`] with all its methods, and the patch.
#[derive(Clone, Debug)]
pub struct Context {
    cause: Cause,
    patch: Arc<Mutex<Patch>>,
}

/// Makes a handler from a closure. Set the options with the methods of the result.
///
/// ```
/// use kopf_rs::prelude::*;
/// use kopf_rs::{Registry, handler};
///
/// let registry = Registry::new().on_update(
///     "kopfexamples",
///     handler("resize", |cause| async move {
///         info!(cause.logger(), "resized from {:?} to {:?}", cause.old(), cause.new());
///         Ok(())
///     })
///     .field("spec.size")
///     .timeout(30),
/// );
/// # assert_eq!(registry.len(), 1);
/// ```
///
/// `retry!` and `fail!` return errors from the closure. An async closure with captures (`async move |cause| ..`) does
/// not compile, since its future would borrow the captures; use [`handler_with`], which clones them for each call.
#[track_caller]
pub fn handler<F, R, T>(id: impl Into<String>, function: F) -> Callback
where
    F: Fn(Context) -> R + Send + Sync + 'static,
    R: Future<Output = HandlerResult<T>> + Send + 'static,
    T: Serialize,
{
    let callee = Callee::Closure(Arc::new(move |cause: &Cause, patch: &mut Patch| {
        let lent = LentPatch::of(patch);
        let future = function(Context { cause: cause.clone(), patch: Arc::clone(&lent.shared) });
        let calling: Calling<'_> = Box::pin(async move {
            let _back_at_the_end = lent;
            future.await.into_returned()
        });
        calling
    }));
    Callback::of(id, DeclaredAt::Closure(Location::caller()), callee)
}

/// Like [`handler`], for a closure with state: each call gets a clone of the state.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use kopf_rs::Registry;
/// use kopf_rs::prelude::*;
///
/// let created = Arc::new(AtomicUsize::new(0));
/// let registry = Registry::new().on_create(
///     "kopfexamples",
///     handler_with("count", (created, "so far"), async |cause, (created, words)| {
///         let count = created.fetch_add(1, Ordering::Relaxed) + 1;
///         cause.patch(|patch| patch.set("status.count", format!("{count} {words}")));
///         Ok(())
///     }),
/// );
/// # assert_eq!(registry.len(), 1);
/// ```
#[track_caller]
pub fn handler_with<S, F, R, T>(id: impl Into<String>, state: S, function: F) -> Callback
where
    S: Clone + Send + Sync + 'static,
    F: Fn(Context, S) -> R + Send + Sync + 'static,
    R: Future<Output = HandlerResult<T>> + Send + 'static,
    T: Serialize,
{
    handler(id, move |cause| function(cause, state.clone()))
}

/// Like [`handler`], for a blocking closure: it runs on a blocking thread, as a plain `fn` with an attribute does. No
/// timeout can interrupt it.
///
/// ```
/// use kopf_rs::prelude::*;
/// use kopf_rs::Registry;
///
/// let registry = Registry::new().on_create(
///     "kopfexamples",
///     handler_blocking("create_fn", |cause, patch| {
///         let words = std::fs::read_to_string(format!("/etc/greetings/{}", cause.name()))?;
///         patch.set("status.greeting", words);
///         Ok(())
///     }),
/// );
/// # assert_eq!(registry.len(), 1);
/// ```
#[track_caller]
pub fn handler_blocking<F, T>(id: impl Into<String>, function: F) -> Callback
where
    F: Fn(&Cause, &mut Patch) -> HandlerResult<T> + Send + Sync + 'static,
    T: Serialize,
{
    let called = move |cause: &Cause, patch: &mut Patch| function(cause, patch).into_returned();
    Callback::of(id, DeclaredAt::Closure(Location::caller()), Callee::BlockingClosure(Arc::new(called)))
}

// === impl Context ===

impl Context {
    /// Changes the patch of the object. In annotated functions, use the argument `patch: &mut Patch` instead.
    ///
    /// ```
    /// use kopf_rs::prelude::*;
    ///
    /// let create_fn = handler("create_fn", |cause| async move {
    ///     cause.patch(|patch| patch["status"]["phase"] = json!("Ready"));
    ///     cause.patch(|patch| {
    ///         patch.set("metadata.labels.app", cause.name());
    ///         patch.set("status.ready", true);
    ///     });
    ///     Ok(())
    /// });
    /// ```
    ///
    /// Never blocks: a nested call of `patch` within `change` sees an empty patch, which is merged on top of this
    /// one.
    pub fn patch<T>(&self, change: impl FnOnce(&mut Patch) -> T) -> T {
        let mut taken = TakenPatch::of(&self.patch);
        change(&mut taken.patch)
    }

    /// Changes the status as a type of yours, and its conditions. In annotated functions, use the argument
    /// `status: &mut Status<MyStatus>` instead. Each call starts with the status from the start of the handler call.
    ///
    /// ```
    /// use kopf_rs::prelude::*;
    ///
    /// let create_fn = handler("create_fn", |cause| async move {
    ///     cause.change_status(|status: &mut Status<Value>| {
    ///         status["url"] = json!("https://example.com");
    ///         status.conditions().set("Ready", true, "Deployed", "");
    ///     })
    /// });
    /// ```
    ///
    /// # Errors
    /// Returns a permanent error if the object's status does not deserialize into `T`, or if the API would reject a
    /// changed condition.
    pub fn change_status<T, R>(&self, change: impl FnOnce(&mut Status<T>) -> R) -> Result<R, HandlerError>
    where
        T: DeserializeOwned + Serialize + Send + 'static,
    {
        let mut taken = TakenPatch::of(&self.patch);
        let mut lent = Status::<T>::lend(&self.cause, &mut taken.patch)?;
        let changed = change(&mut lent.status);
        lent.end(Ok(None))?;
        Ok(changed)
    }
}

/// Takes the patch out of the mutex during a change, so that nested calls do not deadlock. Puts it back on drop, also
/// after a panic in `change`.
struct TakenPatch<'a> {
    home: &'a Mutex<Patch>,
    patch: Patch,
}

impl<'a> TakenPatch<'a> {
    fn of(home: &'a Mutex<Patch>) -> Self {
        let patch = home.lock().take();
        Self { home, patch }
    }
}

impl Drop for TakenPatch<'_> {
    fn drop(&mut self) {
        let mut home = self.home.lock();
        let meanwhile = std::mem::replace(&mut *home, self.patch.take());
        home.absorb(meanwhile);
    }
}

impl Deref for Context {
    type Target = Cause;
    fn deref(&self) -> &Cause {
        &self.cause
    }
}

/// Takes the engine's patch while a closure's future shares it. Puts it back on drop, also when the future is
/// cancelled.
struct LentPatch<'a> {
    home: &'a mut Patch,
    shared: Arc<Mutex<Patch>>,
}

impl<'a> LentPatch<'a> {
    fn of(home: &'a mut Patch) -> Self {
        let shared = Arc::new(Mutex::new(std::mem::take(home)));
        Self { home, shared }
    }
}

impl Drop for LentPatch<'_> {
    fn drop(&mut self) {
        *self.home = std::mem::take(&mut *self.shared.lock());
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_is_changed_within_a_change_and_is_kept_where_one_panics() {
        let cause = Context { cause: Cause::of(json!({})).into(), patch: Arc::default() };
        cause.patch(|patch| {
            patch["a"] = json!(1);
            cause.patch(|inner| {
                inner["b"] = json!(2);
                cause.patch(|patch| patch["c"] = json!(3));
            });
            patch["d"] = json!(4);
        });
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            cause.patch(|patch| {
                patch["e"] = json!(5);
                panic!("no more");
            });
        }));
        assert!(panicked.is_err());
        let all = cause.patch(|patch| ["a", "b", "c", "d", "e"].map(|it| patch[it].clone()));
        assert_eq!(all, [1, 2, 3, 4, 5].map(|it| json!(it)));
    }
}
