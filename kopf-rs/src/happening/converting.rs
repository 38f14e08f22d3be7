//! Happenings of the conversion of objects between versions, and of their CRDs.
//!
//! This module contains no wording.

use std::time::Duration;

/// A happening of a conversion or a CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Converting {
    /// A part of the object does not fit into this version and is left empty. Its content is preserved in an
    /// annotation.
    Kept { version: String, problem: String },
    /// The object is shown in this version without a part that is too large to preserve.
    Omitted { version: String, omitted: String },
    /// The object cannot be shown in this version or stored, since data would be lost.
    Refused { version: String, problem: String },
    /// Objects of a kind were not converted within the timeout.
    OutOfTime { kind: String, within: Duration },
    /// A CRD now points the API server to the operator's conversion webhook.
    Configured { definition: String },
    /// A CRD cannot be written as required.
    DefinitionFailed {
        definition: String,
        error: String,
        pause: Duration,
    },
    /// A CRD cannot be read, so its schemas are unknown.
    DefinitionUnread {
        definition: String,
        error: String,
        pause: Duration,
    },
    /// A CRD has versions that this release cannot convert; it converts the others.
    Unreachable { definition: String, missing: String },
}
