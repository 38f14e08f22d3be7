//! Why a handler is called, and everything it may ask for.
//!
//! Everything an argument can be made of is also an accessor here, for closures, predicates and users' own extractors.

use std::any::Any;
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

/// One call of one handler: all the data an argument can be made from.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The id of the handler.
    pub(crate) handler_id: Arc<str>,
    /// The value of its option `param`.
    pub(crate) param: Option<Param>,
    pub(crate) context: CauseContext,
    pub(crate) attempt: Attempt,
    pub(crate) subject: Subject,
}

/// The value of the argument `param`.
pub(crate) type Param = Arc<dyn Any + Send + Sync>;

/// What does not depend on the subject: the same for all calls for one object, or for one activity.
#[derive(Clone, Debug, Default)]
pub(crate) struct CauseContext {
    pub(crate) logger: Logger,
    pub(crate) memo: Memo,
    pub(crate) extensions: Arc<Extensions>,
}

/// Which attempt this is: an argument of handlers of changes, [`Attempt::key`].
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
    /// From 0.
    pub(crate) retry: u32,
    /// Whether none was made before: where sub-handlers are left, another call of their parent is no retry.
    pub(crate) is_first: bool,
    /// When the first attempt began.
    pub(crate) started: Timestamp,
    /// Time since then.
    pub(crate) runtime: Duration,
    /// Where the handler asks for it.
    pub(crate) key: Option<AttemptKey>,
}

/// What tells the purpose of one attempt from that of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptKey(pub(super) [u8; 16]);

// === impl Attempt ===

impl Attempt {
    /// One before which there was none.
    pub(crate) fn first(now: Timestamp) -> Self {
        Self {
            retry: 0,
            is_first: true,
            started: now,
            runtime: Duration::ZERO,
            key: None,
        }
    }
}

// === impl AttemptKey ===

impl AttemptKey {
    /// Of all that is the same when the attempt is made again.
    pub(crate) fn of(purpose: &Value) -> Self {
        let mut key = [b'-'; 16];
        for (place, byte) in key.iter_mut().zip(digest(purpose).bytes()) {
            *place = byte;
        }
        Self(key)
    }
}

// === impl Cause ===

/// The data that handlers of all families may ask for. Activities have no object: there its data are empty. What only one family has is in
/// its module.
impl Cause {
    /// The id of the handler being called.
    #[must_use]
    pub fn handler_id(&self) -> &str {
        &self.handler_id
    }
    /// The whole object.
    #[must_use]
    pub fn body(&self) -> &Body {
        static EMPTY: LazyLock<Body> = LazyLock::new(|| Body::new(Value::Null));
        self.subject.object().map_or(&EMPTY, |object| &object.body)
    }
    /// The stanza `spec` as a type of yours; `Value` for the JSON itself.
    ///
    /// # Errors
    /// A permanent one that names the JSON path, where `spec` is no `T`.
    pub fn spec<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let at = self.at("spec");
        read::read(at, read::stanza(self.body().spec()), Absent::Empty)
    }
    /// The whole object as a type of yours.
    ///
    /// # Errors
    /// A permanent one that names the JSON path, where the object is no `T`.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        read::read(self.at(""), read::stanza(self.body()), Absent::Empty)
    }
    /// The stanza `status` as a type of yours.
    ///
    /// # Errors
    /// A permanent one that names the JSON path, where `status` is no `T`.
    pub fn status<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let at = self.at("status");
        read::read(at, read::stanza(self.body().status()), Absent::Empty)
    }
    /// A place in the object.
    pub(super) fn at<'a>(&'a self, path: &'a str) -> At<'a> {
        let body = self.body();
        At { body, path }
    }
    /// One field of the object as a type of yours; `Option` where it may be absent.
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
    /// A permanent one that names the JSON path, where what stands there is no `T`.
    pub fn read<T: DeserializeOwned>(
        &self,
        field: impl Into<FieldPath>,
    ) -> Result<T, HandlerError> {
        let field = field.into();
        let path = field.to_string();
        let value = field.resolve(self.body());
        read::read(self.at(&path), value, Absent::Null)
    }
    /// The stanza `metadata`.
    #[must_use]
    pub fn meta(&self) -> &Value {
        self.body().metadata()
    }
    /// `metadata.name`
    #[must_use]
    pub fn name(&self) -> &str {
        self.subject.name()
    }
    /// `metadata.namespace`; `None` for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.subject.namespace()
    }
    /// `metadata.uid`
    #[must_use]
    pub fn uid(&self) -> &str {
        self.body().uid()
    }
    /// `metadata.labels`
    #[must_use]
    pub fn labels(&self) -> &Labels {
        self.body().labels()
    }
    /// `metadata.annotations`
    #[must_use]
    pub fn annotations(&self) -> &Labels {
        self.body().annotations()
    }
    /// The resource that the object belongs to.
    #[must_use]
    pub fn resource(&self) -> Option<&Resource> {
        Some(&self.subject.object()?.resource)
    }
    /// The values that handlers of this object keep in the process.
    #[must_use]
    pub fn memo(&self) -> &Memo {
        &self.context.memo
    }
    /// Logs about this object.
    #[must_use]
    pub fn logger(&self) -> &Logger {
        &self.context.logger
    }
    /// The handler's `param`, where it has one and it is a `T`.
    #[must_use]
    pub fn param<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.param.as_deref()?.downcast_ref()
    }
    /// Which attempt this is, from 0.
    #[must_use]
    pub fn retry(&self) -> u32 {
        self.attempt.retry
    }
    /// When the first attempt began.
    #[must_use]
    pub fn started(&self) -> SystemTime {
        self.attempt.started.into()
    }
    /// The time since then.
    #[must_use]
    pub fn runtime(&self) -> Duration {
        self.attempt.runtime
    }
    /// The request under review, for admission handlers.
    pub(crate) fn review(&self) -> Option<&ReviewSubject> {
        match &self.subject {
            Subject::Review(subject) => Some(subject),
            _ => None,
        }
    }
    /// A value that the operator was given, by its type: the client, or a value of your own.
    ///
    /// # Errors
    /// A permanent one, if no such value was given.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<Arc<T>, HandlerError> {
        let given = self.context.extensions.get();
        given.ok_or_else(|| nothing_given(std::any::type_name::<T>()))
    }
}

pub(crate) fn nothing_given(wanted: &str) -> HandlerError {
    PermanentError::new(format!("the handler asks for a `{wanted}`, but none was given to the operator; give it with `Operator::with`")).into()
}
