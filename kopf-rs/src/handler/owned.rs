//! The kinds of a handler's children.
//!
//! This module does not know how children are watched.

use crate::object::selector::{Selector, SelectorError};

/// Kinds as attributes name them.
pub(crate) type Kinds = Vec<Result<Selector, SelectorError>>;

/// A kind of children that a handler makes. A change of such a child triggers a call of the handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedKind {
    pub(crate) selector: Selector,
    /// True if handlers read more than they apply. Then the informer caches whole objects instead of metadata only.
    pub(crate) is_read: bool,
}

/// Builds the selector of one kind: for generated code.
///
/// # Errors
/// Returns an error if the text names no resource.
pub fn kind(selector: impl FnOnce() -> Result<Selector, SelectorError>) -> Result<Selector, SelectorError> {
    selector()
}

/// Merges the options that name kinds: each kind once, with whole objects if one option requests them.
pub(super) fn owned_kinds(owns: Kinds, reads: Kinds) -> Result<Vec<OwnedKind>, String> {
    let mut owned: Vec<OwnedKind> = Vec::new();
    let whole = reads.into_iter().map(|kind| (kind, true));
    for (kind, is_read) in whole.chain(owns.into_iter().map(|kind| (kind, false))) {
        let selector = specific(kind)?;
        if !owned.iter().any(|known| known.selector == selector) {
            owned.push(OwnedKind { selector, is_read });
        }
    }
    Ok(owned)
}

/// Resolves the kinds that the handler no longer owns.
pub(super) fn former_kinds(kinds: Kinds) -> Result<Vec<Selector>, String> {
    kinds.into_iter().map(specific).collect()
}

fn specific(kind: Result<Selector, SelectorError>) -> Result<Selector, String> {
    let selector = kind.map_err(|error| error.to_string())?;
    if selector.is_specific() {
        return Ok(selector);
    }
    Err(format!("children are of one kind each, and not of whatever fits: `{selector}` is no kind"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(names: &[&str]) -> Kinds {
        names.iter().map(|name| Selector::positional(&[name])).collect()
    }

    #[test]
    fn what_is_read_is_owned_once() {
        let owned = owned_kinds(kinds(&["services", "pods"]), kinds(&["pods"])).unwrap();
        let told: Vec<_> = owned.iter().map(|kind| (kind.selector.to_string(), kind.is_read)).collect();
        assert_eq!(told, [("pods".to_owned(), true), ("services".to_owned(), false)]);
    }

    #[test]
    fn what_is_no_kind_is_refused() {
        let everything = Selector::everything(&[]);
        let error = owned_kinds(vec![everything], Vec::new()).unwrap_err();
        assert!(error.contains("`everything` is no kind"), "{error}");
        assert!(former_kinds(kinds(&[""])).is_err());
    }
}
