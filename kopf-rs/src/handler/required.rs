//! What an operator must be given before its handlers can be called. Must not know by whom.

use std::any::{TypeId, type_name};
use std::fmt;

use crate::handler::location::DeclaredAt;

/// An annotated function and a value that the operator must be given for it.
#[derive(Clone, Debug)]
pub(crate) struct Requirement {
    pub(crate) declared_at: DeclaredAt,
    /// The function's name, or the id that its attribute gives.
    pub(crate) handler: String,
    pub(crate) state: RequiredState,
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            declared_at: at,
            handler,
            state,
        } = self;
        let wanted = state.type_name;
        write!(
            f,
            "{at}: handler `{handler}` asks for `State<{wanted}>`, but the operator has no `{wanted}`"
        )
    }
}

/// The type of a value that the operator must be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredState {
    pub(crate) type_id: TypeId,
    pub(crate) type_name: &'static str,
}

impl RequiredState {
    /// A value of this type.
    pub(super) fn of<T: 'static>() -> Self {
        Self {
            type_id: TypeId::of::<T>(),
            type_name: type_name::<T>(),
        }
    }
}
