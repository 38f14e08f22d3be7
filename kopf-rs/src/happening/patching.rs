//! Happenings of writes to an object.
//!
//! This module contains no wording.

use std::sync::Arc;

use crate::object::inconsistency::Inconsistency;
use crate::object::patch::Patch;
use crate::object::resource::Resource;

/// A happening of a write.
#[derive(Clone, Debug)]
pub(crate) enum Patching {
    /// This part of the patch is about to be sent.
    Begins {
        patch: Arc<Patch>,
        part: PatchPart,
    },
    /// Another writer has changed the object; the write is planned again.
    Outdated {
        patch: Arc<Patch>,
    },
    /// The object no longer exists, or the server no longer serves its API version.
    Skipped,
    /// The server rejects the content, which is truncated here.
    Refused {
        message: String,
        patch: String,
    },
    /// Another instance may be the leader, so the operator drops the write.
    NotSent,
    // The operator stops before it could complete the write.
    GivenUp {
        error: String,
    },
    /// A handler has tried to change fields that it must not change.
    Foreign {
        fields: Vec<String>,
        owner: Owner,
    },
    /// A function in the patch has panicked. Carries the handler that added it.
    FunctionPanicked {
        handler: Option<Arc<str>>,
        panic: String,
    },
    /// The server has pruned these fields, because the schema lacks them. Reported once per field and resource.
    Pruned {
        resource: Box<Resource>,
        fields: Vec<Inconsistency>,
    },
    /// The CRD no longer has the status subresource. Reported once per resource.
    StatusSubresourceLost {
        resource: Box<Resource>,
    },
    /// The handlers of one kind have changed an object so often in a row that the operator backs off from now on.
    SelfTriggered {
        resource: Box<Resource>,
        times: u8,
    },
}

/// The part of a patch that one request sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchPart {
    All,
    Status,
    /// All parts except the status.
    Rest,
}

/// The sole owner of a field, which no other writer may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Server,
    Operator,
}
