//! Noticing that another program keeps its state under this operator's name.
//!
//! Promises no write and no false alarm: a state that this process may have written itself tells nothing, and what may be an instance
//! that is just being replaced is said so. Must not know what a trace is made of, nor how it is worded.

use std::sync::Arc;

use crate::engine::memory::Version;
use crate::engine::worker::Worker;
use crate::happening::Happening;
use crate::happening::duplicates::{DuplicateOperator, Severity};
use crate::object::body::Body;
use crate::object::outline::Outline;
use crate::object::raw::Raw;
use crate::state::trace::Evidence;

impl Worker {
    /// Look whether the state that has come was made by somebody who takes this operator's things for its own.
    pub(super) fn look_for_duplicates(&mut self, raw: &Raw) {
        let Some(evidence) = self.evidence(raw) else {
            return;
        };
        // Where the fate of an own write is not known, it may be its echo.
        let alien =
            || !self.writer.maybe_written && raw.body().is_ok_and(|body| self.is_readable(&body));
        if evidence == Evidence::UnknownRecords || alien() {
            self.notice(evidence, raw);
        }
    }

    /// Look the same way at the answer to an own write: others may have written just before it, and what they leave under names of
    /// their own is never this operator's doing.
    pub(super) fn look_for_unknown_records(&mut self, reply: &Raw) {
        if let Some(evidence @ Evidence::UnknownRecords) = self.evidence(reply) {
            self.notice(evidence, reply);
        }
    }

    /// How the state differs from the one known. Where versions cannot be compared, it may be an older one.
    fn evidence(&self, raw: &Raw) -> Option<Evidence> {
        let was = self.memory.trace?;
        let is = self.shared().trace(&self.kind, raw)?;
        let comparable = matches!(self.memory.version, Version::Number(_));
        is.since(was).filter(|_| comparable)
    }

    fn notice(&mut self, evidence: Evidence, raw: &Raw) {
        if evidence == Evidence::FinalizerReadded {
            self.memory.lately.readded_finalizers =
                self.memory.lately.readded_finalizers.saturating_add(1);
        }
        let (kind, readded_finalizers) = (self.kind.id, self.memory.lately.readded_finalizers);
        if let Some(severity) = self
            .shared()
            .note_duplicate(kind, evidence, readded_finalizers)
        {
            self.tell_of_duplicate(severity, evidence, raw);
        }
    }

    /// Rubbish is no operator's, and is told elsewhere.
    fn is_readable(&self, body: &Body) -> bool {
        self.shared().setup.persistence.essence.fetch(body).is_ok()
    }

    fn tell_of_duplicate(&self, severity: Severity, evidence: Evidence, raw: &Raw) {
        let (Some(places), Some(outline)) = (self.shared().places_of(&self.kind), Outline::of(raw))
        else {
            return;
        };
        let found = match evidence {
            Evidence::UnknownRecords => places.strangers(&outline).join(", "),
            Evidence::KnownRecords => format!("annotations under {}", places.prefix),
            Evidence::FinalizerReadded => format!("the finalizer {}", places.finalizer),
        };
        let duplicate = DuplicateOperator {
            severity,
            found,
            prefix: places.prefix.to_owned(),
            resource: (*self.kind.resource).clone(),
            object: self.context.about.clone(),
            handlers: self.kind.handlers.iter().map(|it| it.id.clone()).collect(),
        };
        self.context
            .report(&Happening::DuplicateOperator(Arc::new(duplicate)));
    }
}
