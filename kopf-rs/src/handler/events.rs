//! Lets handlers post Kubernetes Events about objects, as `kubectl describe` and `kubectl get events` show them.
//!
//! Events are posted in the background. Handlers neither wait for the server nor learn whether it accepts them.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::sync::Arc;

use serde::Serialize;

use crate::handler::cause::Cause;
use crate::handler::current;
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::event_sink::{EventSink, OperatorSink, PostingLevel};
use crate::handler::extract::FromCause;
use crate::handler::extract::extractors::OfAnObject;
use crate::object::body::Body;
use crate::object::posted_event::{EventKind, PostedEvent, Regarding};

/// Posts Kubernetes Events about the handled object, or about another one.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[on_update("kopfexamples", field = "spec.size")]
/// async fn resize(old: Option<u64>, new: u64, events: Events) -> HandlerResult {
///     let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "default"}});
///     if new > 100 {
///         events.warning("TooLarge", format!("there is no place for {new}"));
///         fail!("spec.size is {new}: expected at most 100");
///     }
///     events.normal("Resized", format!("from {old:?} to {new}"));
///     events.about(&pod)?.normal("Restarted", "for another size");
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// // In a unit test:
/// assert!(resize(None, 5, Events::new()).await.is_ok());
/// # });
/// ```
///
/// The operator queues Events and posts them in the background: handlers never wait for an Event, and never fail
/// because of one. A repeated Event is counted as a series instead of being posted again, as happens for retries.
/// Different Events about one object are rate limited: a burst of 25, then one more every five minutes. Posting needs
/// the permissions `create` and `patch` on `events` of the group `events.k8s.io`; if they are missing, the operator
/// logs this once. Events about Events are dropped. [`Settings::posting`](crate::Settings::posting) configures
/// posting.
#[derive(Clone, Debug, Default)]
pub struct Events {
    regarding: Regarding,
    action: Option<Arc<str>>,
    sink: Option<Arc<dyn EventSink>>,
}

/// Constructors.
impl Events {
    /// Creates a handle that drops all Events, for unit tests of handlers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a handle for Events about the object of the handler that runs on this thread.
    ///
    /// # Errors
    /// Returns an error if no handler of an object runs on this thread, as in tasks and threads that a handler
    /// starts, and in unit tests. There, take `events: Events` as an argument of the handler instead.
    pub fn current() -> Result<Self, PermanentError> {
        let cause = current::cause().ok_or_else(|| {
            PermanentError::new(
                "no handler runs here, so there is no object that Events could be about: take `events: Events` as an argument of the handler",
            )
        })?;
        cause.events()
    }

    /// Returns a handle for Events about another object.
    ///
    /// # Errors
    /// Returns an error if the object has no `apiVersion`, `kind` or `metadata.name`.
    pub fn about<T: Serialize>(&self, object: &T) -> Result<Self, PermanentError> {
        let object = serde_json::to_value(object)
            .map_err(|error| PermanentError::new(format!("the object cannot be written as JSON: {error}")))?;
        let regarding = regarding(&Body::new(object));
        let object = &regarding.object;
        let parts =
            [("apiVersion", &object.api_version), ("kind", &object.kind), ("metadata.name", &object.name)];
        if let Some((missing, _)) = parts.into_iter().find(|(_, part)| part.is_empty()) {
            return Err(PermanentError::new(format!("the object has no `{missing}`, which Events need")));
        }
        Ok(Self { regarding, ..self.clone() })
    }

    /// Sets the action, a machine-readable word for the attempted operation, such as `Pulling`. The default is the id
    /// of the handler.
    #[must_use]
    pub fn action(mut self, action: &str) -> Self {
        self.action = Some(action.into());
        self
    }
}

/// Methods that post Events.
impl Events {
    /// Posts an Event of the type `Normal`. The reason is a machine-readable word, such as `Created`; the message is
    /// for people.
    ///
    /// Skipped if [`Posting::level`](crate::Posting::level) is above `Info`.
    pub fn normal(&self, reason: &str, message: impl AsRef<str>) {
        self.post_at(PostingLevel::Info, EventKind::Normal, reason, message);
    }

    /// Posts an Event of the type `Warning`.
    ///
    /// Skipped if [`Posting::level`](crate::Posting::level) is above `Warning`.
    pub fn warning(&self, reason: &str, message: impl AsRef<str>) {
        self.post_at(PostingLevel::Warning, EventKind::Warning, reason, message);
    }

    /// Posts an Event of the type `Warning` with the error and its causes.
    ///
    /// Never skipped, since no [`Posting::level`](crate::Posting::level) is above `Error`.
    pub fn exception(&self, reason: &str, error: &(dyn Error + 'static)) {
        if self.takes(PostingLevel::Error) {
            let text = HandlerError::from_local(error).to_string();
            self.event(EventKind::Warning, reason, text);
        }
    }

    /// Posts an Event of this kind, regardless of the configured level.
    pub fn event(&self, kind: EventKind, reason: &str, message: impl AsRef<str>) {
        let Some(sink) = self.sink.as_ref().filter(|it| it.gates().is_some()) else {
            return;
        };
        let action = self.action.as_deref().unwrap_or_default();
        let regarding = self.regarding.clone();
        let event = PostedEvent::new(regarding, kind, (action, reason), message.as_ref());
        sink.post(event);
    }

    fn post_at(&self, level: PostingLevel, kind: EventKind, reason: &str, message: impl AsRef<str>) {
        if self.takes(level) {
            self.event(kind, reason, message);
        }
    }

    fn takes(&self, level: PostingLevel) -> bool {
        self.sink.as_ref().is_some_and(|it| it.takes(level))
    }
}

impl Cause {
    /// Returns a handle for Events about the object.
    ///
    /// # Errors
    /// Returns an error in activities, which have no object.
    pub fn events(&self) -> Result<Events, PermanentError> {
        if self.resource().is_none() {
            return Err(PermanentError::new(
                "startup and cleanup handlers have no object that Events could be about",
            ));
        }
        let sink: Option<Arc<OperatorSink>> = self.context.extensions.get();
        Ok(Events {
            regarding: regarding(self.body()),
            action: Some(self.handler_id.clone()),
            sink: sink.map(|sink| sink.0.clone()),
        })
    }
}

fn regarding(body: &Body) -> Regarding {
    let version = body.metadata()["resourceVersion"].as_str();
    Regarding { object: Arc::new(body.reference()), resource_version: version.map(Into::into) }
}

impl FromCause<'_> for Events {
    fn from_cause(cause: &Cause) -> Result<Self, HandlerError> {
        Ok(cause.events()?)
    }
}

impl OfAnObject for Events {}
