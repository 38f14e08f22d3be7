//! The object as it is now, for handlers that run for long: what they were called with becomes old.
//!
//! The engine gives it as text, of which a tree is made when a handler asks: thousands of daemons never do. Must not know who tells of changes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::handler::error::HandlerError;
use crate::handler::read::{self, Absent, At};
use crate::object::body::Body;
use crate::object::raw::Raw;

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
pub struct Live(Arc<Mutex<Newest>>);

/// What is known of the object.
#[derive(Default)]
struct Newest {
    text: Option<Raw>,
    /// Counts before the text.
    tree: Option<Arc<Body>>,
}

impl Live {
    /// An object that stays as it is until [`set`](Self::set) says otherwise: for unit tests.
    #[must_use]
    pub fn new(body: Body) -> Self {
        Self::of(Arc::new(body))
    }

    pub(crate) fn of(body: Arc<Body>) -> Self {
        Self(Arc::new(Mutex::new(Newest {
            text: None,
            tree: Some(body),
        })))
    }

    /// An object as the engine knows it.
    pub(crate) fn of_text(text: Raw) -> Self {
        Self(Arc::new(Mutex::new(Newest {
            text: Some(text),
            tree: None,
        })))
    }

    /// The whole object. Each call makes a tree of the newest text: keep it as long as you look at one state.
    #[must_use]
    pub fn body(&self) -> Arc<Body> {
        let (text, tree) = {
            let newest = self.lock();
            (newest.text.clone(), newest.tree.clone())
        };
        tree.unwrap_or_else(|| {
            let body = text.and_then(|text| text.body().ok());
            Arc::new(body.unwrap_or_else(|| Body::new(Value::Null)))
        })
    }

    /// The newest text that the engine has given.
    pub(crate) fn text(&self) -> Option<Raw> {
        self.lock().text.clone()
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
        self.lock().tree = Some(body.into());
    }

    /// The object has changed, as the engine knows.
    pub(crate) fn set_text(&self, text: Raw) {
        *self.lock() = Newest {
            text: Some(text),
            tree: None,
        };
    }

    fn lock(&self) -> MutexGuard<'_, Newest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Live").field(&self.body().name()).finish()
    }
}
