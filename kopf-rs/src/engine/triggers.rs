//! Collects the objects that triggers have fired for, until the queue is told.
//!
//! Guarantees that firing never waits, that many triggers cost one pass over the objects, and that their memory is bounded: beyond a number of
//! names, all objects of the kind are reconciled. Must not know what follows for an object.

use std::collections::BTreeSet;
use std::mem;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::handler::target::OwnerName;
use crate::handler::trigger::Triggered;
use crate::object::resource::Resource;
use crate::object::selector::Selector;

/// The maximum number of names of a kind.
const MOST: usize = 10_000;

/// The triggers that have fired since the queue was last told.
#[derive(Debug, Default)]
pub(crate) struct Triggers {
    fired: Mutex<Vec<Fired>>,
    /// Notified whenever there are some.
    some: Notify,
}

/// The objects of one kind to reconcile.
#[derive(Debug)]
pub(crate) struct Fired {
    kind: Selector,
    /// The full names; `None` stands for all objects.
    names: Option<BTreeSet<Box<str>>>,
}

// === impl ===

impl Triggers {
    /// Waits for triggers, and takes them. Cancel-safe.
    pub(super) async fn take(&self) -> Vec<Fired> {
        loop {
            let fired = mem::take(&mut *self.fired.lock());
            if !fired.is_empty() {
                return fired;
            }
            self.some.notified().await;
        }
    }
}

impl Triggered for Triggers {
    fn fire(&self, kind: &Selector, objects: Option<&[OwnerName]>) {
        let mut all = self.fired.lock();
        let at = all.iter().position(|it| it.kind == *kind).unwrap_or_else(|| {
            all.push(Fired { kind: kind.clone(), names: Some(BTreeSet::new()) });
            all.len() - 1
        });
        all[at].names = all[at].names.take().zip(objects).and_then(|(mut names, objects)| {
            names.extend(objects.iter().flat_map(|it| it.full_names(None)));
            (names.len() <= MOST).then_some(names)
        });
        drop(all);
        self.some.notify_one();
    }
}

impl Fired {
    /// Returns whether a trigger has fired for the object of this full name.
    pub(super) fn is_for(&self, resource: &Resource, name: &str) -> bool {
        self.kind.names(resource) && self.names.as_ref().is_none_or(|it| it.contains(name))
    }

    /// Returns the full names.
    pub(super) fn names(&self) -> impl Iterator<Item = &Box<str>> {
        self.names.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::target::IntoOwners;

    #[tokio::test]
    async fn triggers_coalesce_in_bounded_memory() {
        let triggers = Triggers::default();
        let pods = || Selector::positional(&["pods"]).unwrap();
        let resource = Resource { plural: "pods".to_owned(), ..Resource::default() };
        for name in ["a", "b", "a"] {
            triggers.fire(&pods(), Some(&("ns", name).into_owners()));
        }
        triggers.fire(&Selector::positional(&["nodes"]).unwrap(), Some(&"n".into_owners()));
        let fired = triggers.take().await;
        let names: Vec<Vec<&str>> = fired.iter().map(|it| it.names().map(|it| &**it).collect()).collect();
        assert_eq!(names, [vec!["ns/a", "ns/b"], vec!["/n"]]);
        assert!(fired[0].is_for(&resource, "ns/a") && !fired[0].is_for(&resource, "ns/c"));
        assert!(!fired[1].is_for(&resource, "/n"));
        for name in 0..=MOST {
            triggers.fire(&pods(), Some(&("ns", name.to_string()).into_owners()));
        }
        let fired = triggers.take().await;
        assert!(fired.len() == 1 && fired[0].names.is_none());
        assert!(fired[0].is_for(&resource, "ns/c"), "nothing is lost");
        triggers.fire(&pods(), None);
        triggers.fire(&pods(), Some(&("ns", "a").into_owners()));
        assert!(triggers.take().await[0].is_for(&resource, "ns/c"), "all are meant");
    }
}
