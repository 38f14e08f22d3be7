//! Resolves a name in an attribute that may be a constant or a type: `#[on_create(EXAMPLES)]`.
//!
//! Rust has separate namespaces for values and types. Generated code looks in both, so it need not guess.

use crate::object::selector::{Selector, SelectorError};

/// Fallbacks for an upper-case name that is not a type or not a constant. Generated code glob-imports this module, and then imports the name
/// as `__KopfResource`, which shadows one of the two.
pub mod either {
    use super::Unnamed;

    /// Used if the name is a constant.
    #[derive(Debug)]
    pub enum __KopfResource {}

    /// Used if the name is a type.
    #[expect(non_upper_case_globals, reason = "the same name as that of the type")]
    pub const __KopfResource: Unnamed = Unnamed;
}

/// The value of a name that is not a constant.
#[derive(Debug)]
pub struct Unnamed;

/// The value and the type of one name: one of them names a resource.
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no resource",
    label = "expected text, such as `\"myapps\"`, a tuple or array of texts, such as `(\"example.com\", \"v1\", \"myapps\")`, a `Selector`, or a type"
)]
pub trait NamesResource<T> {
    /// Returns the selector of the resource.
    ///
    /// # Errors
    /// If the text does not name a resource.
    fn selector(self) -> Result<Selector, SelectorError>;
}
