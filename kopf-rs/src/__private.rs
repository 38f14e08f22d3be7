//! Re-exports for generated code. Not public API.

pub use std::boxed::Box;
pub use std::option::Option;
pub use std::result::Result;
pub use std::string::{String, ToString};
pub use std::sync::Arc;
pub use std::time::Duration;
pub use std::vec::Vec;

pub use kopf_rs_schedule::HandlerKind;
pub use tracing::{self, Level};

pub use crate::handler::callee::{Calling, Function, Returned, handler_future_must_be_send};
pub use crate::handler::cause::Cause;
pub use crate::handler::cause_facts::reconcile_returned;
pub use crate::handler::conversion::{
    ConversionDecl, ConversionInput, ConvertedPart, ConvertedResult, ConvertedValue,
};
pub use crate::handler::current::{post_line, posts_lines};
pub use crate::handler::decl::{Decl, Declared, duration};
pub use crate::handler::extract::extractors::{ByType, GivenToAll, family};
pub use crate::handler::extract::index::IndexArgument;
pub use crate::handler::extract::json::{field, field_if_any};
pub use crate::handler::extract::{FromCause, GivenAs, LentAs, arg};
pub use crate::handler::filter::{Criterion, criterion, matches, when};
pub use crate::handler::index::erased::IndexType;
pub use crate::handler::indexer::index_returned;
pub use crate::handler::location::SourceLocation;
pub use crate::handler::nested::{NeedsParam, NeedsText, subhandler};
pub use crate::handler::operation::Operation;
pub use crate::handler::options::{Callback, ErrorsMode, Options};
pub use crate::handler::owned::kind;
pub use crate::handler::returned::{AnyKind, LocalBoxKind};
pub use crate::handler::status::StatusArgument;
pub use crate::handler::target::target;
pub use crate::handler::timing::{Pause, pause};
pub use crate::handler::validation_rule::{RuleDecl, ValidationRule};
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
pub use crate::handler::registry::collect::DECLARED;

pub use crate::__kopf_submit as submit;
