//! The names that a file of handlers needs: `use kopf_rs::prelude::*;`.
//!
//! Re-exports only. Your own names, and names that you import explicitly, shadow those from here.

pub use serde::{Deserialize, Serialize};
pub use serde_json::{Map, Value, json};

pub use crate::{
    ABSENT, Again, Attempt, Body, Callback, Cause, Children, Client, Clock, Condition, ConditionStatus,
    ConnectionInfo, Context, Diff, DiffItem, DiffOp, ErrorsMode, EventKind, EventType, Events, FieldPath,
    FromCause, HandlerError, HandlerResult, Index, IndexEntries, Labels, Lifecycle, Lister, Live, Logger,
    Memo, Owner, PRESENT, Patch, PermanentError, Persistence, Reason, StartupSettings, State, Status,
    StopReason, Stopped, Subhandlers, TemporaryError, Trigger, handler, handler_blocking, handler_with,
};
pub use crate::{AdmissionError, AdmissionErrors, Operation, UserInfo, Warnings};
pub use crate::{
    adjust_namespace, adopt, append_owner_reference, harmonize_naming, label, remove_owner_reference,
};
pub use crate::{debug, error, fail, info, retry, warn};
// The attributes.
pub use kopf_rs_macros::*;
