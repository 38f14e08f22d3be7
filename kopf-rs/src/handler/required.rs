//! Values that must be registered with an operator before it can call its handlers. This module does not know how
//! they are registered.

use std::any::{TypeId, type_name};
use std::fmt;

use crate::handler::listed::ListedKind;
use crate::handler::location::DeclaredAt;

/// A requirement of an annotated function: a value or an index.
#[derive(Clone, Debug)]
pub(crate) struct Requirement<T> {
    pub(crate) declared_at: DeclaredAt,
    /// The function's name, or the id from its attribute.
    pub(crate) handler: String,
    pub(crate) what: T,
}

impl fmt::Display for Requirement<RequiredState> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { declared_at: at, handler, what } = self;
        let wanted = what.type_name;
        write!(f, "{at}: handler `{handler}` asks for `State<{wanted}>`, but the operator has no `{wanted}`")
    }
}

/// The type of a value that must be registered with the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredState {
    pub(crate) type_id: TypeId,
    pub(crate) type_name: &'static str,
    /// The kind whose objects the operator keeps for it, if it is made from them.
    pub(crate) listed: Option<ListedKind>,
}

impl RequiredState {
    /// Requires a value of this type.
    pub(super) fn of<T: 'static>() -> Self {
        Self { type_id: TypeId::of::<T>(), type_name: type_name::<T>(), listed: None }
    }

    /// Requires that the operator keeps all objects of a kind.
    pub(super) fn of_listed<T: 'static>(listed: ListedKind) -> Self {
        Self { listed: Some(listed), ..Self::of::<T>() }
    }
}
