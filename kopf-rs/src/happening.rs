//! What has happened to an object or to the operator: values, for whoever wants to know.
//!
//! The pure code and the engine give these; log lines are made of them in `wording`, and metrics, traces, Kubernetes Events and status
//! pages subscribe to the same values. Must not know who listens, nor any wording.

use std::sync::Arc;

use crate::handler::decl::Handler;

/// Something that has happened. Cheap to make: what is large is shared.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    // === attempts ===
    /// An attempt of a handler begins.
    Invoked { handler: Arc<Handler> },
    /// The operator stops: an attempt was cut off, and its outcome is unknown.
    Cancelled { handler: Arc<Handler> },
}
