//! How a handler says that it failed: for a while, or for good.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Try again after `delay` (60 s where not given): the condition is expected to pass. Kopf's `TemporaryError`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemporaryError {
    message: String,
    delay: Duration,
}

/// Never try again: Kopf's `PermanentError`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermanentError {
    message: String,
}

/// Any failure of a handler. `?` turns every `std::error::Error` into one; temporary and permanent errors keep their meaning.
#[derive(Debug)]
pub enum HandlerError {
    /// Retried after its own delay.
    Temporary(TemporaryError),
    /// Final.
    Permanent(PermanentError),
    /// Whatever else: treated as the handler's `errors` mode says, retried by default.
    Arbitrary(Box<dyn Error + Send + Sync>),
}

/// What handlers return: nothing, or a result kept in `status.{handler id}`.
pub type HandlerResult<T = ()> = Result<T, HandlerError>;

// === impl TemporaryError ===

impl TemporaryError {
    /// Kopf's default delay.
    const DELAY: Duration = Duration::from_secs(60);

    /// An error that passes within 60 s.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            delay: Self::DELAY,
        }
    }
    /// With another delay; zero means at once.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
    pub(crate) fn delay_wanted(&self) -> Duration {
        self.delay
    }
}

impl fmt::Display for TemporaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for TemporaryError {}

// === impl PermanentError ===

impl PermanentError {
    /// An error that will not pass.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

impl fmt::Display for PermanentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for PermanentError {}

// === impl HandlerError ===

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Temporary(error) => error.fmt(f),
            Self::Permanent(error) => error.fmt(f),
            Self::Arbitrary(error) => error.fmt(f),
        }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::from_boxed(Box::new(error))
    }
}

impl HandlerError {
    pub(crate) fn from_boxed(error: Box<dyn Error + Send + Sync>) -> Self {
        let error = match error.downcast::<TemporaryError>() {
            Ok(temporary) => return Self::Temporary(*temporary),
            Err(error) => error,
        };
        match error.downcast::<PermanentError>() {
            Ok(permanent) => Self::Permanent(*permanent),
            Err(error) => Self::Arbitrary(error),
        }
    }
}
