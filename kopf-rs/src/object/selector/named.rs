//! A name in an attribute that may be a constant or a type: `#[on_create(EXAMPLES)]`.
//!
//! Rust has one namespace for values and one for types. Generated code looks in both, and so need not guess.

use crate::object::selector::{Selector, SelectorError};

/// What a name in capitals is where it is no type, and where it is no constant. Generated code imports all of it, and then the name as
/// `__KopfResource`, which hides one of the two.
pub mod either {
    use super::Unnamed;

    /// The name is that of a constant.
    #[derive(Debug)]
    pub enum __KopfResource {}

    /// The name is that of a type.
    #[expect(non_upper_case_globals, reason = "the same name as that of the type")]
    pub const __KopfResource: Unnamed = Unnamed;
}

/// The value of a name that is no constant.
#[derive(Debug)]
pub struct Unnamed;

/// The value and the type of one name: either of them names a resource.
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no resource",
    label = "expected text, such as `\"myapps\"`, a tuple or array of texts, such as `(\"example.com\", \"v1\", \"myapps\")`, a `Selector`, or a type"
)]
pub trait NamesResource<T> {
    /// The selector of the resource.
    ///
    /// # Errors
    /// Where the text names no resource.
    fn selector(self) -> Result<Selector, SelectorError>;
}
