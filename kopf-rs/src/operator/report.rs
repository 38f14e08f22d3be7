//! Tells of what happens to the operator as a whole: today the log.
//!
//! The one place where such happenings leave the operator. Must not know how they are worded.

use tracing::Level;

use crate::happening::Happening;
use crate::happening::serving::Serving;
use crate::wording::Line;

/// Tell whoever wants to know.
pub(crate) fn report(happening: &Happening) {
    let line = Line(happening);
    match line.level() {
        Level::ERROR => tracing::error!("{line}"),
        Level::WARN => tracing::warn!("{line}"),
        Level::INFO => tracing::info!("{line}"),
        Level::DEBUG => tracing::debug!("{line}"),
        Level::TRACE => tracing::trace!("{line}"),
    }
}

/// Tell what has happened to discovery or to a watch.
pub(crate) fn report_serving(serving: Serving) {
    report(&Happening::Serving(serving));
}
