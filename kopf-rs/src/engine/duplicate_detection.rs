//! Notices that another program keeps its state under this operator's name.
//!
//! Never writes and raises no false alarm: a state that this process may have written itself is no evidence, and the report mentions it if the
//! other program may be an instance that is just being replaced. Must not know what a trace consists of, nor the words of the report.

use std::sync::Arc;

use crate::engine::memory::Version;
use crate::engine::worker::Worker;
use crate::happening::Happening;
use crate::happening::duplicates::{DuplicateOperator, Severity};
use crate::object::body::Body;
use crate::object::lazy_json::Outline;
use crate::object::raw::Raw;
use crate::state::trace::Evidence;

impl Worker {
    /// Examines whether another program that uses this operator's marks has made the new state.
    pub(super) fn look_for_duplicates(&mut self, raw: &Raw) {
        let Some(evidence) = self.evidence(raw) else {
            return;
        };
        // If the fate of an own write is unknown, the state may be its echo.
        let alien =
            || !self.writer.maybe_written && raw.body().is_ok_and(|body| self.is_readable(&body));
        if evidence == Evidence::UnknownRecords || alien() {
            self.notice(evidence, raw);
        }
    }

    /// Examines the answer to an own write in the same way: another program may have written just before it, and records under unknown names
    /// can never be this operator's work.
    pub(super) fn look_for_unknown_records(&mut self, reply: &Raw) {
        if let Some(evidence @ Evidence::UnknownRecords) = self.evidence(reply) {
            self.notice(evidence, reply);
        }
    }

    /// Returns the evidence in the difference between the state and the one known. Returns `None` if the versions cannot be compared, since
    /// the state may be older than the one known.
    fn evidence(&self, raw: &Raw) -> Option<Evidence> {
        let was = self.memory.trace?;
        let is = self.shared().trace(&self.kind, raw)?;
        let comparable = matches!(self.memory.version, Version::Number(_));
        is.since(was).filter(|_| comparable)
    }

    fn notice(&mut self, evidence: Evidence, raw: &Raw) {
        if evidence == Evidence::FinalizerReadded {
            self.memory.recent.readded_finalizers =
                self.memory.recent.readded_finalizers.saturating_add(1);
        }
        let (kind, readded_finalizers) = (self.kind.id, self.memory.recent.readded_finalizers);
        if let Some(severity) = self
            .shared()
            .note_duplicate(kind, evidence, readded_finalizers)
        {
            self.tell_of_duplicate(severity, evidence, raw);
        }
    }

    /// Returns whether the last-applied state is readable. An unreadable one belongs to no operator and is reported elsewhere.
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
