//! Which owner each child of the operator belongs to: all owners have one field manager, so the server would let one take the child of another.
//!
//! Must not know requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::object::child::ChildName;
use crate::object::collection::Collection;
use crate::reaction::children::ChildrenMemory;

/// The owners of all children that this process has met.
#[derive(Debug, Default)]
pub(super) struct Directory {
    children: Mutex<HashMap<ChildName, Entry>>,
}

#[derive(Debug)]
struct Entry {
    owner: OwnerName,
    /// The uid of the child, once it was applied.
    uid: Option<String>,
}

/// An owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnerName {
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
    fn lock(&self) -> MutexGuard<'_, HashMap<ChildName, Entry>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, child: &ChildName, owner: &str) {
        let mut children = self.lock();
        if children.get(child).is_some_and(|it| it.owner.uid == owner) {
            children.remove(child);
        }
    }

    /// A child was applied, and has this uid.
    pub(super) fn applied(&self, child: &ChildName, uid: &str) {
        if let Some(entry) = self.lock().get_mut(child) {
            entry.uid = Some(uid.to_owned());
        }
    }

    /// A child was deleted by the operator.
    pub(super) fn deleted(&self, child: &ChildName) {
        if let Some(entry) = self.lock().get_mut(child) {
            entry.uid = None;
        }
    }

    /// The owners of children that were applied and are not there any more, where all that is there of a collection has been listed. Each is
    /// told once: a child may have gone before its kind was watched.
    pub(super) fn missing(&self, of: &Collection, is_there: impl Fn(&str) -> bool) -> Vec<String> {
        let mut owners = Vec::new();
        for (child, entry) in self.lock().iter_mut() {
            let is_meant = child.group == of.resource.group
                && child.kind == of.resource.kind
                && (of.namespace.is_none() || child.namespace == of.namespace);
            let is_missing = |uid: &String| is_meant && !is_there(uid);
            if entry.uid.as_ref().is_some_and(is_missing) {
                entry.uid = None;
                owners.push(entry.owner.uid.clone());
            }
        }
        owners
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
        owner: &OwnerName,
    ) -> Result<(), OwnerName> {
        self.entered
            .get_or_init(|| (directory.clone(), owner.uid.clone()));
        let mut children = directory.lock();
        match children.get(child) {
            Some(entry) if entry.owner.uid != owner.uid => return Err(entry.owner.clone()),
            Some(_) => {}
            None => {
                let owner = owner.clone();
                children.insert(child.clone(), Entry { owner, uid: None });
            }
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
        let owner = |uid: &str| OwnerName {
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

    #[test]
    fn a_child_that_went_before_its_kind_was_watched_is_missing_once() {
        let directory = Arc::new(Directory::default());
        let name = |kind: &str, name: &str| ChildName {
            group: String::new(),
            kind: kind.to_owned(),
            namespace: Some("ns".to_owned()),
            name: name.to_owned(),
        };
        let owner = OwnerName {
            uid: "o".to_owned(),
            shown: String::new(),
        };
        let of_owner = OfOwner::default();
        for (kind, child) in [("ConfigMap", "a"), ("ConfigMap", "b"), ("Secret", "c")] {
            assert!(
                of_owner
                    .claim(&directory, &name(kind, child), &owner)
                    .is_ok()
            );
        }
        directory.applied(&name("ConfigMap", "a"), "1");
        directory.applied(&name("Secret", "c"), "2");
        let maps = |namespace: Option<&str>| Collection {
            resource: Arc::new(Resource {
                kind: "ConfigMap".to_owned(),
                ..Resource::default()
            }),
            namespace: namespace.map(str::to_owned),
        };
        assert!(directory.missing(&maps(None), |uid| uid == "1").is_empty());
        assert!(
            directory
                .missing(&maps(Some("other")), |_| false)
                .is_empty()
        );
        assert_eq!(directory.missing(&maps(Some("ns")), |_| false), ["o"]);
        assert!(directory.missing(&maps(None), |_| false).is_empty());
    }
}
