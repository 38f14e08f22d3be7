//! What an operator must be given before its handlers can be called. Must not know by whom.

use std::any::{TypeId, type_name};

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
