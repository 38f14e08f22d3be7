//! Progress records: what is remembered of a handler between attempts (core.md 7).

use jiff::Timestamp;

use crate::handler::cause::Reason;
use crate::object::body::Body;
use crate::object::patch::Patch;

/// One handler's progress within one cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub(crate) started: Timestamp,
    pub(crate) stopped: Option<Timestamp>,
    pub(crate) delayed: Option<Timestamp>,
    pub(crate) purpose: Option<Reason>,
    pub(crate) retries: u32,
    pub(crate) success: bool,
    pub(crate) failure: bool,
    pub(crate) message: Option<String>,
    /// Digest of the essence the cycle handles.
    pub(crate) target: Option<String>,
}

/// Keeps progress records on the object.
pub trait ProgressStore: Send + Sync {
    /// The record of handler `id`, if the object carries one.
    fn fetch(&self, id: &str, body: &Body) -> Option<Record>;
    /// Put the record of handler `id` into `patch`.
    fn store(&self, id: &str, record: &Record, body: &Body, patch: &mut Patch);
    /// Take the record of handler `id` off the object, or out of `patch`.
    fn purge(&self, id: &str, body: &Body, patch: &mut Patch);
}
