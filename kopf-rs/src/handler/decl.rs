//! What attributes leave behind: a constant per annotated item.

use std::time::Duration;

use crate::handler::callee::Function;
use crate::handler::family::Declaration;
use crate::handler::location::SourceLocation;
use crate::handler::options::CommonOptions;
use crate::handler::seconds::Seconds;
use crate::handler::validation_rule::RuleDecl;

/// One annotated item.
#[derive(Clone, Copy)]
pub enum Declared {
    /// A function: what its attributes declare, the lowest attribute first, as Kopf registers them.
    Function(&'static [Decl]),
    /// A constant: a validation rule.
    Rule(RuleDecl),
}

/// What an attribute registers. Constant: everything dynamic hides behind a function pointer.
#[derive(Clone, Copy)]
pub struct Decl {
    /// The function's name: the base of the handler id.
    pub name: &'static str,
    /// Where the function is; two attributes on one function share it.
    pub location: SourceLocation,
    /// Which attribute, with the options of its family. `None` is a sub-handler: its parent registers it, and here stands what it requires.
    pub declaration: Option<Declaration>,
    /// The options that all attributes have.
    pub common: fn() -> CommonOptions,
    /// How to call the function.
    pub call: Function,
}

// === for generated code ===

/// A span of time, however it is written.
pub fn duration(time: impl Into<Seconds>) -> Duration {
    time.into().duration()
}
