//! The context of one handler call: why the engine calls the handler, and all data that the handler can ask for.
//!
//! Each argument of annotated functions also has an accessor here, for closures, predicates and custom extractors.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::extensions::Extensions;
use crate::handler::logger::Logger;
use crate::handler::memo::Memo;
use crate::handler::read::{self, Absent, At};
use crate::handler::subject::{ReviewSubject, Subject};
use crate::object::body::Body;
use crate::object::essence::digest;
use crate::object::labels::Labels;
use crate::object::path::FieldPath;
use crate::object::resource::Resource;

pub(crate) mod facts;

/// The context of one handler call, from which the arguments of the handler are extracted.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The id of the handler.
    pub(crate) handler_id: Arc<str>,
    /// The value of the handler's option `param`.
    pub(crate) param: Option<Param>,
    pub(crate) context: CauseContext,
    pub(crate) attempt: Attempt,
    pub(crate) subject: Subject,
}

/// The value of the argument `param`.
pub(crate) type Param = Arc<dyn Any + Send + Sync>;

/// The part of a cause that does not depend on the subject: all calls for one object, or for one activity, share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CauseContext {
    pub(crate) logger: Logger,
    pub(crate) memo: Memo,
    pub(crate) extensions: Arc<Extensions>,
}

/// The current attempt of a handler of changes. Ask for it as an argument to get an idempotency key,
/// [`Attempt::key`].
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[on_create("kopfexamples")]
/// async fn make_balancer(attempt: Attempt, name: &str) -> HandlerResult {
///     // A second request with this key makes no second balancer.
///     cloud_make(&attempt.key(), name).await?;
///     Ok(())
/// }
///
/// async fn cloud_make(_idempotency_key: &str, _name: &str) -> HandlerResult {
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// The number of attempts before this one, from 0.
    pub(crate) retry: u32,
    /// True if no attempt was made before. Calling a parent handler again to finish its sub-handlers is not a retry.
    pub(crate) is_first: bool,
    /// When the first attempt started.
    pub(crate) started: Timestamp,
    /// Time since the first attempt started.
    pub(crate) runtime: Duration,
    /// The idempotency key, if the handler asks for one.
    pub(crate) key: Option<AttemptKey>,
}

/// A digest that identifies the purpose of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptKey(pub(super) [u8; 16]);

// === impl Attempt ===

impl Attempt {
    /// Creates the first attempt, without a key.
    pub(crate) fn first(now: Timestamp) -> Self {
        Self { retry: 0, is_first: true, started: now, runtime: Duration::ZERO, key: None }
    }

    /// Returns the idempotency key of this attempt: 16 characters out of letters, digits, `-` and `_`. Retries after
    /// an error or a crash get the same key. Another object, another handler and a later change of the object get
    /// another key.
    #[must_use]
    pub fn key(&self) -> String {
        let key = self.key.as_ref();
        key.map(ToString::to_string).unwrap_or_default()
    }
}

// === impl AttemptKey ===

impl AttemptKey {
    /// Derives the key from `purpose`, which must be the same for all retries of the attempt.
    pub(crate) fn of(purpose: &Value) -> Self {
        let mut key = [b'-'; 16];
        for (place, byte) in key.iter_mut().zip(digest(purpose).bytes()) {
            *place = byte;
        }
        Self(key)
    }
}

impl fmt::Display for AttemptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

// === impl Cause ===

/// The data that handlers of all families can ask for. Activities have no object, so their object data are empty. The
/// accessors of single families are in `facts`, `indexer` and `subhandlers`.
impl Cause {
    /// Returns the id of the handler being called.
    #[must_use]
    pub fn handler_id(&self) -> &str {
        &self.handler_id
    }
    /// Returns the whole object.
    #[must_use]
    pub fn body(&self) -> &Body {
        static EMPTY: LazyLock<Body> = LazyLock::new(|| Body::new(Value::Null));
        self.subject.object().map_or(&EMPTY, |object| &object.body)
    }
    /// Deserializes the stanza `spec` into `T`; use `Value` for the plain JSON.
    ///
    /// # Errors
    /// Returns a permanent error that names the JSON path if `spec` does not deserialize into `T`.
    pub fn spec<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let at = self.at("spec");
        read::read(at, read::stanza(self.body().spec()), Absent::Empty)
    }
    /// Deserializes the whole object into `T`.
    ///
    /// # Errors
    /// Returns a permanent error that names the JSON path if the object does not deserialize into `T`.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        read::read(self.at(""), read::stanza(self.body()), Absent::Empty)
    }
    /// Deserializes the stanza `status` into `T`.
    ///
    /// # Errors
    /// Returns a permanent error that names the JSON path if `status` does not deserialize into `T`.
    pub fn status<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let at = self.at("status");
        read::read(at, read::stanza(self.body().status()), Absent::Empty)
    }
    /// Returns a position in the object, for error messages.
    pub(super) fn at<'a>(&'a self, path: &'a str) -> At<'a> {
        let body = self.body();
        At { body, path }
    }
    /// Deserializes one field of the object into `T`; use `Option` for a field that may be absent.
    ///
    /// ```
    /// # use kopf_rs::prelude::*;
    /// let cause = Cause::of(json!({"spec": {"size": 5}}));
    /// assert_eq!(cause.read::<u32>("spec.size")?, 5);
    /// assert_eq!(cause.read::<Option<String>>("spec.colour")?, None);
    /// # Ok::<(), HandlerError>(())
    /// ```
    ///
    /// # Errors
    /// Returns a permanent error that names the JSON path if the field does not deserialize into `T`.
    pub fn read<T: DeserializeOwned>(&self, field: impl Into<FieldPath>) -> Result<T, HandlerError> {
        let field = field.into();
        let path = field.to_string();
        let value = field.resolve(self.body());
        read::read(self.at(&path), value, Absent::Null)
    }
    /// Returns the stanza `metadata`.
    #[must_use]
    pub fn meta(&self) -> &Value {
        self.body().metadata()
    }
    /// Returns `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.subject.name()
    }
    /// Returns `metadata.namespace`; `None` for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.subject.namespace()
    }
    /// Returns `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.body().uid()
    }
    /// Returns `metadata.labels`.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        self.body().labels()
    }
    /// Returns `metadata.annotations`.
    #[must_use]
    pub fn annotations(&self) -> &Labels {
        self.body().annotations()
    }
    /// Returns the resource that the object belongs to; `None` for handlers without an object, such as startup
    /// handlers. The argument `resource` of annotated functions is never an `Option`, since a handler that asks for
    /// it without having an object does not compile.
    #[must_use]
    pub fn resource(&self) -> Option<&Resource> {
        Some(&self.subject.object()?.resource)
    }
    /// Returns the in-memory values that the handlers of this object share.
    #[must_use]
    pub fn memo(&self) -> &Memo {
        &self.context.memo
    }
    /// Returns the logger of this object.
    #[must_use]
    pub fn logger(&self) -> &Logger {
        &self.context.logger
    }
    /// Returns the handler's `param` if it is set and is a `T`.
    #[must_use]
    pub fn param<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.param.as_deref()?.downcast_ref()
    }
    /// Returns the number of this attempt, from 0.
    #[must_use]
    pub fn retry(&self) -> u32 {
        self.attempt.retry
    }
    /// Returns when the first attempt started.
    #[must_use]
    pub fn started(&self) -> SystemTime {
        self.attempt.started.into()
    }
    /// Returns the time since the first attempt started.
    #[must_use]
    pub fn runtime(&self) -> Duration {
        self.attempt.runtime
    }
    /// Returns the request under review; `None` unless this is an admission handler.
    pub(crate) fn review(&self) -> Option<&ReviewSubject> {
        match &self.subject {
            Subject::Review(subject) => Some(subject),
            _ => None,
        }
    }
    /// Returns a value registered with the operator, by its type: the client, or a value of your own.
    ///
    /// # Errors
    /// Returns a permanent error if no value of this type was registered.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<Arc<T>, HandlerError> {
        let given = self.context.extensions.get();
        given.ok_or_else(|| nothing_given(std::any::type_name::<T>()))
    }
}

pub(crate) fn nothing_given(wanted: &str) -> HandlerError {
    PermanentError::new(format!(
        "the handler asks for a `{wanted}`, but the operator has none; register it with `Operator::with`"
    ))
    .into()
}
