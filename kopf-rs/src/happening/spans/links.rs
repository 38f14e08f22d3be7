//! Links between traces: the trace of a retry is linked to the trace of the previous cycle.
//!
//! Memory is bounded. This module does not know who collects traces.

use std::collections::BTreeMap;

use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use parking_lot::Mutex;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The span of the last cycle per object uid.
static LAST: Mutex<BTreeMap<String, SpanContext>> = Mutex::new(BTreeMap::new());

/// The maximum number of entries. At the limit, all entries are dropped: links are only a convenience and not worth
/// more memory.
const KEPT: usize = 4096;

/// Starts a cycle of the object; links it to the previous one if a handler is retried.
pub(super) fn begin(span: &Span, uid: &str, is_retry: bool) {
    let mut last = LAST.lock();
    let former = last.remove(uid).filter(|_| is_retry);
    if let Some(former) = former {
        span.add_link(former);
    }
    let context = span.context().span().span_context().clone();
    if context.is_valid() {
        if last.len() >= KEPT {
            last.clear();
        }
        last.insert(uid.to_owned(), context);
    }
}
