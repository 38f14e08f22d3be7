//! The object as it is now, for handlers that run for long: what they were called with becomes old.
//!
//! Must not know who tells of changes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;

use crate::handler::error::HandlerError;
use crate::handler::read::{self, Absent, At};
use crate::object::body::Body;

/// The object as it is now, as far as the operator has heard: for daemons, whose other arguments are of the moment they were called.
///
/// ```
/// use std::time::Duration;
///
/// use kopf_rs::prelude::*;
///
/// #[daemon("kopfexamples")]
/// async fn follow(live: Live, stopped: &Stopped) -> HandlerResult {
///     while !stopped.wait_for(Duration::from_secs(5)).await {
///         let spec: Value = live.spec()?;
///         info!("its size is {} now", spec["size"]);
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Live(Arc<Mutex<Arc<Body>>>);

impl Live {
    /// An object that stays as it is until [`set`](Self::set) says otherwise: for unit tests.
    #[must_use]
    pub fn new(body: Body) -> Self {
        Self::of(Arc::new(body))
    }

    pub(crate) fn of(body: Arc<Body>) -> Self {
        Self(Arc::new(Mutex::new(body)))
    }

    /// The whole object.
    #[must_use]
    pub fn body(&self) -> Arc<Body> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The stanza `spec` as a type of yours; `Value` for the JSON itself.
    ///
    /// # Errors
    /// A permanent one that names the JSON path, where `spec` is no `T`.
    pub fn spec<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let body = self.body();
        let at = At {
            body: &body,
            path: "spec",
        };
        read::read(at, read::stanza(body.spec()), Absent::Empty)
    }

    /// The stanza `status` as a type of yours.
    ///
    /// # Errors
    /// A permanent one that names the JSON path, where `status` is no `T`.
    pub fn status<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let body = self.body();
        let at = At {
            body: &body,
            path: "status",
        };
        read::read(at, read::stanza(body.status()), Absent::Empty)
    }

    /// The object has changed.
    pub fn set(&self, body: impl Into<Arc<Body>>) {
        let mut live = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *live = body.into();
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Live").field(&self.body().name()).finish()
    }
}
