//! The errors of handlers, which decide whether the engine retries a handler.
//!
//! `?` accepts every error type. A temporary or permanent error keeps its meaning when another error wraps it
//! (`anyhow`, boxes, `#[source]`). This module does not decide how failures are handled.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::handler::child_trouble::ChildTrouble;
use crate::handler::denial::{AdmissionError, Denial};
use crate::handler::seconds::Seconds;

/// An error whose cause is expected to pass: the engine retries the handler after a delay, 60 s by default. Kopf's
/// `TemporaryError`.
///
/// ```
/// # use kopf_rs::prelude::*;
/// #[on_create("kopfexamples")]
/// async fn wait_for_pod(status: &Value) -> HandlerResult {
///     if status["phase"] != "Running" {
///         return Err(TemporaryError::new("the pod is not running").delay(5));
///     }
///     Ok(())
/// }
/// ```
///
/// [`retry!`](crate::retry) is shorter, and also works in closures and in functions without an attribute. There, a
/// plain error needs an `.into()`: `return Err(TemporaryError::new("..").into())`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemporaryError {
    message: String,
    #[source]
    meaning: Meaning,
}

/// An error whose cause will not pass: the engine does not retry the handler. Kopf's `PermanentError`; [`fail!`](crate::fail) is shorter.
///
/// ```
/// # use kopf_rs::prelude::*;
/// fn image(spec: &Value) -> HandlerResult<&str> {
///     Ok(spec["image"].as_str().ok_or_else(|| PermanentError::new("field spec.image must be provided"))?)
/// }
/// # assert!(image(&json!({})).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PermanentError {
    message: String,
    #[source]
    meaning: Meaning,
}

/// Any failure of a handler.
///
/// `?` converts every error type into it, including `anyhow::Error`, `Box<dyn Error + Send + Sync>` and plain text.
/// Temporary and permanent errors keep their meaning. The text contains the chain of causes.
#[derive(Debug)]
#[non_exhaustive]
pub enum HandlerError {
    /// The engine retries the handler after the delay of the error.
    Temporary(TemporaryError),
    /// The engine does not retry the handler.
    Permanent(PermanentError),
    /// Denies the request under review. Without such a request, it is a permanent error.
    Admission(AdmissionError),
    /// Any other error. The handler's `errors` mode decides how to treat it; by default, the engine retries.
    Arbitrary(Box<dyn Error + Send + Sync>),
}

/// The return type of handlers: no result, or a result that the engine stores in `status.{handler id}`.
pub type HandlerResult<T = ()> = Result<T, HandlerError>;

/// The part of an error that decides about retries. The error exposes it as its source, because wrappers such as
/// `anyhow::Error` hide the type of the error they hold, but not its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Meaning {
    /// The back-off before the retry; `None` for no retry.
    delay: Option<Duration>,
    /// The trouble with a child, if the error is about one.
    child: Option<ChildTrouble>,
    /// True if the object does not deserialize into the type that the handler asks for.
    is_unfit: bool,
}

/// Returns a [`TemporaryError`] from the handler. The engine retries it after a delay, given in seconds or as a
/// `Duration`; the default is 60 s.
///
/// Works in annotated functions, in closures, and in functions whose error type implements `From<TemporaryError>`.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[on_create("kopfexamples")]
/// async fn create_fn(spec: &Value, name: &str) -> HandlerResult {
///     if spec["ready"] != true {
///         retry!(5, "{name} is not ready");
///     }
///     let Some(size) = spec["size"].as_u64() else { retry!("no size yet") };
///     if size > 100 {
///         fail!("spec.size is {size}: expected at most 100");
///     }
///     Ok(())
/// }
/// ```
#[macro_export]
macro_rules! retry {
    ($message:literal $(,)?) => {
        return ::core::result::Result::Err(::core::convert::Into::into(
            $crate::TemporaryError::new(::std::format!($message)),
        ))
    };
    ($delay:expr, $($message:tt)+) => {
        return ::core::result::Result::Err(::core::convert::Into::into(
            $crate::TemporaryError::new(::std::format!($($message)+)).delay($delay),
        ))
    };
}

/// Returns a [`PermanentError`] from the handler, which is not retried. See [`retry!`](crate::retry).
///
/// ```
/// # use kopf_rs::prelude::*;
/// fn image(spec: &Value) -> HandlerResult<&str> {
///     let Some(image) = spec["image"].as_str() else { fail!("field spec.image must be provided") };
///     Ok(image)
/// }
/// # assert!(image(&json!({})).is_err());
/// ```
#[macro_export]
macro_rules! fail {
    ($($message:tt)+) => {
        return ::core::result::Result::Err(::core::convert::Into::into(
            $crate::PermanentError::new(::std::format!($($message)+)),
        ))
    };
}

// === impl TemporaryError ===

impl TemporaryError {
    /// Kopf's default delay.
    const DELAY: Duration = Duration::from_secs(60);

    /// Creates an error whose cause is expected to pass within 60 s.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            meaning: Meaning { delay: Some(Self::DELAY), child: None, is_unfit: false },
        }
    }
    /// Sets the delay, in seconds or as a `Duration`; zero retries immediately.
    #[must_use]
    pub fn delay(mut self, delay: impl Into<Seconds>) -> Self {
        self.meaning.delay = Some(delay.into().duration());
        self
    }
    pub(crate) fn delay_wanted(&self) -> Duration {
        self.meaning.delay.unwrap_or(Self::DELAY)
    }
    /// Marks the error as one about a child.
    pub(crate) fn about_child(mut self, child: Option<ChildTrouble>) -> Self {
        self.meaning.child = child;
        self
    }
    /// Returns the trouble with a child, if the error is about one.
    pub(crate) fn child(&self) -> Option<ChildTrouble> {
        self.meaning.child
    }
}

// === impl PermanentError ===

impl PermanentError {
    /// Creates an error whose cause will not pass.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), meaning: Meaning { delay: None, child: None, is_unfit: false } }
    }
    /// Creates an error for an object that does not deserialize into the type that the handler asks for.
    pub(crate) fn unfit(message: String) -> Self {
        let mut error = Self::new(message);
        error.meaning.is_unfit = true;
        error
    }
    /// Returns whether only a change of the object or of the handler's code can fix the error.
    pub(crate) fn is_unfit(&self) -> bool {
        self.meaning.is_unfit
    }
    /// Marks the error as one about a child.
    pub(crate) fn about_child(mut self, child: Option<ChildTrouble>) -> Self {
        self.meaning.child = child;
        self
    }
    /// Returns the trouble with a child, if the error is about one.
    pub(crate) fn child(&self) -> Option<ChildTrouble> {
        self.meaning.child
    }
}

// === impl HandlerError ===

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Temporary(error) => error.fmt(f),
            Self::Permanent(error) => error.fmt(f),
            Self::Admission(error) => error.fmt(f),
            Self::Arbitrary(error) => f.write_str(&whole_text(error.as_ref())),
        }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let error = error.into();
        Self::of_meaning(error.as_ref()).unwrap_or_else(|| Self::Arbitrary(error))
    }
}

impl HandlerError {
    /// Restores the text and the meaning from an error that wraps one of ours.
    fn of_meaning(error: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(denial) = hidden::<Denial>(error) {
            let denied = AdmissionError::of(whole_text(error), denial);
            return Some(Self::Admission(denied));
        }
        let meaning = hidden::<Meaning>(error)?;
        let message = whole_text(error);
        Some(if meaning.delay.is_some() {
            Self::Temporary(TemporaryError { message, meaning })
        } else {
            Self::Permanent(PermanentError { message, meaning })
        })
    }

    /// Converts an error that is not `Send`; keeps its text and its meaning.
    pub(crate) fn from_local(error: &(dyn Error + 'static)) -> Self {
        Self::of_meaning(error).unwrap_or_else(|| Self::Arbitrary(whole_text(error).into()))
    }
}

// === impl Meaning ===

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.delay {
            Some(delay) => write!(f, "to be tried again in {delay:?}"),
            None => f.write_str("not to be tried again"),
        }
    }
}

impl Error for Meaning {}

pub(super) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn hidden<T: Error + Clone + 'static>(error: &(dyn Error + 'static)) -> Option<T> {
    causes(error).find_map(|cause| cause.downcast_ref().cloned())
}

/// Joins the error and its causes with colons. Skips a cause that its parent already quotes.
fn whole_text(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let is_text = |cause: &&(dyn Error + 'static)| !cause.is::<Meaning>() && !cause.is::<Denial>();
    for cause in causes(error).skip(1).filter(is_text) {
        let part = cause.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::denial::AdmissionErrors;

    #[derive(Debug, thiserror::Error)]
    #[error("while creating the pod")]
    struct Wrapped<E: Error + 'static>(#[source] E);

    /// Imitates `anyhow`: a different type with the text and source of the wrapped error.
    #[derive(Debug, thiserror::Error)]
    #[error(transparent)]
    struct Hidden<E: Error + 'static>(E);

    #[test]
    fn direct_errors_keep_their_meaning() {
        let temporary = HandlerError::from(TemporaryError::new("wait").delay(1.5));
        assert!(
            matches!(temporary, HandlerError::Temporary(error) if error.delay_wanted() == Duration::from_millis(1500))
        );
        assert!(matches!(HandlerError::from(PermanentError::new("no")), HandlerError::Permanent(_)));
    }

    #[test]
    fn wrapped_errors_keep_their_meaning_and_all_causes() {
        let permanent = HandlerError::from(Wrapped(PermanentError::new("no image")));
        assert!(matches!(&permanent, HandlerError::Permanent(_)));
        assert_eq!(permanent.to_string(), "while creating the pod: no image");
        let hidden = HandlerError::from(Hidden(TemporaryError::new("wait").delay(3)));
        assert!(
            matches!(&hidden, HandlerError::Temporary(error) if error.delay_wanted() == Duration::from_secs(3))
        );
        assert_eq!(hidden.to_string(), "wait");
    }

    #[test]
    fn a_denial_keeps_its_code_and_its_fields() {
        let denied = |error: HandlerError| match error {
            HandlerError::Admission(error) => (error.to_string(), error.into_denial()),
            other => panic!("expected a denial, got {other:?}"),
        };
        let (text, denial) = denied(AdmissionError::new("no").code(418).into());
        assert_eq!((text.as_str(), denial.code), ("no", Some(418)));
        let (text, denial) = denied(Hidden(Wrapped(AdmissionError::new("no"))).into());
        assert_eq!((text.as_str(), denial.code), ("while creating the pod: no", None));
        let mut errors = AdmissionErrors::new();
        errors.required("spec.image", "");
        let (text, denial) = denied(errors.into());
        assert_eq!(text, "spec.image: Required value");
        assert_eq!(denial.fields[0].field, "spec.image");
    }

    #[test]
    fn anything_else_is_arbitrary() {
        let error = HandlerError::from("plain text");
        assert!(matches!(&error, HandlerError::Arbitrary(_)));
        assert_eq!(error.to_string(), "plain text");
        let error = HandlerError::from(Wrapped(fmt::Error));
        assert!(error.to_string().starts_with("while creating the pod: "));
    }
}
