//! Deduplicates equal field sets: objects that were created alike have the same fields and managers, so this saves memory.
//!
//! Guarantees that the returned set is equal. Must not depend on the owner of a set.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::set::Set;

/// The maximum number of remembered sets; when it is reached, the cache is cleared.
const REMEMBERED: usize = 4096;

static KNOWN: LazyLock<Mutex<HashSet<Arc<Set>>>> = LazyLock::new(Mutex::default);

/// Returns a shared set that equals this one.
pub(super) fn shared(set: &Arc<Set>) -> Arc<Set> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(set) {
        return found.clone();
    }
    if known.len() >= REMEMBERED {
        known.clear();
    }
    known.insert(set.clone());
    set.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_are_one() {
        let one = shared(&Arc::new(Set::of_fields(&[&["spec", "shared"]])));
        let other = shared(&Arc::new(Set::of_fields(&[&["spec", "shared"]])));
        let third = shared(&Arc::new(Set::of_fields(&[&["spec", "not"]])));
        assert!(Arc::ptr_eq(&one, &other) && !Arc::ptr_eq(&one, &third));
    }
}
