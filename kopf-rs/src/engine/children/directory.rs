//! Which owner each child of the operator belongs to: all owners have one field manager, so the server would let one take the child of another.
//!
//! Must not know requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::object::child::ChildName;
use crate::reaction::children::ChildrenMemory;

/// The owners of all children that this process has met.
#[derive(Debug, Default)]
pub(super) struct Directory {
    owners: Mutex<HashMap<ChildName, Owned>>,
}

/// An owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) uid: String,
    /// For people.
    pub(super) shown: String,
}

/// The memory of an object's children, among what its handlers keep: dropped with the object, and with it what stands in the directory.
#[derive(Default)]
pub(super) struct OfOwner {
    memory: Mutex<ChildrenMemory>,
    entered: OnceLock<(Arc<Directory>, String)>,
}

impl Directory {
    fn lock(&self) -> MutexGuard<'_, HashMap<ChildName, Owned>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, child: &ChildName, owner: &str) {
        let mut owners = self.lock();
        if owners.get(child).is_some_and(|it| it.uid == owner) {
            owners.remove(child);
        }
    }
}

impl OfOwner {
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut ChildrenMemory) -> T) -> T {
        look(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Let the name be one of this owner's children, unless it is one of another's.
    pub(super) fn claim(
        &self,
        directory: &Arc<Directory>,
        child: &ChildName,
        owner: &Owned,
    ) -> Result<(), Owned> {
        self.entered
            .get_or_init(|| (directory.clone(), owner.uid.clone()));
        let mut owners = directory.lock();
        match owners.get(child) {
            Some(other) if other.uid != owner.uid => return Err(other.clone()),
            Some(_) => {}
            None => drop(owners.insert(child.clone(), owner.clone())),
        }
        self.with(|memory| memory.met(child));
        Ok(())
    }

    /// What has the name is no child of this owner.
    pub(super) fn release(&self, child: &ChildName) {
        self.with(|memory| memory.release(child));
        if let Some((directory, uid)) = self.entered.get() {
            directory.remove(child, uid);
        }
    }
}

impl Drop for OfOwner {
    fn drop(&mut self) {
        let Some((directory, uid)) = self.entered.get() else {
            return;
        };
        let memory = self.memory.get_mut();
        let memory = memory.unwrap_or_else(PoisonError::into_inner);
        for child in memory.names() {
            directory.remove(child, uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_one_owner_for_as_long_as_that_is_there() {
        let directory = Arc::new(Directory::default());
        let child = ChildName {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: None,
            name: "c".to_owned(),
        };
        let owner = |uid: &str| Owned {
            uid: uid.to_owned(),
            shown: format!("Kind `{uid}`"),
        };
        let (first, second) = (OfOwner::default(), OfOwner::default());
        assert!(first.claim(&directory, &child, &owner("a")).is_ok());
        assert!(first.claim(&directory, &child, &owner("a")).is_ok());
        let refused = second.claim(&directory, &child, &owner("b"));
        assert_eq!(refused, Err(owner("a")));
        drop(first);
        assert!(second.claim(&directory, &child, &owner("b")).is_ok());
        second.release(&child);
        assert!(directory.lock().is_empty());
    }
}
