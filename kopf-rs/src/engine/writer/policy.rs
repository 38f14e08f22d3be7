//! Decides the next step after each answer of the server to a write: the one policy for every retry of a PATCH.
//!
//! A write is one PATCH, or two where the status goes to a subresource of its own: first the status, then the rest. Where the subresource is
//! not known of, the server drops a status that comes with the rest: then the status goes there once more.
//!
//! | answer to a PATCH | what comes next |
//! |---|---|
//! | landed | the next part, or the end. Where other finalizers are there after the status than the rest expects: plan anew |
//! | landed, but without the status that came with the rest, and nobody has asked for a subresource | the status once more, to the subresource |
//! | not found or forbidden, for a status that is sent once more | there is no subresource: the end |
//! | not found | the object is gone, or its version is not served any more. For the status: read the object |
//! | another object has the name | the object is gone |
//! | conflict | read the object |
//! | refused | the end: the caller drops what was refused |
//! | forbidden | the same again after a pause; an operator that is to end gives up at the fifth time |
//! | not sent, since another instance may be at work | give up: that one does it again |
//! | busy, or no answer | the same again after a pause, which is not shorter than the server asks for |
//!
//! | the object, read after a conflict or a missing status | what comes next |
//! |---|---|
//! | not found, or another one | the object is gone |
//! | with other finalizers than expected | plan anew |
//! | there, and the status was not found | all in one request |
//! | as an unanswered request of this write has made it | that part has landed |
//! | in the version known, or in a newer one for the fourth time | plan anew |
//! | in a newer version | the same changes bound to that version; changes by functions are made anew |
//! | must not be read | plan anew, with what the watch tells |
//!
//! Pauses grow from `Settings::networking.first_backoff` to its `longest_backoff`, beside what `Retry-After` asks for; the first [`QUIET`] failures are told at DEBUG only,
//! unless they mean a long wait. `Retry-After` is limited in `ClusterError::retry_after`. What is planned anew waits for a pause of its
//! own, so that at most eleven requests follow each other without one. An operator that stops repeats only what fails for less than
//! that: the first [`QUIET`] failures. What is written while handlers of the object run is not repeated here: its next try is made of what is
//! wanted by then.
//!
//! Pure: no clock, no requests.

use std::time::Duration;

use crate::cluster::error::ClusterError;
use crate::cluster::write::Part;

/// So many failures in a row are not worth a line that people see.
const QUIET: u32 = 3;
/// A longer wait is logged.
const LONG: Duration = Duration::from_secs(5);
/// A write bound to a version follows so many newer versions.
const REBINDS: u32 = 3;
/// So often an operator that is to end tries what is forbidden.
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
    /// There is nothing at the path of its status.
    NoStatus,
    /// To plan with it.
    ToPlan,
}

/// The server's answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Landed {
        /// The next part expects other finalizers.
        is_outdated: bool,
    },
    /// The status came with the rest, and the reply lacks it: there may be a subresource.
    LandedWithoutStatus,
    Found(Sight),
    NotFound,
    OtherObject,
    Conflict,
    Refused,
    Forbidden,
    /// Not sent: this instance is not the one at work any more.
    Fenced,
    /// Not now, or no answer at all.
    Failed {
        retry_after: Duration,
    },
}

/// The object that was read, beside the one that the write was made for: the first of these that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Another one has the name.
    OtherObject,
    OtherFinalizers,
    /// In the version known.
    Unchanged,
    /// As the current part would make it, and a request for that has had no answer.
    Done,
    Newer,
}

/// The requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tries {
    /// Requests in a row that failed.
    pub(super) failures: u32,
    /// Requests that were forbidden.
    pub(super) denials: u32,
    /// Newer versions that the changes were bound to.
    pub(super) rebinds: u32,
    /// The status has come with the rest, was dropped, and is sent once more to a subresource that may be there.
    pub(super) is_status_again: bool,
    /// The operator is to end: what is forbidden is not tried for ever.
    pub(super) once: bool,
    pub(super) patience: Patience,
}

/// For how long a request that fails is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until it is answered for good.
    #[default]
    Endless,
    /// The operator stops: a few times, and nothing is waited for.
    Last,
    /// Not at all: who asks for it has other things to do meanwhile, and asks again.
    None,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This part is done.
    Done,
    /// The same request again, after a pause that is not shorter.
    Again {
        at_least: Duration,
        /// Told at WARNING, once per outage.
        is_told: bool,
    },
    Read(Why),
    /// The same changes, bound to the version that was read.
    Rebind,
    /// All in one request, the status included.
    AllInOne,
    /// All but the status is done: that goes to the subresource that may be there.
    StatusApart,
    /// There is none: what the server has kept is all.
    NoSubresource,
    PlanAnew,
    Gone,
    Refused,
    /// It is forbidden, and the operator is to end.
    Forbidden,
    /// The operator stops.
    GiveUp,
}

impl Answer {
    pub(super) fn of(error: &ClusterError) -> Self {
        match error {
            ClusterError::Conflict(_) | ClusterError::FieldConflicts(_) => Self::Conflict,
            ClusterError::OtherObject(_) => Self::OtherObject,
            ClusterError::NotFound(_) => Self::NotFound,
            ClusterError::Invalid(_) => Self::Refused,
            ClusterError::Denied { .. } => Self::Forbidden,
            ClusterError::Fenced => Self::Fenced,
            ClusterError::Gone(_)
            | ClusterError::Unauthorized(_)
            | ClusterError::Busy { .. }
            | ClusterError::Unreachable(_) => Self::Failed {
                retry_after: error.retry_after().unwrap_or_default(),
            },
        }
    }

    /// Whether it says something of the object or of what was asked, so that the server answers and permits to ask.
    pub(super) fn is_about_the_object(self) -> bool {
        match self {
            Self::Landed { .. }
            | Self::LandedWithoutStatus
            | Self::Found(_)
            | Self::NotFound
            | Self::OtherObject
            | Self::Conflict
            | Self::Refused => true,
            Self::Forbidden | Self::Fenced | Self::Failed { .. } => false,
        }
    }
}

/// The next step after `answer` to `request`; `tries` are the requests before it.
pub(super) fn after(answer: Answer, request: Request, tries: &Tries) -> Next {
    match (answer, request) {
        (Answer::Landed { is_outdated: true }, _) | (Answer::Forbidden, Request::Read(_)) => {
            Next::PlanAnew
        }
        (Answer::Landed { .. }, _) => Next::Done,
        (Answer::LandedWithoutStatus, _) => Next::StatusApart,
        (Answer::NotFound | Answer::Forbidden, Request::Patch(Part::Status))
            if tries.is_status_again =>
        {
            Next::NoSubresource
        }
        (Answer::NotFound, Request::Patch(Part::Status)) => Next::Read(Why::NoStatus),
        (Answer::NotFound | Answer::OtherObject, _) => Next::Gone,
        (Answer::Conflict, Request::Patch(_)) => Next::Read(Why::Conflict),
        (Answer::Refused, Request::Patch(_)) => Next::Refused,
        (Answer::Fenced, _) => Next::GiveUp,
        (Answer::Found(sight), Request::Read(why)) => after_read(sight, why, tries),
        (Answer::Forbidden, _) if tries.once && tries.denials + 1 >= ENOUGH => Next::Forbidden,
        (Answer::Failed { retry_after }, _) => again(retry_after, tries),
        // Waiting for a permission, or for a server that makes no sense, takes its time.
        (_, _) => again(Duration::ZERO, tries),
    }
}

fn after_read(sight: Sight, why: Why, tries: &Tries) -> Next {
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

/// Whether people are told of another failure after so many in a row, where the server asks to wait for so long.
pub(super) fn is_told(failures: u32, at_least: Duration) -> bool {
    failures >= QUIET || at_least >= LONG
}

#[cfg(test)]
mod tests;
