//! The expansion of attributes: one constant per annotated item.

use std::time::Duration;

use kopf_rs_schedule::HandlerKind;

use crate::handler::callee::Function;
use crate::handler::conversion::ConversionDecl;
use crate::handler::location::SourceLocation;
use crate::handler::options::Options;
use crate::handler::seconds::Seconds;
use crate::handler::validation_rule::RuleDecl;
use crate::object::selector::{Selector, SelectorError};

/// The declaration of one annotated item.
#[derive(Clone, Copy)]
pub enum Declared {
    /// A function, with one entry per attribute. The lowest attribute comes first, since Kopf registers in that
    /// order.
    Function(&'static [Decl]),
    /// A function that converts objects between two versions.
    Conversion(ConversionDecl),
    /// A constant with a validation rule.
    Rule(RuleDecl),
}

/// The registration of one attribute. It is a constant, so all dynamic parts are function pointers.
#[derive(Clone, Copy)]
pub struct Decl {
    /// The function's name, from which the handler id is made.
    pub name: &'static str,
    /// Where the function is; all attributes of one function share the location.
    pub location: SourceLocation,
    /// The attribute. Parents register their sub-handlers, so the entry of one only carries its requirements.
    pub kind: HandlerKind,
    /// Builds the selector of the resources that the function handles; `None` for functions without an object.
    pub selector: Option<fn() -> Result<Selector, SelectorError>>,
    /// Builds the options.
    pub options: fn() -> Options,
    /// How to call the function.
    pub call: Function,
}

// === for generated code ===

/// Converts a span of time, in any accepted notation.
pub fn duration(time: impl Into<Seconds>) -> Duration {
    time.into().duration()
}
