//! Causes made by hand, for unit tests of handlers, filters and extractors.

use std::any::Any;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::handler::again::AgainCell;
use crate::handler::cause::{Attempt, Cause, CauseContext};
use crate::handler::extensions::Extensions;
use crate::handler::index::Index;
use crate::handler::index::erased::Indices;
use crate::handler::live::Live;
use crate::handler::memo::Memo;
use crate::handler::operation::Operation;
use crate::handler::review::{ReviewFacts, Warnings};
use crate::handler::stopped::Stopped;
use crate::handler::subject::{
    BackgroundSubject, Change, ChangeSubject, EventSubject, Reason, ReviewSubject, Sides, Subject,
    SubjectObject,
};
use crate::object::body::Body;
use crate::object::diff::Diff;
use crate::object::event::EventType;
use crate::object::path::FieldPath;
use crate::object::resource::Resource;

/// A [`Cause`] made by hand with [`Cause::of`], for unit tests. Dereferences to the cause.
#[derive(Clone, Debug)]
pub struct TestCause {
    cause: Cause,
    state: Extensions,
}

impl Cause {
    /// Creates a cause for unit tests: the first attempt for the creation of `object`, unless you change it with the
    /// methods of the result.
    ///
    /// ```
    /// use kopf_rs::prelude::*;
    ///
    /// #[on_create("kopfexamples")]
    /// #[on_resume("kopfexamples")]
    /// async fn place(cause: &Cause) -> HandlerResult<Value> {
    ///     if cause.reason() == Some(Reason::Create) && cause.retry() > 1 {
    ///         fail!("there is no place for {}", cause.name());
    ///     }
    ///     Ok(json!({"place": cause.spec::<Value>()?["size"]}))
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let object = json!({"metadata": {"name": "one"}, "spec": {"size": 5}});
    /// assert_eq!(place(&Cause::of(object.clone())).await.unwrap(), json!({"place": 5}));
    /// let late = Cause::of(object.clone()).reason(Reason::Create).retry(2);
    /// assert_eq!(place(&late).await.unwrap_err().to_string(), "there is no place for one");
    /// let resumed = Cause::of(object).reason(Reason::Resume).retry(2);
    /// assert!(place(&resumed).await.is_ok());
    /// # });
    /// ```
    #[must_use]
    pub fn of(object: Value) -> TestCause {
        let new = essence(&object);
        let subject = Subject::Change(ChangeSubject {
            change: Change {
                reason: Some(Reason::Create),
                old: None,
                diff: Arc::new(Diff::between(None, Some(&new))),
                new: Some(Arc::new(new)),
            },
            object: SubjectObject {
                resource: Arc::new(resource(&object)),
                body: Arc::new(Body::new(object)),
            },
            subhandlers: None,
        });
        let cause = Cause {
            handler_id: "handler".into(),
            param: None,
            context: CauseContext::default(),
            attempt: Attempt::first(Timestamp::UNIX_EPOCH),
            subject,
        };
        TestCause { cause, state: Extensions::default() }
    }
}

/// Each method sets one datum of the cause. To call the accessor of the same name, dereference first:
/// `(*cause).retry()`.
impl TestCause {
    /// Sets the reason of the cycle.
    #[must_use]
    pub fn reason(self, reason: Reason) -> Self {
        self.change(|change| change.reason = Some(reason))
    }
    /// Sets the state that was handled last: an object, or the field's value for a handler with a `field`.
    ///
    /// # Panics
    /// Panics if `old` cannot be written as JSON.
    #[must_use]
    pub fn old(self, old: impl Serialize) -> Self {
        let old = Arc::new(json!(old));
        self.change(|change| change.old = Some(old))
    }
    /// Sets the state to handle now, if it differs from the object: the field's value for a handler with a `field`.
    ///
    /// # Panics
    /// Panics if `new` cannot be written as JSON.
    #[must_use]
    pub fn new(self, new: impl Serialize) -> Self {
        let new = Arc::new(json!(new));
        self.change(|change| change.new = Some(new))
    }
    /// Reduces `old`, `new` and `diff` to this field, as for a handler with that field.
    #[must_use]
    pub fn field(self, field: impl Into<FieldPath>) -> Self {
        let field = field.into();
        self.change(|change| *change = change.reduced(&field))
    }
    /// Makes it a cause for an `on_event` handler.
    #[must_use]
    pub fn event(mut self, event: EventType) -> Self {
        if let Subject::Change(ChangeSubject { object, .. }) = &self.cause.subject {
            let object = object.clone();
            self.cause.subject = Subject::Event(EventSubject { object, event });
        }
        self
    }
    /// Makes it a cause for a daemon or timer with this stop flag.
    #[must_use]
    pub fn stopped(mut self, stopped: Stopped) -> Self {
        if let Some(object) = self.cause.subject.object().cloned() {
            let live = Live::of(object.body.clone());
            self.cause.subject =
                Subject::Background(BackgroundSubject { again: AgainCell::default(), object, live, stopped });
        }
        self
    }
    /// Makes it a cause for an admission handler: the request creates, updates or deletes the object. Call
    /// [`old`](Self::old) before, for the state before an update.
    #[must_use]
    pub fn operation(mut self, operation: Operation) -> Self {
        let Subject::Change(ChangeSubject { object, change, .. }) = &self.cause.subject else {
            return self;
        };
        let sides = Sides {
            is_deletion: operation == Operation::Delete,
            before: change.old.as_deref().cloned(),
            ..Sides::default()
        };
        self.cause.subject = Subject::Review(ReviewSubject {
            object: object.clone(),
            facts: Arc::new(ReviewFacts::of(operation)),
            sides: Arc::new(sides),
            warnings: Warnings::new(),
        });
        self
    }
    /// Sets the user of the admission request.
    ///
    /// # Panics
    /// Panics if `user` cannot be written as JSON.
    #[must_use]
    pub fn userinfo(mut self, user: impl Serialize) -> Self {
        if let Subject::Review(review) = &mut self.cause.subject {
            Arc::make_mut(&mut review.facts).userinfo = json!(user);
        }
        self
    }
    /// Sets the number of the attempt, from 0.
    #[must_use]
    pub fn retry(mut self, retry: u32) -> Self {
        self.cause.attempt.retry = retry;
        self.cause.attempt.is_first = retry == 0;
        self
    }
    /// Sets the time since the first attempt.
    #[must_use]
    pub fn runtime(mut self, runtime: Duration) -> Self {
        self.cause.attempt.runtime = runtime;
        self
    }
    /// Sets the id of the handler.
    #[must_use]
    pub fn handler_id(mut self, id: &str) -> Self {
        self.cause.handler_id = id.into();
        self
    }
    /// Sets the handler's `param`.
    #[must_use]
    pub fn param<T: Any + Send + Sync>(mut self, param: T) -> Self {
        self.cause.param = Some(Arc::new(param));
        self
    }
    /// Sets the memo of the object.
    #[must_use]
    pub fn memo(mut self, memo: Memo) -> Self {
        self.cause.context.memo = memo;
        self
    }
    /// Registers a value, such as the client, or one for a [`State`](crate::State).
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.state.insert(value);
        self.cause.context.extensions = Arc::new(self.state.clone());
        self
    }

    /// Registers an index under this name.
    #[must_use]
    pub fn index<K, V>(self, name: &str, index: Index<K, V>) -> Self
    where
        K: Eq + Hash + Send + Sync + 'static,
        V: Clone + Send + Sync + 'static,
    {
        let indices = self.state.get::<Indices>();
        let mut indices = indices.map(|it| Indices::clone(&it)).unwrap_or_default();
        indices.insert(name, Arc::new(index));
        self.with(indices)
    }

    fn change(mut self, change: impl FnOnce(&mut Change)) -> Self {
        if let Subject::Change(subject) = &mut self.cause.subject {
            let it = &mut subject.change;
            change(it);
            it.diff = Arc::new(Diff::between(it.old.as_deref(), it.new.as_deref()));
        }
        self
    }
}

impl Deref for TestCause {
    type Target = Cause;
    fn deref(&self) -> &Cause {
        &self.cause
    }
}

impl From<TestCause> for Cause {
    fn from(test: TestCause) -> Self {
        test.cause
    }
}

/// Returns the part of an object that handlers get as `old` and `new`.
fn essence(object: &Value) -> Value {
    let mut essence = object.clone();
    if let Some(members) = essence.as_object_mut() {
        members.retain(|key, _| !["apiVersion", "kind", "status"].contains(&key.as_str()));
        if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
            metadata.retain(|key, _| ["labels", "annotations"].contains(&key.as_str()));
        }
    }
    essence
}

/// Derives the resource from the object, as far as possible.
fn resource(object: &Value) -> Resource {
    let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let api_version = text("apiVersion");
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let kind = text("kind");
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        singular: kind.to_lowercase(),
        plural: format!("{}s", kind.to_lowercase()),
        kind,
        namespaced: !object["metadata"]["namespace"].is_null(),
        ..Resource::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::extract::{FromCause, State};

    fn object() -> Value {
        json!({
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {"name": "one", "labels": {"a": "x"}},
            "spec": {"size": 2, "colour": "red"},
            "status": {"phase": "up"},
        })
    }

    #[test]
    fn a_cause_returns_its_data() {
        let before = json!({"metadata": {"labels": {"a": "x"}}, "spec": {"size": 1, "colour": "red"}});
        let cause = Cause::of(object())
            .reason(Reason::Update)
            .old(before)
            .retry(3)
            .param("p".to_owned())
            .with(5_u8)
            .handler_id("update_fn");
        let cause = Cause::from(cause);
        assert_eq!(cause.reason(), Some(Reason::Update));
        assert_eq!(cause.diff().to_string(), "(('change', ('spec', 'size'), 1, 2),)");
        assert_eq!((cause.retry(), cause.handler_id()), (3, "update_fn"));
        assert_eq!(cause.param::<String>().map(String::as_str), Some("p"));
        assert_eq!(*State::<u8>::from_cause(&cause).unwrap(), 5);
        assert_eq!(cause.labels().get("a"), Some("x"));
        let resource = cause.resource().unwrap();
        assert_eq!(resource.to_string(), "kopfexamples.v1.kopf.dev");
    }

    #[test]
    fn test_causes_of_fields_and_events_equal_real_ones() {
        let of_field = Cause::of(object()).old(json!({"spec": {"size": 1}})).field("spec.size");
        let of_field = Cause::from(of_field);
        assert_eq!(of_field.old(), Some(&json!(1)));
        assert_eq!(of_field.new(), Some(&json!(2)));
        assert_eq!(of_field.diff().to_string(), "(('change', (), 1, 2),)");
        let event = Cause::of(object()).event(EventType::Deleted);
        assert_eq!(event.event_type(), Some(EventType::Deleted));
        assert_eq!(event.name(), "one");
    }

    #[test]
    fn test_causes_of_reviews_equal_real_ones() {
        let before = json!({"spec": {"size": 1}});
        let update = Cause::of(object())
            .old(before)
            .operation(Operation::Update)
            .userinfo(json!({"username": "me", "groups": ["a"]}));
        let update = Cause::from(update);
        assert_eq!(update.operation(), Some(Operation::Update));
        assert_eq!(update.userinfo().groups, ["a"]);
        assert_eq!(update.new(), Some(&object()));
        assert!(update.diff().touches("spec.size") && !update.dryrun());
        update.warnings().push("careful");
        assert_eq!(update.warnings().all(), ["careful"]);
        let deletion = Cause::from(Cause::of(object()).operation(Operation::Delete));
        assert_eq!((deletion.old(), deletion.new()), (Some(&object()), None));
    }
}
