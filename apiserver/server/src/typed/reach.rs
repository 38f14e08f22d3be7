//! Finds the types that contain certain other types, so that a walk can skip the rest.
//!
//! Considers fields at any depth. Independent of the purpose of the walk.

use std::collections::HashSet;

use super::{Struct, TYPES, Type};

/// The structs that are of interest or contain such a struct.
#[derive(Debug)]
pub(crate) struct Reach(HashSet<&'static str>);

// === impl Reach ===

impl Reach {
    /// Finds all structs that lead to structs with these names.
    pub(crate) fn to(names: impl Fn(&str) -> bool) -> Self {
        let mut found = HashSet::new();
        loop {
            let before = found.len();
            for of in &TYPES.structs {
                let leads =
                    |of: &Type| struct_in(of).is_some_and(|inner| found.contains(inner.name));
                if names(of.name) || of.fields.iter().any(|field| leads(&field.of)) {
                    found.insert(of.name);
                }
            }
            if found.len() == before {
                return Self(found);
            }
        }
    }

    /// Returns true if values of this type may contain a struct of interest.
    pub(crate) fn leads(&self, of: &Type) -> bool {
        struct_in(of).is_some_and(|of| self.0.contains(of.name))
    }
}

/// Returns the struct of the type, or of its items or values.
pub(crate) fn struct_in(of: &Type) -> Option<&'static Struct> {
    match of.element() {
        Some(inner) => struct_in(inner),
        None => of.as_struct(),
    }
}
