//! The current state of an object, for long-running handlers, whose other arguments become outdated.
//!
//! The engine stores each new state as text. The first access by a handler parses it, since thousands of daemons
//! never read it. This module does not know where changes come from.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::handler::error::HandlerError;
use crate::handler::read::{self, Absent, At};
use crate::object::body::Body;
use crate::object::raw::Raw;

/// The newest state of the object that the operator knows. Daemons need it because their other arguments are
/// snapshots from the start of the call.
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

/// The newest known state.
#[derive(Default)]
struct Newest {
    text: Option<Raw>,
    /// The parsed tree. It takes precedence over the text.
    tree: Option<Arc<Body>>,
}

impl Live {
    /// Creates a fixed object for unit tests; only [`set`](Self::set) changes it.
    #[must_use]
    pub fn new(body: Body) -> Self {
        Self::of(Arc::new(body))
    }

    pub(crate) fn of(body: Arc<Body>) -> Self {
        Self(Arc::new(Mutex::new(Newest { text: None, tree: Some(body) })))
    }

    /// Creates the handle from the engine's text.
    pub(crate) fn of_text(text: Raw) -> Self {
        Self(Arc::new(Mutex::new(Newest { text: Some(text), tree: None })))
    }

    /// Returns the whole object. Each call parses the newest text, so keep the result while you work on one state.
    #[must_use]
    pub fn body(&self) -> Arc<Body> {
        let (text, tree) = {
            let newest = self.0.lock();
            (newest.text.clone(), newest.tree.clone())
        };
        tree.unwrap_or_else(|| {
            let body = text.and_then(|text| text.body().ok());
            Arc::new(body.unwrap_or_else(|| Body::new(Value::Null)))
        })
    }

    /// Returns the newest text from the engine.
    pub(crate) fn text(&self) -> Option<Raw> {
        self.0.lock().text.clone()
    }

    /// Deserializes the stanza `spec` into `T`; use `Value` for the plain JSON.
    ///
    /// # Errors
    /// Returns a permanent error that names the JSON path if `spec` does not deserialize into `T`.
    pub fn spec<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let body = self.body();
        let at = At { body: &body, path: "spec" };
        read::read(at, read::stanza(body.spec()), Absent::Empty)
    }

    /// Deserializes the stanza `status` into `T`.
    ///
    /// # Errors
    /// Returns a permanent error that names the JSON path if `status` does not deserialize into `T`.
    pub fn status<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let body = self.body();
        let at = At { body: &body, path: "status" };
        read::read(at, read::stanza(body.status()), Absent::Empty)
    }

    /// Replaces the object.
    pub fn set(&self, body: impl Into<Arc<Body>>) {
        self.0.lock().tree = Some(body.into());
    }

    /// Replaces the object with the engine's newest text.
    pub(crate) fn set_text(&self, text: Raw) {
        *self.0.lock() = Newest { text: Some(text), tree: None };
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Live").field(&self.body().name()).finish()
    }
}
