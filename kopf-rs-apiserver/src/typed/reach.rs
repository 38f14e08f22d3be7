//! Which types lead to which: so that a walk leaves out what holds nothing of interest.
//!
//! Promise: a type leads to what any of its fields, however deep, is made of. Must not know what the walk is for.

use std::collections::HashSet;

use super::{Struct, TYPES, Type};

/// The structs that are of interest, or hold one that is.
#[derive(Debug)]
pub(crate) struct Reach(HashSet<&'static str>);

// === impl Reach ===

impl Reach {
    /// What leads to the structs of these names.
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

    /// Whether there is something in values of this type.
    pub(crate) fn leads(&self, of: &Type) -> bool {
        struct_in(of).is_some_and(|of| self.0.contains(of.name))
    }
}

/// The struct that this is, or a list or map of.
pub(crate) fn struct_in(of: &Type) -> Option<&'static Struct> {
    match of.element() {
        Some(inner) => struct_in(inner),
        None => of.as_struct(),
    }
}
