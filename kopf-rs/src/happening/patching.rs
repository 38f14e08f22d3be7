//! Happenings while an object is written.
//!
//! Must not know any wording.

use std::sync::Arc;

use crate::object::inconsistency::Inconsistency;
use crate::object::patch::Patch;
use crate::object::resource::Resource;

/// Something that has happened to a write.
#[derive(Clone, Debug)]
pub(crate) enum Patching {
    /// This part of the patch is about to be sent.
    Begins {
        patch: Arc<Patch>,
        part: PatchPart,
    },
    /// Others have changed the object: what is to be written is planned anew.
    Outdated {
        patch: Arc<Patch>,
    },
    /// The object is not there, or not in this version any more.
    Skipped,
    /// The server refuses the content, which is cut short here.
    Refused {
        message: String,
        patch: String,
    },
    /// The operator stops before the write was done.
    /// Another instance may be at work: what was to be written is dropped.
    NotSent,
    GivenUp {
        error: String,
    },
    /// A handler wants to change fields that are not its own.
    Foreign {
        fields: Vec<String>,
        owner: Owner,
    },
    /// A function that this handler has put into its patch.
    FunctionPanicked {
        handler: Option<Arc<str>>,
        panic: String,
    },
    /// The server has not kept these fields, as a schema without them makes it. Each is told once per resource.
    Pruned {
        resource: Box<Resource>,
        fields: Vec<Inconsistency>,
    },
    /// The definition has lost its status subresource. Told once per resource.
    StatusSubresourceLost {
        resource: Box<Resource>,
    },
    /// The handlers of one kind have changed an object so often in a row that there are pauses from now on.
    SelfTriggered {
        resource: Box<Resource>,
        times: u8,
    },
}

/// The part of a patch that goes into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchPart {
    All,
    Status,
    /// All but the status.
    Rest,
}

/// The only owner of a field, who alone may change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Server,
    Operator,
}
