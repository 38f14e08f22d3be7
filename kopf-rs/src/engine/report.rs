//! Reports happenings: as log lines, through the logger of the object or activity that a happening is about, and, where the settings ask for
//! it, as Kubernetes Events about that object.
//!
//! The one place where happenings leave the engine. Must not know how they are worded.

use std::sync::Arc;

use tracing::Level;

use crate::handler::logger::Logger;
use crate::happening::Happening;
use crate::object::raw::Facts;
use crate::object::reference::Reference;
use crate::object::resource::Resource;
use crate::rt::outage::Over;
use crate::wording::Line;
use crate::wording::event_words::event_words;

/// Tell whoever wants to know that `happening` has happened to what `logger` is about.
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

/// The same at DEBUG, for it was told before.
pub(crate) fn report_quietly(logger: &Logger, happening: &Happening) {
    logger.print(Level::DEBUG, format_args!("{}", Line(happening)));
}

/// Tell what has happened to the operator as a whole.
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

/// Tell that an outage is over.
pub(crate) fn report_outage_over(over: Over) {
    report_of_operator(&Happening::OutageOver {
        reason: over.name,
        waiting: over.joined,
        still: over.still,
        lasted: over.lasted,
        recovered: over.recovered,
    });
}

/// The same of an object without a worker. Nothing is made where nobody listens.
pub(crate) fn report_about(resource: &Resource, facts: &Facts, happening: &Happening) {
    if tracing::level_enabled!(Line(happening).level()) {
        report(&Logger::of(Arc::new(about(resource, facts))), happening);
    }
}

/// The object that `facts` are of.
pub(crate) fn about(resource: &Resource, facts: &Facts) -> Reference {
    Reference {
        api_version: resource.api_version(),
        kind: resource.kind.clone(),
        name: facts.name.clone(),
        namespace: facts.namespace.clone(),
        uid: facts.uid.clone(),
    }
}
