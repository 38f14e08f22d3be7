//! Reports calls of handlers to metrics and traces, from their start to their end, with the reason of each call.
//!
//! Must not know the metrics.

use std::sync::Arc;

use tracing::Span;

use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::outcome::Outcome;
use crate::handler::subject::{Reason, Subject};
use crate::happening::meter::{CallEnd, Meter, SharedMeter};
use crate::happening::spans;

/// A running call. Dropping it before its end counts as a cancellation.
pub(super) struct MeteredCall(Option<Box<Begun>>);

/// Boxed because thousands of calls may run, while most operators neither keep metrics nor collect traces.
struct Begun {
    meter: Option<(Arc<dyn Meter>, u64)>,
    reason: &'static str,
    is_review: bool,
    span: Span,
}

impl MeteredCall {
    pub(super) fn begin(meter: &SharedMeter, cause: &HandlerCall) -> Self {
        if meter.is_none() && !spans::are_collected() {
            return Self(None);
        }
        let (id, reason) = (&cause.handler.id, reason_of(cause));
        let begin = |meter: &Arc<dyn Meter>| (meter.clone(), meter.call_begins(id));
        Self(Some(Box::new(Begun {
            meter: meter.as_ref().map(begin),
            reason,
            is_review: matches!(cause.subject, Subject::Review(_)),
            span: spans::call(id, reason, cause.cause.attempt.retry),
        })))
    }

    /// Returns the span to run the call in.
    pub(super) fn span(&self) -> Span {
        let span = self.0.as_ref().map(|begun| begun.span.clone());
        span.unwrap_or_else(Span::none)
    }

    /// Reports the outcome of the call; `None` stands for a cancellation.
    pub(super) fn end(mut self, outcome: Option<&Outcome>) {
        let is_review = self.0.as_ref().is_some_and(|begun| begun.is_review);
        let end = outcome.map_or(Some(CallEnd::Cancelled), |it| end_of(it, is_review));
        self.tell(end, outcome.and_then(Outcome::message));
    }

    fn tell(&mut self, end: Option<CallEnd>, message: Option<&str>) {
        let Some(begun) = self.0.take() else { return };
        if let Some((meter, number)) = begun.meter {
            meter.call_ends(number, begun.reason, end);
        }
        spans::call_ended(&begun.span, end, message);
    }
}

impl Drop for MeteredCall {
    fn drop(&mut self) {
        self.tell(Some(CallEnd::Cancelled), None);
    }
}

fn end_of(outcome: &Outcome, is_review: bool) -> Option<CallEnd> {
    match outcome {
        // A denial is a normal outcome of an admission handler.
        Outcome::Denied { .. } if is_review => Some(CallEnd::Denied),
        Outcome::Succeeded(_) => Some(CallEnd::Success),
        Outcome::Temporary { .. } => Some(CallEnd::Temporary),
        Outcome::Permanent { .. } | Outcome::Denied { .. } => Some(CallEnd::Permanent),
        Outcome::Arbitrary { .. } | Outcome::Panicked { .. } => Some(CallEnd::Error),
        Outcome::TimedOut { .. } => Some(CallEnd::Timeout),
        Outcome::Waiting => None,
    }
}

fn reason_of(cause: &HandlerCall) -> &'static str {
    match &cause.subject {
        Subject::Change(subject) => subject.change.reason.unwrap_or(Reason::Update).as_str(),
        _ => word(&cause.handler),
    }
}

/// Returns all reasons for which a handler may be called. Synchronous index functions are not metered, because they run for every state of
/// every object.
#[cfg(feature = "metrics")]
pub(crate) fn reasons(handler: &Handler) -> Vec<&'static str> {
    if !handler.is_for_changes() {
        let is_counted = handler.index.is_none() || !handler.is_blocking();
        return is_counted.then(|| word(handler)).into_iter().collect();
    }
    let all = [Reason::Create, Reason::Update, Reason::Delete, Reason::Resume];
    let is_for = |reason: &Reason| handler.is_for(*reason, false) || handler.is_for(*reason, true);
    all.into_iter().filter(is_for).map(Reason::as_str).collect()
}

/// Returns the attribute's name without `on_`.
fn word(handler: &Handler) -> &'static str {
    let attribute = handler.kind.attribute();
    attribute.strip_prefix("on_").unwrap_or(attribute)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::denial::Denial;

    #[test]
    fn an_admission_handler_that_denies_has_not_failed() {
        let denied = Outcome::Denied { message: "no".to_owned(), denial: Denial::default() };
        assert_eq!(end_of(&denied, true), Some(CallEnd::Denied));
        assert_eq!(end_of(&denied, false), Some(CallEnd::Permanent));
    }
}
