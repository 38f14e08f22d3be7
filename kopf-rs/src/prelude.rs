//! The names that a file of handlers needs: `use kopf_rs::prelude::*;`.
//!
//! Re-exports only. Your own names, and names that you import explicitly, shadow those from here.

pub use serde::{Deserialize, Serialize};
pub use serde_json::{Map, Value, json};

pub use crate::{
    ABSENT, Again, Attempt, Body, Callback, Cause, Children, Client, Condition, ConditionStatus,
    ConnectionInfo, Context, Diff, DiffItem, DiffOp, ErrorsMode, EventKind, EventType, Events, FieldPath,
    FromCause, HandlerError, HandlerResult, Index, IndexEntries, Labels, Lifecycle, Live, Logger, Memo,
    Owner, PRESENT, Patch, PermanentError, Persistence, Reason, StartupSettings, State, Status, StopReason,
    Stopped, Subhandlers, TemporaryError, handler, handler_blocking, handler_with,
};
pub use crate::{AdmissionError, AdmissionErrors, Operation, UserInfo, Warnings};
pub use crate::{
    adjust_namespace, adopt, append_owner_reference, harmonize_naming, label, remove_owner_reference,
};
pub use crate::{
    daemon, finalize, index, on_cleanup, on_convert, on_create, on_delete, on_event, on_field, on_login,
    on_mutate, on_probe, on_resume, on_startup, on_update, on_validate, reconcile, subhandler, timer,
    validation_rule,
};
pub use crate::{debug, error, fail, info, retry, warn};
