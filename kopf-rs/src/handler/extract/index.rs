//! Indices as arguments: selected by the name of the argument, and checked against its type.

use std::hash::Hash;

use crate::handler::cause::Cause;
use crate::handler::error::HandlerError;
use crate::handler::index::Index;
use crate::handler::index::erased::{IndexType, RequiredIndex};

/// Implemented only by `Index<K, V>`, to check the argument's type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no index that a handler can ask for",
    label = "expected `Index<K, V>` with the key and value types of an index function",
    note = "keys are `Eq + Hash`, values are `Clone`, and both are `Send + Sync + 'static`",
    note = "a type of your own that is called `Index` is injected by its type if the argument says so: `#[inject]`"
)]
pub trait IndexArgument: Sized {
    /// Returns the index of that name.
    ///
    /// # Errors
    /// Returns an error if there is no such index, or if its types differ.
    fn of(cause: &Cause, name: &'static str) -> Result<Self, HandlerError>;

    /// Returns the index that the operator must have for the argument.
    #[must_use]
    fn required(name: &'static str) -> RequiredIndex;
}

impl<K, V> IndexArgument for Index<K, V>
where
    K: Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    fn of(cause: &Cause, name: &'static str) -> Result<Self, HandlerError> {
        cause.index(name)
    }

    fn required(name: &'static str) -> RequiredIndex {
        let ty = IndexType::of::<K, V>();
        RequiredIndex { name, ty }
    }
}
