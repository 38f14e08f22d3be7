//! Tells of happenings: today the log, through the logger of the object or activity they are about.
//!
//! The one place where happenings leave the engine. Must not know how they are worded.

use crate::handler::logger::Logger;
use crate::happening::Happening;
use crate::wording::Line;

/// Tell whoever wants to know that `happening` has happened to what `logger` is about.
pub(crate) fn report(logger: &Logger, happening: &Happening) {
    let line = Line(happening);
    logger.log(line.level(), format_args!("{line}"));
}
