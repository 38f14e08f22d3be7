//! Re-exports for generated code. Not public API.

pub use std::boxed::Box;
pub use std::option::Option;
pub use std::string::{String, ToString};
pub use std::time::Duration;

pub use tracing::{self, Level};

pub use crate::cluster::typed::{DefinedBy, Undefined};
pub use crate::handler::callee::{Calling, Function, Returned, handler_future_must_be_send};
pub use crate::handler::cause::Cause;
pub use crate::handler::cause::facts::reconcile_returned;
pub use crate::handler::conversion::{
    ConversionInput, ConvertedPart, ConvertedResult, ConvertedValue, conversion_function,
};
pub use crate::handler::current::{post_line, posts_lines};
pub use crate::handler::definition::ErrorsMode;
pub use crate::handler::extract::extractors::{ByType, GivenToAll, family};
pub use crate::handler::extract::index::IndexArgument;
pub use crate::handler::extract::json::{field, field_if_any};
pub use crate::handler::extract::{FromCause, GivenAs, LentAs, arg};
pub use crate::handler::filter::{Criterion, criterion, matches};
pub use crate::handler::index::erased::IndexType;
pub use crate::handler::indexer::index_returned;
pub use crate::handler::location::SourceLocation;
pub use crate::handler::nested::{NeedsParam, NeedsText};
pub use crate::handler::operation::Operation;
pub use crate::handler::options::{Callback, function};
pub use crate::handler::registry::Registry;
pub use crate::handler::registry::collect::{Declared, Item};
pub use crate::handler::returned::{AnyKind, LocalBoxKind};
pub use crate::handler::status::StatusArgument;
pub use crate::handler::timing::of_cause;
pub use crate::handler::validation_rule::ValidationRule;
pub use crate::object::patch::Patch;
pub use crate::object::path::FieldPath;
pub use crate::object::selector::named::{NamesResource, either};
pub use crate::object::selector::{Selector, SelectorError, SelectorName};

#[cfg(feature = "cli")]
pub use crate::cli::own_flags::NoFlags;
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
