//! Reports that watches and discovery recover, and that watches end. Must not know the texts of the lines.

use std::sync::Arc;

use crate::engine::report::{report_of_operator, report_outage_over};
use crate::happening::Uncounted;
use crate::happening::serving::Watching;
use crate::object::collection::Collection;
use crate::rt::outage::Leaving;

/// Reports that discovery or a watch works again, with the line `resumed`. If other parts have failed for the same reason, reports the end of
/// their common outage instead.
pub(crate) fn report_resumed<T: Uncounted>(leaving: Leaving, resumed: impl FnOnce(bool) -> T) {
    let is_news = leaving.is_news();
    if leaving != Leaving::NotInOutage {
        report_of_operator(&resumed(is_news));
    }
    if let Leaving::Ends(over) = leaving
        && !is_news
    {
        report_outage_over(over);
    }
}

/// Reports that a watch has ended.
pub(crate) fn report_stopped(what: &Arc<Collection>) {
    let what = what.clone();
    report_of_operator(&Watching::Stopped { what });
}
