//! Tells of what happens to discovery and to watches.
//!
//! The one place where such happenings leave the operator. Must not know how they are worded.

use crate::engine::report::{report_of_operator, report_outage_over};
use crate::happening::Happening;
use crate::happening::serving::Serving;
use crate::rt::outage::Leaving;

/// Tell what has happened to discovery or to a watch.
pub(crate) fn report_serving(serving: Serving) {
    report_of_operator(&Happening::Serving(serving));
}

/// Tell that discovery or a watch goes on, as `resumed` says it: news where nothing else had failed for that reason. Else the outage is
/// what is over.
pub(crate) fn report_resumed(leaving: Leaving, resumed: impl FnOnce(bool) -> Serving) {
    let is_news = leaving.is_news();
    if leaving != Leaving::WasInNone {
        report_serving(resumed(is_news));
    }
    if let Leaving::Ends(over) = leaving
        && !is_news
    {
        report_outage_over(over);
    }
}
