//! Reports happenings: as log lines through the logger of the object or activity, and, if the settings ask for it, as Kubernetes Events
//! about the object.
//!
//! All happenings leave the engine here. Must not know the texts of the lines.

use std::fmt::Display;
use std::sync::Arc;

use tracing::Level;

use crate::handler::event_sink::{OperatorSink, PostingLevel};
use crate::handler::logger::Logger;
use crate::happening::meter::Meter;
use crate::happening::working::Working;
use crate::happening::{Happening, Uncounted};
use crate::object::posted_event::{EventKind, PostedEvent, Regarding};
use crate::object::raw::Facts;
use crate::object::reference::Reference;
use crate::object::resource::Resource;
use crate::rt::outage::Over;

/// Reports `happening` about the subject of `logger`.
pub(crate) fn report(logger: &Logger, happening: &dyn Uncounted) {
    report_counted(None, logger, happening);
}

/// Reports `happening` about the subject of `logger`, and counts it if there are metrics.
pub(crate) fn report_counted(meter: Option<&dyn Meter>, logger: &Logger, happening: &dyn Happening) {
    if let Some(meter) = meter {
        happening.count(meter);
    }
    let level = happening.level();
    logger.print(level, format_args!("{happening}"));
    if logger.posts_lines()
        && let Some(event) = happening.event()
    {
        let text: &dyn Display = match &event.text {
            Some(text) => text,
            None => &happening,
        };
        let action = Some(event.action);
        logger.post(level, action, event.reason, format_args!("{text}"));
    }
}

/// Posts the Event of the happening, if it has one, even if log lines are not posted.
pub(crate) fn post(events: &OperatorSink, about: Arc<Reference>, happening: &dyn Happening) {
    let Some(event) = happening.event() else {
        return;
    };
    if !events.0.takes(PostingLevel::from(happening.level())) {
        return;
    }
    let words = (event.action, event.reason);
    let text = event.text.unwrap_or_else(|| happening.to_string());
    let regarding = Regarding { object: about, resource_version: None };
    let event = PostedEvent::new(regarding, EventKind::Warning, words, &text);
    events.0.post(event);
}

/// Reports a repeated happening at DEBUG, and does not count it again.
pub(crate) fn report_quietly(logger: &Logger, happening: &dyn Happening) {
    logger.print(Level::DEBUG, format_args!("{happening}"));
}

/// Reports a happening of the operator as a whole.
pub(crate) fn report_of_operator(happening: &dyn Uncounted) {
    match happening.level() {
        Level::ERROR => tracing::error!("{happening}"),
        Level::WARN => tracing::warn!("{happening}"),
        Level::INFO => tracing::info!("{happening}"),
        Level::DEBUG => tracing::debug!("{happening}"),
        Level::TRACE => tracing::trace!("{happening}"),
    }
}

/// Reports that an outage is over.
pub(crate) fn report_outage_over(over: Over) {
    report_of_operator(&Working::OutageOver {
        reason: over.name,
        waiting: over.joined,
        still: over.still,
        lasted: over.lasted,
        recovered: over.recovered,
    });
}

/// Returns a reference to the object with these `facts`.
pub(crate) fn about(resource: &Resource, facts: &Facts) -> Reference {
    Reference {
        api_version: resource.api_version(),
        kind: resource.kind.clone(),
        name: facts.name.clone(),
        namespace: facts.namespace.clone(),
        uid: facts.uid.clone(),
    }
}
