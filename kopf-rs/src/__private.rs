//! Re-exports for generated code. Not public API.

pub use std::boxed::Box;
pub use std::option::Option;
pub use std::result::Result;
pub use std::string::{String, ToString};
pub use std::sync::Arc;
pub use std::time::Duration;
pub use std::vec::Vec;

pub use tracing::{self, Level};

pub use crate::handler::callee::{Calling, Function, Returned, handler_future_must_be_send};
pub use crate::handler::cause::Cause;
pub use crate::handler::conversion::{
    ConversionDecl, ConversionInput, ConvertedPart, ConvertedResult, ConvertedValue,
};
pub use crate::handler::current::{post_line, posts_lines};
pub use crate::handler::decl::{Decl, Declared, duration};
pub use crate::handler::extract::extractors::{ByType, GivenToAll};
pub use crate::handler::extract::index::IndexArgument;
pub use crate::handler::extract::json::{field, field_if_any};
pub use crate::handler::extract::{FromCause, GivenAs, LentAs, arg};
pub use crate::handler::family::Declaration;
pub use crate::handler::family::activity::ActivityOptions;
pub use crate::handler::family::admission::AdmissionOptions;
pub use crate::handler::family::background::BackgroundOptions;
pub use crate::handler::family::change::ChangeKind;
pub use crate::handler::family::event::EventOptions;
pub use crate::handler::family::index::{IndexOptions, index_returned};
pub use crate::handler::family::reconcile::{ReconcileOptions, reconcile_returned};
pub use crate::handler::filter::{Criterion, Filters, criterion, matches, when};
pub use crate::handler::index::erased::IndexType;
pub use crate::handler::location::SourceLocation;
pub use crate::handler::nested::{NeedsParam, NeedsText, subhandler};
pub use crate::handler::operation::Operation;
pub use crate::handler::options::{ChangeOptions, CommonOptions, ErrorsMode, RetryOptions};
pub use crate::handler::owned::kind;
pub use crate::handler::registry::callback::Callback;
pub use crate::handler::returned::{AnyKind, LocalBoxKind};
pub use crate::handler::status::StatusArgument;
pub use crate::handler::subject::Activity;
pub use crate::handler::target::target;
pub use crate::handler::timing::{BackgroundKind, Pause, pause};
pub use crate::handler::validation_rule::{RuleDecl, ValidationRule};
pub use crate::handler::webhook::AdmissionKind;
pub use crate::object::patch::Patch;
pub use crate::object::path::FieldPath;
pub use crate::object::selector::named::{NamesResource, either};
pub use crate::object::selector::{Selector, SelectorError, SelectorName};

#[cfg(feature = "cli")]
pub use crate::cli::run_program;

#[cfg(feature = "mimalloc")]
pub use mimalloc::MiMalloc;

#[cfg(all(feature = "inventory", not(feature = "linkme")))]
pub use inventory;
#[cfg(feature = "linkme")]
pub use linkme;

#[cfg(feature = "linkme")]
pub use crate::handler::registry::collect::{CONVERSIONS, DECLARED};

pub use crate::__kopf_submit as submit;
