//! Accessors of [`Cause`] for some kinds of handlers only: the activity, the watch event, the change, and the request
//! under review.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::handler::again::{Again, IntoAgain};
use crate::handler::callee::Returned;
use crate::handler::cause::{Attempt, Cause};
use crate::handler::error::PermanentError;
use crate::handler::operation::Operation;
use crate::handler::review::{UserInfo, Warnings};
use crate::handler::subject::{Change, Reason, Subject};
use crate::object::diff::Diff;
use crate::object::event::EventType;

impl Cause {
    /// Returns the attempt with its key.
    ///
    /// # Errors
    /// Returns a permanent error if the attempt has no key: in closures without [`Callback::keyed`](crate::Callback::keyed), in sub-handlers,
    /// and in handlers that are not called for changes.
    pub fn attempt(&self) -> Result<Attempt, PermanentError> {
        let attempt = self.attempt;
        if attempt.key.is_some() {
            return Ok(attempt);
        }
        Err(PermanentError::new(
            "this attempt has no key: a change handler has one if it asks for `attempt: Attempt`, and a closure if it calls `keyed()`; \
             sub-handlers take it from their parent",
        ))
    }

    /// Returns `startup`, `cleanup`, `authentication` or `probe`; `None` for handlers of objects.
    #[must_use]
    pub fn activity(&self) -> Option<&'static str> {
        match &self.subject {
            Subject::Activity(activity) => Some(activity.as_str()),
            _ => None,
        }
    }

    /// Returns the type of the watch event, for `on_event`.
    #[must_use]
    pub fn event_type(&self) -> Option<EventType> {
        match &self.subject {
            Subject::Event(subject) => Some(subject.event),
            _ => None,
        }
    }

    /// Returns the watch event in the form that the server sends: `type` and `object`.
    #[must_use]
    pub fn event(&self) -> Value {
        let kind = self.event_type().and_then(EventType::as_str);
        let object: &Value = self.body();
        json!({"type": kind, "object": object})
    }

    /// For closures in place of functions with `#[reconcile]`: sets when to call the closure again if nothing changes
    /// before. Other handlers ignore it.
    pub fn again(&self, again: Again) {
        if let Subject::Background(subject) = &self.subject {
            subject.again.set(again);
        }
    }

    /// Returns the reason of the handling cycle; `None` for `on_event`.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.change()?.reason
    }

    /// Returns the state that was handled last: the essence, or the handler's field. For admission handlers: the
    /// whole object before the operation.
    #[must_use]
    pub fn old(&self) -> Option<&Value> {
        match &self.subject {
            Subject::Review(review) => review.before(),
            _ => self.change()?.old.as_deref(),
        }
    }

    /// Returns the state to handle now: the essence, or the handler's field. For admission handlers: the whole object
    /// after the operation.
    #[must_use]
    #[expect(clippy::new_ret_no_self, reason = "the argument is called `new`, as in Kopf")]
    pub fn new(&self) -> Option<&Value> {
        match &self.subject {
            Subject::Review(review) => review.after(),
            _ => self.change()?.new.as_deref(),
        }
    }

    /// Returns the differences from `old` to `new`.
    #[must_use]
    pub fn diff(&self) -> &Diff {
        static EMPTY: LazyLock<Diff> = LazyLock::new(Diff::default);
        match &self.subject {
            Subject::Review(review) => review.diff(),
            _ => self.change().map_or(&EMPTY, |change| &change.diff),
        }
    }

    pub(crate) fn change(&self) -> Option<&Change> {
        match &self.subject {
            Subject::Change(subject) => Some(&subject.change),
            _ => None,
        }
    }

    /// Returns the operation of the request; `None` outside of admission handlers.
    #[must_use]
    pub fn operation(&self) -> Option<Operation> {
        Some(self.review()?.facts.operation)
    }

    /// Returns the subresource of the request, for admission handlers; `None` for the object itself.
    #[must_use]
    pub fn subresource(&self) -> Option<&str> {
        self.review()?.facts.subresource.as_deref()
    }

    /// Returns whether the request is a dry run, for admission handlers, which then must not have side effects.
    #[must_use]
    pub fn dryrun(&self) -> bool {
        self.review().is_some_and(|it| it.facts.dryrun)
    }

    /// Returns the user who sent the request, for admission handlers.
    #[must_use]
    pub fn userinfo(&self) -> UserInfo {
        let told = self.review().map(|it| &it.facts.userinfo);
        let read = told.and_then(|it| UserInfo::deserialize(it).ok());
        read.unwrap_or_default()
    }

    /// Returns the HTTP headers of the API server's call, with names in lower case, for admission handlers.
    #[must_use]
    pub fn headers(&self) -> &Value {
        self.review().map_or(&Value::Null, |it| &it.facts.headers)
    }

    /// Returns the client certificate of the API server, for admission handlers; an empty object if it presented
    /// none.
    #[must_use]
    pub fn sslpeer(&self) -> &Value {
        self.review().map_or(&Value::Null, |it| &it.facts.sslpeer)
    }

    /// Returns the warnings for the sender of the request, for admission handlers. Warnings of other handlers are
    /// discarded.
    #[must_use]
    pub fn warnings(&self) -> Warnings {
        let warnings = self.review().map(|it| it.warnings.clone());
        warnings.unwrap_or_default()
    }
}

/// Stores the requeue request that a reconcile function returned: for generated code.
///
/// # Errors
/// Returns the error of the function.
pub fn reconcile_returned(cause: &Cause, returned: impl IntoAgain) -> Returned {
    cause.again(returned.into_again()?);
    Ok(None)
}
