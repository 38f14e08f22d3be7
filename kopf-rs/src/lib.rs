//! Kubernetes operators from annotated async functions: Kopf for Rust.
//!
//! The one public list of the framework. What is not re-exported here is internal.

#[doc(hidden)]
pub mod __private;
pub(crate) mod cluster;
pub(crate) mod engine;
pub(crate) mod handler;
pub(crate) mod object;
pub(crate) mod operator;
pub(crate) mod reaction;
pub(crate) mod rt;
pub(crate) mod state;

pub use crate::cluster::Client;
pub use crate::engine::Failure;
pub use crate::handler::cause::{Cause, EventType, Reason};
pub use crate::handler::error::{HandlerError, HandlerResult, PermanentError, TemporaryError};
pub use crate::handler::extensions::Extensions;
pub use crate::handler::logger::Logger;
pub use crate::handler::memo::Memo;
pub use crate::handler::registry::Registry;
pub use crate::object::body::Body;
pub use crate::object::diff::{Diff, DiffItem, DiffOp};
pub use crate::object::patch::Patch;
pub use crate::object::path::FieldPath;
pub use crate::object::reference::Reference;
pub use crate::object::resource::Resource;
pub use crate::object::selector::Selector;
pub use crate::operator::run::{Operator, OperatorError, Report};
pub use crate::operator::scope::BadPattern;
pub use crate::operator::settings::{
    Execution, LiveSettings, Networking, Queueing, Scanning, Settings, Watching,
};
pub use crate::reaction::plan::Lifecycle;
pub use crate::state::Persistence;
