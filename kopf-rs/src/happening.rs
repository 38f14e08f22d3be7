//! Happenings: values that describe events of an object or of the operator.
//!
//! The pure code and the engine emit them. `wording` turns them into log lines; metrics, traces, Kubernetes Events
//! and status pages subscribe to the same values. This module must depend on neither its subscribers nor the wording.

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

/// An event of an object or of the operator. Cheap to create, since large parts are shared.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    // === attempts ===
    /// An attempt of a handler starts.
    Invoked {
        handler: Arc<Handler>,
    },
    /// The operator stops and has cancelled an attempt, whose outcome is unknown.
    Cancelled {
        handler: Arc<Handler>,
    },
    /// An async call has blocked its thread for this long.
    BlocksThread {
        handler: Arc<Handler>,
        elapsed: Duration,
    },
    /// User functions have blocked the operator's own thread for this long; these are candidates.
    BlocksOperator {
        code: Arc<[UserCode]>,
        elapsed: Duration,
    },
    /// A call has been running for a long time.
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
    /// A call was cancelled, and dropping its future panicked.
    PanickedWhenCutOff {
        handler: Arc<Handler>,
        panic: String,
    },

    // === abrupt ends ===
    AbruptEnd(AbruptEnd),

    // === objects ===
    /// The handling of an object's changes.
    Handling(Handling),
    /// The watch of the object is closed. The operator has dropped its memory of the object, which may still exist.
    Unwatched,

    // === requests ===
    /// A request about an object has failed and will be retried after a pause. Carries the number of requests that
    /// wait for the same reason if it is the first one, or if the number has grown considerably.
    RequestFailed {
        request: Request,
        error: String,
        pause: Duration,
        waiting: Option<usize>,
    },
    /// Objects of this kind may not be read, so the operator handles them by their watch events alone.
    Unreadable {
        error: String,
    },
    /// A permission is missing; this RBAC rule would grant it.
    PermissionMissing {
        rule: String,
    },
    /// An outage is over. This many requests waited for the same reason, the first for this long, and none waits any
    /// more: the requests succeed again, or are no longer needed.
    OutageOver {
        reason: Arc<str>,
        waiting: usize,
        still: usize,
        lasted: Duration,
        recovered: bool,
    },
    Patching(Patching),
    /// An event of a child of an object.
    Child(ChildHappening),
    /// The operator has stopped before it could write the outcomes of this many objects, because of this error.
    OutcomesLost {
        objects: usize,
        error: String,
    },
    /// The operator ends while it still handles this many objects.
    StreamsLeft {
        objects: usize,
    },
    /// A worker has panicked, which is a defect of this framework. The object is left alone until its next change.
    WorkerPanicked,
    /// The operator has detected another operator with the same name.
    DuplicateOperator(Arc<DuplicateOperator>),

    /// An event of posting Kubernetes Events.
    Posting(Posting),

    /// An event of the health endpoints.
    Health(Health),

    /// An event of installing validation rules.
    Rules(RuleServing),
    /// An event of the endpoint for admission webhooks.
    Admission(AdmissionServing),
    /// An event of converting objects between versions.
    Converting(Converting),
    /// An event of a storage migration.
    Migrating(Migrating),

    /// An event of login handlers.
    Login(Login),

    /// An event of admission reviews.
    Reviewing(Reviewing),

    // === discovery and watches ===
    Serving(Serving),
    /// An event of the Lease that the operator's instances share.
    Leasing(Leasing),
    /// An event of peering with other operators of the same objects.
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
    /// All other work for the object.
    Object,
    /// The deletion of the object.
    Deletion,
    /// The next call of the same timer.
    Tick,
    /// The start or the shutdown of the operator.
    Operator,
}

/// Why a call should have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndOfCall {
    /// The total timeout of its attempts has expired.
    Timeout(Duration),
    /// The operator stops.
    Stop,
    /// A daemon or timer is cancelled.
    CutOff,
}
