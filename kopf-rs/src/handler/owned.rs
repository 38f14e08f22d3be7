//! The kinds of a handler's children.
//!
//! This module does not know how children are watched.

use crate::object::selector::{Selector, SelectorError};

/// A kind of children that a handler makes. A change of such a child triggers a call of the handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedKind {
    pub(crate) selector: Selector,
    /// True if handlers read more than they apply. Then the informer caches whole objects instead of metadata only.
    pub(crate) is_read: bool,
}

/// Returns the kind of children that an option names.
pub(super) fn child_kind(kind: Result<Selector, SelectorError>) -> Result<Selector, String> {
    let selector = kind.map_err(|error| error.to_string())?;
    if selector.is_specific() {
        return Ok(selector);
    }
    Err(format!("children have one kind each: `{selector}` is not a single kind"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_of_several_kinds_is_refused() {
        let error = child_kind(Selector::everything(&[])).unwrap_err();
        assert!(error.contains("`everything` is not a single kind"), "{error}");
        assert!(child_kind(Selector::positional(&[""])).is_err());
    }
}
