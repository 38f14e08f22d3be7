//! Reports happenings: as log lines through the logger of the object or activity, and, if the settings ask for it, as Kubernetes Events
//! about the object.
//!
//! All happenings leave the engine here. Must not know the words of the lines.

use std::sync::Arc;

use tracing::Level;

use crate::handler::event_sink::{OperatorSink, PostingLevel};
use crate::handler::logger::Logger;
use crate::happening::Happening;
use crate::object::posted_event::{EventKind, PostedEvent, Regarding};
use crate::object::raw::Facts;
use crate::object::reference::Reference;
use crate::object::resource::Resource;
use crate::rt::outage::Over;
use crate::wording::Line;
use crate::wording::event_words::event_words;

/// Reports `happening` about the subject of `logger`.
pub(crate) fn report(logger: &Logger, happening: &Happening) {
    let line = Line(happening);
    let level = line.level();
    logger.print(level, format_args!("{line}"));
    if logger.posts_lines()
        && let Some(words) = event_words(happening)
    {
        logger.post(
            level,
            Some(words.action),
            words.reason,
            format_args!("{words}"),
        );
    }
}

/// Posts the happening as an Event about the object, even if log lines are not posted.
pub(crate) fn post(
    events: &OperatorSink,
    about: Arc<Reference>,
    words: (&str, &str),
    happening: &Happening,
) {
    let line = Line(happening);
    if !events.0.takes(PostingLevel::from(line.level())) {
        return;
    }
    let regarding = Regarding {
        object: about,
        resource_version: None,
    };
    let event = PostedEvent::new(regarding, EventKind::Warning, words, &line.to_string());
    events.0.post(event);
}

/// Reports a repeated happening at DEBUG.
pub(crate) fn report_quietly(logger: &Logger, happening: &Happening) {
    logger.print(Level::DEBUG, format_args!("{}", Line(happening)));
}

/// Reports a happening of the operator as a whole.
pub(crate) fn report_of_operator(happening: &Happening) {
    let line = Line(happening);
    match line.level() {
        Level::ERROR => tracing::error!("{line}"),
        Level::WARN => tracing::warn!("{line}"),
        Level::INFO => tracing::info!("{line}"),
        Level::DEBUG => tracing::debug!("{line}"),
        Level::TRACE => tracing::trace!("{line}"),
    }
}

/// Reports that an outage is over.
pub(crate) fn report_outage_over(over: Over) {
    report_of_operator(&Happening::OutageOver {
        reason: over.name,
        waiting: over.joined,
        still: over.still,
        lasted: over.lasted,
        recovered: over.recovered,
    });
}

/// Reports a happening about an object without a worker. Builds nothing if the level is disabled.
pub(crate) fn report_about(resource: &Resource, facts: &Facts, happening: &Happening) {
    if tracing::level_enabled!(Line(happening).level()) {
        report(&Logger::of(Arc::new(about(resource, facts))), happening);
    }
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
