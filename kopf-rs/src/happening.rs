//! Happenings of an object or of the operator, as values.
//!
//! The pure code and the engine make them; `wording` makes log lines of them, and metrics, traces, Kubernetes Events and status
//! pages subscribe to the same values. Must not know its subscribers, nor any wording.

pub(crate) mod abrupt_end;
pub(crate) mod admission;
pub(crate) mod background;
pub(crate) mod children;
pub(crate) mod converting;
pub(crate) mod duplicates;
pub(crate) mod handling;
pub(crate) mod health;
pub(crate) mod leasing;
pub(crate) mod login;
pub(crate) mod meter;
pub(crate) mod migrating;
pub(crate) mod patching;
pub(crate) mod peering;
pub(crate) mod posting;
pub(crate) mod reviewing;
pub(crate) mod rules;
pub(crate) mod serving;
pub(crate) mod spans;
pub(crate) mod user_code;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::handler::definition::Handler;
use crate::happening::abrupt_end::AbruptEnd;
use crate::happening::admission::AdmissionServing;
use crate::happening::children::ChildHappening;
use crate::happening::converting::Converting;
use crate::happening::duplicates::DuplicateOperator;
use crate::happening::handling::Handling;
use crate::happening::health::Health;
use crate::happening::leasing::Leasing;
use crate::happening::login::Login;
use crate::happening::migrating::Migrating;
use crate::happening::patching::Patching;
use crate::happening::peering::Peering;
use crate::happening::posting::Posting;
use crate::happening::reviewing::Reviewing;
use crate::happening::rules::RuleServing;
use crate::happening::serving::Serving;
use crate::happening::user_code::UserCode;

/// Something that has happened. Cheap to make: what is large is shared.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    // === attempts ===
    /// An attempt of a handler begins.
    Invoked {
        handler: Arc<Handler>,
    },
    /// The operator stops: an attempt was cut off, and its outcome is unknown.
    Cancelled {
        handler: Arc<Handler>,
    },
    /// An async call has not given its thread back for so long.
    BlocksThread {
        handler: Arc<Handler>,
        elapsed: Duration,
    },
    /// Functions of users have not given the operator's own thread back for so long: some of these.
    BlocksOperator {
        code: Arc<[UserCode]>,
        elapsed: Duration,
    },
    /// A call has not returned for long.
    StillRunning {
        handler: Arc<Handler>,
        since: Timestamp,
        elapsed: Duration,
        waits: WaitsForCall,
    },

    /// A call should have ended, and cannot be interrupted.
    RunsOn {
        handler: Arc<Handler>,
        end: EndOfCall,
    },
    /// A call was cut off, and what it held has panicked when it was dropped.
    PanickedWhenCutOff {
        handler: Arc<Handler>,
        panic: String,
    },

    // === abrupt ends ===
    AbruptEnd(AbruptEnd),

    // === objects ===
    /// While its changes are handled.
    Handling(Handling),
    /// Its watch is closed: nothing is remembered of the object, which may well be there.
    Unwatched,

    // === requests ===
    /// A request about an object has failed, and will be repeated after a pause. How many wait for that reason, where that is news: it
    /// is the first, or they have become many more.
    RequestFailed {
        request: Request,
        error: String,
        pause: Duration,
        waiting: Option<usize>,
    },
    /// Objects of this kind must not be read: they are handled as their watch tells of them.
    Unreadable {
        error: String,
    },
    /// A permission is missing: the rule that would give it.
    PermissionMissing {
        rule: String,
    },
    /// So many requests had to wait for that reason, the first of them for so long, and none does any more: because they succeed
    /// again, or because nothing is left to ask for.
    OutageOver {
        reason: Arc<str>,
        waiting: usize,
        still: usize,
        lasted: Duration,
        recovered: bool,
    },
    Patching(Patching),
    /// Something about a child of an object.
    Child(ChildHappening),
    /// The operator has stopped before the outcomes of so many objects could be written, for this reason.
    OutcomesLost {
        objects: usize,
        error: String,
    },
    /// The operator ends while so many objects are still worked on.
    StreamsLeft {
        objects: usize,
    },
    /// A defect of this framework: an object is left until its next change.
    WorkerPanicked,
    /// Another operator of this name was noticed.
    DuplicateOperator(Arc<DuplicateOperator>),

    /// Something about Kubernetes Events.
    Posting(Posting),

    /// Something about the endpoints that say how the operator is.
    Health(Health),

    /// Something about what enforces validation rules.
    Rules(RuleServing),
    /// Something about the endpoint for admission webhooks.
    Admission(AdmissionServing),
    /// Something about the conversion of objects between versions.
    Converting(Converting),
    /// Something about a storage migration.
    Migrating(Migrating),

    /// Something about logins by handlers.
    Login(Login),

    /// Something about reviews of requests.
    Reviewing(Reviewing),

    // === discovery and watches ===
    Serving(Serving),
    /// Among several operators for the same objects.
    /// About the Lease that the operator's instances share.
    Leasing(Leasing),
    Peering(Peering),
}

/// A request about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Read,
    Patch,
}

/// The work that waits for a call to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsForCall {
    /// Everything else that is to be done for the object.
    Object,
    /// The deletion of the object.
    Deletion,
    /// The next call of the same timer.
    Tick,
    /// The start or the end of the operator.
    Operator,
}

/// Why a call should have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndOfCall {
    /// The time of all its attempts is over.
    Timeout(Duration),
    /// The operator stops.
    Stop,
    /// A daemon or timer is cut off.
    CutOff,
}
