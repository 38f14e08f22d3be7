//! What figures are made of where no happening tells it: how long calls, requests and waiting have taken.
//!
//! Must not know the figures, nor for whom they are.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::happening::Happening;
use crate::object::resource::Resource;

/// Keeps figures. It is told of everything at once, so it must not block.
pub(crate) trait Meter: fmt::Debug + Send + Sync {
    /// Something has happened to an object or to the operator.
    fn happened(&self, happening: &Happening);
    /// A call of the handler of that id begins. The number stands for the call when it ends.
    fn call_begins(&self, handler: &str) -> u64;
    /// A call ends that was made for that reason; without an end, its sub-handlers are left to be done, and it was no attempt of its own.
    fn call_ends(&self, number: u64, reason: &'static str, end: Option<CallEnd>);
    /// A state of an object is taken up after it has waited for so long.
    fn state_taken(&self, waited: Duration);
    /// All handlers of a change of an object are done, so long after the operator has first seen the change.
    fn change_handled(&self, resource: &Resource, took: Duration);
    /// A review of a request is answered.
    fn review_ends(&self, handler: &str, allowed: bool, code: u16, took: Duration);
    /// A request is about to be sent.
    fn request_begins(&self);
    /// The server has begun to answer it with that code, or does not answer. It was for a resource, or one of its subresources, or for a path
    /// outside of all resources, such as discovery.
    fn request_ends(
        &self,
        verb: &'static str,
        asked: (Option<&Resource>, Option<&str>),
        code: Option<u16>,
        took: Duration,
    );
    /// The server wants to be left alone for so long.
    fn throttled(&self, pause: Duration);
    /// An Event was posted.
    fn event_posted(&self);
    /// Instances share the Lease of that name (`namespace/name`).
    fn leased(&self, lease: &str);
    /// The Lease was taken or renewed, so long after it was asked for.
    fn lease_renewed(&self, lease: &str, took: Duration);
    /// A request was not sent, since the term of this instance may be over: it was not made (`start`), or not handed to its connection (`send`).
    fn fenced(&self, point: &'static str);
}

/// A meter that parts of the operator share; nobody wants figures where there is none.
pub(crate) type SharedMeter = Option<Arc<dyn Meter>>;

/// How a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEnd {
    Success,
    Temporary,
    Permanent,
    Error,
    Timeout,
    Cancelled,
}
