//! Decides the next step after each answer of the server to a write: the only retry policy for a PATCH.
//!
//! A write is one PATCH, or two if the status has a subresource of its own: first the status, then the rest. If the subresource is unknown,
//! the server drops a status that comes with the rest: then the status is sent once more to the subresource.
//!
//! | answer to a PATCH | next step |
//! |---|---|
//! | landed | the next part, or the end. If the finalizers after the status differ from those the rest expects: plan again |
//! | landed, but without the status that came with the rest, and the subresource was not tried | the status once more, to the subresource |
//! | not found or forbidden, for a status that is sent once more | there is no subresource: the end |
//! | not found | the object is gone, or its version is no longer served. For the status: read the object |
//! | another object has the name | the object is gone |
//! | conflict | read the object |
//! | refused | the end: the caller drops the refused content |
//! | forbidden | the same again after a pause; an operator with `once` gives up at the fifth time |
//! | not sent, since another instance may lead | give up: the leader repeats the work |
//! | busy, or no answer | the same again after a pause, which is at least as long as the server asks for |
//!
//! | the object, read after a conflict or a missing status | next step |
//! |---|---|
//! | not found, or another one | the object is gone |
//! | with other finalizers than expected | plan again |
//! | found, while the status was not found | all in one request |
//! | as an unanswered request of this write has made it | that part has landed. If the rest expects other finalizers: plan again |
//! | in the known version, or in a newer one for the fourth time | plan again |
//! | in a newer version | the same changes bound to that version; changes by functions are computed again |
//! | not readable | plan again, with the state that the watch reports |
//!
//! Pauses grow from `Settings::networking.first_backoff` to its `longest_backoff`, unless `Retry-After` asks for more. The first [`QUIET`]
//! failures are logged at DEBUG only, unless they mean a long wait. `ClusterError::retry_after` limits `Retry-After`. A new plan waits for a
//! pause of its own, so at most eleven requests follow each other without one. An operator that stops repeats only the first [`QUIET`]
//! failures. A write while handlers of the object run is not repeated here: its next attempt is made from the changes wanted by then.
//!
//! Pure: no clock, no requests.

use std::time::Duration;

use crate::cluster::error::ClusterError;
use crate::cluster::write::Part;

/// The number of consecutive failures that are logged at DEBUG only.
const QUIET: u32 = 3;
/// A longer wait is logged.
const LONG: Duration = Duration::from_secs(5);
/// The number of newer versions that a write bound to a version follows.
const REBINDS: u32 = 3;
/// The number of forbidden attempts after which an operator with `once` gives up.
const ENOUGH: u32 = 5;

/// A request of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Patch(Part),
    Read(Why),
}

/// Why the object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Conflict,
    /// The path of its status was not found.
    NoStatus,
    /// To plan with the present state.
    ToPlan,
}

/// The object that was read, compared with the one that the write was made for: the first variant that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Another object has the name.
    OtherObject,
    OtherFinalizers,
    /// The known version.
    Unchanged,
    /// As the current part would make it, after a request for that part without an answer.
    Done,
    Newer,
}

/// The requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tries {
    /// The number of consecutive failed requests.
    pub(super) failures: u32,
    /// The number of forbidden requests.
    pub(super) denials: u32,
    /// The number of newer versions that the changes were bound to.
    pub(super) rebinds: u32,
    /// The status came with the rest, was dropped, and is sent once more to a subresource that may exist.
    pub(super) is_status_again: bool,
    /// The operator runs with `once`, so forbidden requests are not repeated for ever.
    pub(super) once: bool,
    pub(super) patience: Patience,
}

/// For how long a failed request is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until there is a final answer.
    #[default]
    Endless,
    /// A few times, without waiting, since the operator stops.
    Last,
    /// Not at all: the caller has other work meanwhile, and tries again.
    None,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This part is done.
    Done,
    /// The same request again, after a pause of at least this length.
    Again {
        at_least: Duration,
        /// Reported at WARNING, once per outage.
        is_told: bool,
    },
    Read(Why),
    /// The same changes, bound to the version that was read.
    Rebind,
    /// All in one request, the status included.
    AllInOne,
    /// All but the status is done; the status goes to the subresource that may exist.
    StatusApart,
    /// There is no subresource: the write is done with what the server has kept.
    NoSubresource,
    PlanAnew,
    Gone,
    Refused,
    /// The request is forbidden, and the operator runs with `once`.
    Forbidden,
    /// The operator stops.
    GiveUp,
}

/// Returns whether the error concerns the object or the request, which shows that the server works and that the request is permitted.
pub(super) fn is_about_the_object(error: &ClusterError) -> bool {
    match error {
        ClusterError::Conflict(_)
        | ClusterError::FieldConflicts(_)
        | ClusterError::OtherObject(_)
        | ClusterError::NotFound(_)
        | ClusterError::Invalid(_) => true,
        ClusterError::Denied { .. }
        | ClusterError::Fenced
        | ClusterError::Gone(_)
        | ClusterError::Unauthorized(_)
        | ClusterError::Busy { .. }
        | ClusterError::Unreachable(_) => false,
    }
}

/// Returns the next step after an error as the answer to `request`; `tries` are the requests before it.
pub(super) fn after_error(error: &ClusterError, request: Request, tries: &Tries) -> Next {
    match (error, request) {
        (ClusterError::NotFound(_) | ClusterError::Denied { .. }, Request::Patch(Part::Status))
            if tries.is_status_again =>
        {
            Next::NoSubresource
        }
        (ClusterError::NotFound(_), Request::Patch(Part::Status)) => Next::Read(Why::NoStatus),
        (ClusterError::NotFound(_) | ClusterError::OtherObject(_), _) => Next::Gone,
        (ClusterError::Conflict(_) | ClusterError::FieldConflicts(_), Request::Patch(_)) => {
            Next::Read(Why::Conflict)
        }
        (ClusterError::Invalid(_), Request::Patch(_)) => Next::Refused,
        (ClusterError::Denied { .. }, Request::Read(_)) => Next::PlanAnew,
        (ClusterError::Denied { .. }, _) if tries.once && tries.denials + 1 >= ENOUGH => Next::Forbidden,
        (ClusterError::Fenced, _) => Next::GiveUp,
        // A missing permission, or a malformed answer, may take time to be fixed.
        _ => again(error.retry_after().unwrap_or_default(), tries),
    }
}

/// Returns the next step after the object was read.
pub(super) fn after_read(sight: Sight, why: Why, tries: &Tries) -> Next {
    match (why, sight) {
        (_, Sight::OtherObject) => Next::Gone,
        (Why::NoStatus, Sight::OtherFinalizers) => Next::PlanAnew,
        (Why::NoStatus, _) => Next::AllInOne,
        (Why::Conflict, Sight::Done) => Next::Done,
        (Why::Conflict, Sight::Newer) if tries.rebinds < REBINDS => Next::Rebind,
        (Why::Conflict | Why::ToPlan, _) => Next::PlanAnew,
    }
}

fn again(at_least: Duration, tries: &Tries) -> Next {
    let is_told = is_told(tries.failures, at_least);
    match tries.patience {
        Patience::None => Next::GiveUp,
        Patience::Last if is_told => Next::GiveUp,
        Patience::Last | Patience::Endless => Next::Again { at_least, is_told },
    }
}

/// Returns whether a failure is logged, after so many consecutive ones and with this minimum wait.
pub(super) fn is_told(failures: u32, at_least: Duration) -> bool {
    failures >= QUIET || at_least >= LONG
}

#[cfg(test)]
mod tests;
