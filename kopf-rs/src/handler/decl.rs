//! The expansion of attributes: one constant per annotated item.

use std::time::Duration;

use crate::handler::callee::Function;
use crate::handler::family::Declaration;
use crate::handler::location::SourceLocation;
use crate::handler::options::CommonOptions;
use crate::handler::seconds::Seconds;
use crate::handler::validation_rule::RuleDecl;

/// The declaration of one annotated item.
#[derive(Clone, Copy)]
pub enum Declared {
    /// A function, with one entry per attribute. The lowest attribute comes first, since Kopf registers in that
    /// order.
    Function(&'static [Decl]),
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
    /// The attribute, with the options of its family. `None` for a sub-handler, which its parent registers; the entry
    /// then only carries its requirements.
    pub declaration: Option<Declaration>,
    /// The options that all attributes have.
    pub common: fn() -> CommonOptions,
    /// How to call the function.
    pub call: Function,
}

// === for generated code ===

/// Converts a span of time, in any accepted notation.
pub fn duration(time: impl Into<Seconds>) -> Duration {
    time.into().duration()
}
