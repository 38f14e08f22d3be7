//! What happens while requests are reviewed, beside the attempts themselves.
//!
//! Must not know any wording.

use std::sync::Arc;
use std::time::Duration;

use crate::handler::definition::Handler;

/// Something about the review of a request, and the admission handler.
#[derive(Clone, Debug)]
pub(crate) enum Reviewing {
    /// It has not returned in time, and was cut off, or goes on for nobody.
    OutOfTime {
        handler: Arc<Handler>,
        after: Duration,
    },
    /// It has changed what it must not.
    ChangeRefused {
        handler: Arc<Handler>,
        reason: String,
    },
    /// One of its filters has panicked.
    FilterPanicked {
        handler: Arc<Handler>,
        panic: String,
    },
    /// It has denied the request with a code that is none of an error.
    OddCode { handler: Arc<Handler>, code: u16 },
}
