//! Reports happenings of discovery and of watches.
//!
//! All of them leave the operator here. Must not know the words of the lines.

use crate::engine::report::{report_of_operator, report_outage_over};
use crate::happening::Happening;
use crate::happening::serving::Serving;
use crate::rt::outage::Leaving;

/// Reports a happening of discovery or of a watch.
pub(crate) fn report_serving(serving: Serving) {
    report_of_operator(&Happening::Serving(serving));
}

/// Reports that discovery or a watch goes on, with the line `resumed`. If other parts have failed for the same reason, reports the end of
/// their common outage instead.
pub(crate) fn report_resumed(leaving: Leaving, resumed: impl FnOnce(bool) -> Serving) {
    let is_news = leaving.is_news();
    if leaving != Leaving::NotInOutage {
        report_serving(resumed(is_news));
    }
    if let Leaving::Ends(over) = leaving
        && !is_news
    {
        report_outage_over(over);
    }
}
