//! Records which owner each child belongs to. All owners share one field manager, so the server itself would let one owner take the child of
//! another.
//!
//! Must not know requests.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::engine::children::child_table::AppliedState;
use crate::engine::children::watched::SharedChildren;
use crate::object::child::ChildName;
use crate::object::collection::Collection;
use crate::reaction::children::ChildrenMemory;

/// The owners of all children that this process has met.
#[derive(Default)]
pub(super) struct Directory {
    children: Mutex<HashMap<ChildName, Entry>>,
    /// Notified when an owner is gone.
    watched: Arc<SharedChildren>,
}

#[derive(Debug)]
struct Entry {
    owner: OwnerName,
    /// The child as it was last applied.
    applied: Option<Applied>,
}

#[derive(Debug)]
struct Applied {
    uid: String,
    state: AppliedState,
}

/// The owner of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnerName {
    pub(super) uid: String,
    /// The name for log lines.
    pub(super) shown: String,
}

/// The memory of an object's children, stored in its memo. Dropping it with the object removes the entries from the directory.
#[derive(Default)]
pub(super) struct OfOwner {
    memory: Mutex<ChildrenMemory>,
    entered: OnceLock<(Arc<Directory>, String)>,
}

impl Directory {
    pub(super) fn new(watched: Arc<SharedChildren>) -> Self {
        Self { watched, ..Self::default() }
    }

    fn remove(&self, child: &ChildName, owner: &str) {
        let mut children = self.children.lock();
        if children.get(child).is_some_and(|it| it.owner.uid == owner) {
            children.remove(child);
        }
    }

    /// Notes that a child was applied, with its uid and its state.
    pub(super) fn applied(&self, child: &ChildName, uid: &str, state: AppliedState) {
        if let Some(entry) = self.children.lock().get_mut(child) {
            let uid = uid.to_owned();
            entry.applied = Some(Applied { uid, state });
        }
    }

    /// Notes that the operator deleted a child.
    pub(super) fn deleted(&self, child: &ChildName) {
        if let Some(entry) = self.children.lock().get_mut(child) {
            entry.applied = None;
        }
    }

    /// Returns the pairs of owner uid and child uid for children that are not as they were applied, after the listing of a collection is
    /// complete. `is_there` compares a uid and a state with the listing. Reports each child once: it may have changed before its kind was
    /// watched, or while the watch was replaced.
    pub(super) fn changed(
        &self,
        of: &Collection,
        is_there: impl Fn(&str, &AppliedState) -> bool,
    ) -> Vec<(String, String)> {
        let mut changed = Vec::new();
        for (child, entry) in self.children.lock().iter_mut() {
            let is_meant = child.group == of.resource.group
                && child.kind == of.resource.kind
                && (of.namespace.is_none() || child.namespace == of.namespace);
            let is_changed = |it: &mut Applied| is_meant && !is_there(&it.uid, &it.state);
            if let Some(applied) = entry.applied.take_if(is_changed) {
                changed.push((entry.owner.uid.clone(), applied.uid));
            }
        }
        changed
    }
}

impl OfOwner {
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut ChildrenMemory) -> T) -> T {
        look(&mut self.memory.lock())
    }

    /// Claims the name of a child for this owner.
    ///
    /// # Errors
    ///
    /// Returns the other owner if the name belongs to one.
    pub(super) fn claim(
        &self,
        directory: &Arc<Directory>,
        child: &ChildName,
        owner: &OwnerName,
    ) -> Result<(), OwnerName> {
        self.entered.get_or_init(|| (directory.clone(), owner.uid.clone()));
        let mut children = directory.children.lock();
        match children.get(child) {
            Some(entry) if entry.owner.uid != owner.uid => return Err(entry.owner.clone()),
            Some(_) => {}
            None => {
                let owner = owner.clone();
                let entry = Entry { owner, applied: None };
                children.insert(child.clone(), entry);
            }
        }
        self.with(|memory| memory.met(child));
        Ok(())
    }

    /// Releases the name: the object that has it is no child of this owner.
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
        for child in self.memory.lock().names() {
            directory.remove(child, uid);
        }
        directory.watched.lock().forget_owner(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::resource::Resource;

    #[test]
    fn a_child_has_one_owner_for_as_long_as_that_is_there() {
        let directory = Arc::new(Directory::default());
        let child = ChildName {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: None,
            name: "c".to_owned(),
        };
        let owner = |uid: &str| OwnerName { uid: uid.to_owned(), shown: format!("Kind `{uid}`") };
        let (first, second) = (OfOwner::default(), OfOwner::default());
        assert!(first.claim(&directory, &child, &owner("a")).is_ok());
        assert!(first.claim(&directory, &child, &owner("a")).is_ok());
        let refused = second.claim(&directory, &child, &owner("b"));
        assert_eq!(refused, Err(owner("a")));
        drop(first);
        assert!(second.claim(&directory, &child, &owner("b")).is_ok());
        second.release(&child);
        assert!(directory.children.lock().is_empty());
    }

    #[test]
    fn a_child_that_has_changed_before_its_kind_was_watched_is_told_once() {
        let directory = Arc::new(Directory::default());
        let name = |kind: &str, name: &str| ChildName {
            group: String::new(),
            kind: kind.to_owned(),
            namespace: Some("ns".to_owned()),
            name: name.to_owned(),
        };
        let owner = OwnerName { uid: "o".to_owned(), shown: String::new() };
        let of_owner = OfOwner::default();
        for (kind, child) in [("ConfigMap", "a"), ("ConfigMap", "b"), ("Secret", "c")] {
            assert!(of_owner.claim(&directory, &name(kind, child), &owner).is_ok());
        }
        let state = |state: &str| AppliedState { state: state.to_owned(), version: "7".to_owned() };
        directory.applied(&name("ConfigMap", "a"), "1", state("s"));
        directory.applied(&name("Secret", "c"), "2", state("s"));
        let maps = |namespace: Option<&str>| Collection {
            resource: Arc::new(Resource { kind: "ConfigMap".to_owned(), ..Resource::default() }),
            namespace: namespace.map(str::to_owned),
        };
        let is_there = |uid: &str, it: &AppliedState| uid == "1" && *it == state("s");
        assert!(directory.changed(&maps(None), is_there).is_empty());
        let elsewhere = directory.changed(&maps(Some("other")), |_, _| false);
        assert!(elsewhere.is_empty());
        let is_other = |_: &str, it: &AppliedState| *it == state("other");
        let changed = directory.changed(&maps(Some("ns")), is_other);
        assert_eq!(changed, [("o".to_owned(), "1".to_owned())]);
        assert!(directory.changed(&maps(None), |_, _| false).is_empty());
    }
}
