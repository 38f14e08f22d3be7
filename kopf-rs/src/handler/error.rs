//! How a handler says that it failed: for a while, or for good.
//!
//! `?` accepts any error a program may have; a temporary or permanent error keeps its meaning also when it travels inside another
//! one (`anyhow`, boxes, `#[source]`). Must not know what is done about a failure.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::handler::child_trouble::ChildTrouble;
use crate::handler::denial::{AdmissionError, Denial};
use crate::handler::seconds::Seconds;

/// The handler is tried again after `delay` (60 s by default): its condition is expected to pass. Kopf's `TemporaryError`.
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
/// [`retry!`](crate::retry) is shorter, and also works in closures and in functions without an attribute. There, the error itself needs an `.into()`:
/// `return Err(TemporaryError::new("..").into())`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemporaryError {
    message: String,
    meaning: Meaning,
}

/// The handler is not tried again: Kopf's `PermanentError`. [`fail!`](crate::fail) is shorter.
///
/// ```
/// # use kopf_rs::prelude::*;
/// fn image(spec: &Value) -> HandlerResult<&str> {
///     Ok(spec["image"].as_str().ok_or_else(|| PermanentError::new("field spec.image must be provided"))?)
/// }
/// # assert!(image(&json!({})).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermanentError {
    message: String,
    meaning: Meaning,
}

/// Any failure of a handler.
///
/// `?` converts every error type, `anyhow::Error`, `Box<dyn Error + Send + Sync>` and plain text into it; temporary and permanent errors keep
/// their meaning. The text contains the chain of causes.
#[derive(Debug)]
#[non_exhaustive]
pub enum HandlerError {
    /// The handler is tried again after the delay of the error.
    Temporary(TemporaryError),
    /// The handler is not tried again.
    Permanent(PermanentError),
    /// The request is denied. Where no request is under review, the handler is not tried again.
    Admission(AdmissionError),
    /// Whatever else: treated as the handler's `errors` mode says, retried by default.
    Arbitrary(Box<dyn Error + Send + Sync>),
}

/// What handlers return: nothing, or a result kept in `status.{handler id}`.
pub type HandlerResult<T = ()> = Result<T, HandlerError>;

/// What an error says about another attempt. Offered as its source, because wrappers such as `anyhow::Error` hide the type they hold
/// but not its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Meaning {
    /// When it is tried again; `None`: it is not.
    delay: Option<Duration>,
    /// The error is about a child.
    child: Option<ChildTrouble>,
}

/// Return from the handler with a [`TemporaryError`]: it is called again after a delay in seconds, or a `Duration`; 60 s where none is given.
///
/// For annotated functions, for closures, and for functions whose errors a `TemporaryError` can become.
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

/// Return from the handler with a [`PermanentError`]: it is not called again. See [`retry!`](crate::retry).
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

    /// An error that passes within 60 s.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            meaning: Meaning {
                delay: Some(Self::DELAY),
                child: None,
            },
        }
    }
    /// With another delay, in seconds or as a `Duration`; zero means at once.
    #[must_use]
    pub fn delay(mut self, delay: impl Into<Seconds>) -> Self {
        self.meaning.delay = Some(delay.into().duration());
        self
    }
    pub(crate) fn delay_wanted(&self) -> Duration {
        self.meaning.delay.unwrap_or(Self::DELAY)
    }
    /// It is about a child.
    pub(crate) fn about_child(mut self, child: Option<ChildTrouble>) -> Self {
        self.meaning.child = child;
        self
    }
    /// What is wrong with a child, where it is about one.
    pub(crate) fn child(&self) -> Option<ChildTrouble> {
        self.meaning.child
    }
}

impl fmt::Display for TemporaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for TemporaryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.meaning)
    }
}

// === impl PermanentError ===

impl PermanentError {
    /// An error that will not pass.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            meaning: Meaning {
                delay: None,
                child: None,
            },
        }
    }
    /// It is about a child.
    pub(crate) fn about_child(mut self, child: Option<ChildTrouble>) -> Self {
        self.meaning.child = child;
        self
    }
    /// What is wrong with a child, where it is about one.
    pub(crate) fn child(&self) -> Option<ChildTrouble> {
        self.meaning.child
    }
}

impl fmt::Display for PermanentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for PermanentError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.meaning)
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
        Self::from_boxed(error.into())
    }
}

impl HandlerError {
    pub(crate) fn from_boxed(error: Box<dyn Error + Send + Sync>) -> Self {
        let error = match error.downcast::<TemporaryError>() {
            Ok(temporary) => return Self::Temporary(*temporary),
            Err(error) => error,
        };
        let error = match error.downcast::<PermanentError>() {
            Ok(permanent) => return Self::Permanent(*permanent),
            Err(error) => error,
        };
        Self::of_meaning(error.as_ref()).unwrap_or_else(|| Self::Arbitrary(error))
    }

    /// Of an error that has one of ours inside: its text and its meaning.
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

    /// Of an error that cannot be sent to other threads: its text and its meaning.
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

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn hidden<T: Error + Clone + 'static>(error: &(dyn Error + 'static)) -> Option<T> {
    causes(error).find_map(|cause| cause.downcast_ref().cloned())
}

/// The error and its causes, joined by colons; a cause that its parent already quotes is not repeated.
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

    /// As `anyhow` does it: another type, whose text and source are those of the error inside.
    #[derive(Debug, thiserror::Error)]
    #[error(transparent)]
    struct Hidden<E: Error + 'static>(E);

    #[test]
    fn direct_errors_keep_their_meaning() {
        let temporary = HandlerError::from(TemporaryError::new("wait").delay(1.5));
        assert!(
            matches!(temporary, HandlerError::Temporary(error) if error.delay_wanted() == Duration::from_millis(1500))
        );
        assert!(matches!(
            HandlerError::from(PermanentError::new("no")),
            HandlerError::Permanent(_)
        ));
    }

    #[test]
    fn wrapped_errors_keep_their_meaning_and_tell_the_whole_story() {
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
        assert_eq!(
            (text.as_str(), denial.code),
            ("while creating the pod: no", None)
        );
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
