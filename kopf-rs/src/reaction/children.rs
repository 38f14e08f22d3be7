//! Decides on the request for a child: a first apply, an apply of a known child, or a read.
//!
//! A first apply takes no fields from other managers. But all owners of one operator share a manager, so it could take a child from another
//! owner, and is made only if no object has the name. An apply of a known child takes the fields that it needs, and is bound to the uid, so
//! that it never recreates a deleted child. Must not know requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::object::child::ChildName;

/// The known children of one object with their last applies: `None` before the first one, and while it is unknown whether it was executed.
#[derive(Debug, Default)]
pub(crate) struct ChildrenMemory(BTreeMap<ChildName, Option<AppliedFacts>>);

/// The facts about an applied child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedFacts {
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    /// The digest of its owner-related metadata after the last apply.
    pub(crate) state: String,
    /// The digest of the `managedFields` entry of the operator's applies.
    pub(crate) noted: String,
    /// The digest of the desired state.
    pub(crate) digest: String,
    /// False if an apply was sent since whose response is missing: it may have been or may still be executed.
    pub(crate) is_sure: bool,
    pub(crate) author: Author,
}

/// The handler that has applied a child, and the owner's state for which it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Author {
    pub(crate) handler: Arc<str>,
    /// The digest of the owner's essence.
    pub(crate) state: String,
}

/// The request to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An apply without force, which creates the child or reveals a foreign object.
    First,
    /// A read of the metadata, because it is unknown whether the object is a child.
    Look,
    /// An apply with force, bound to this uid.
    Again { uid: String },
    /// None: another handler wants a different child for the same state of the owner.
    TwoAuthors { first: Arc<str> },
}

impl ChildrenMemory {
    /// Returns the first request for a child whose desired state has this digest.
    pub(crate) fn step(&self, child: &ChildName, digest: &str, author: &Author) -> Step {
        let Some(applied) = self.last(child) else {
            return Step::Look;
        };
        let first = &applied.author;
        let is_same_state = first.state == author.state;
        if first.handler != author.handler && is_same_state && applied.digest != digest {
            let first = first.handler.clone();
            return Step::TwoAuthors { first };
        }
        let uid = applied.uid.clone();
        Step::Again { uid }
    }

    /// Records that a handler wants this child.
    pub(crate) fn met(&mut self, child: &ChildName) {
        self.0.entry(child.clone()).or_default();
    }

    /// Records that the child may or may not exist, because a first apply is about to be sent or the child has vanished. The next request
    /// starts anew.
    pub(crate) fn forget(&mut self, child: &ChildName) {
        self.0.insert(child.clone(), None);
    }

    /// Records that an apply of a known child is about to be sent. Its state is unknown until the response arrives.
    pub(crate) fn sends(&mut self, child: &ChildName) {
        if let Some(Some(facts)) = self.0.get_mut(child) {
            facts.is_sure = false;
        }
    }

    /// Records a successful apply, and returns the former facts.
    pub(crate) fn applied(&mut self, child: &ChildName, facts: AppliedFacts) -> Option<AppliedFacts> {
        self.0.insert(child.clone(), Some(facts)).flatten()
    }

    /// Returns the last applied state if it certainly equals the desired one.
    pub(crate) fn as_wanted(&self, child: &ChildName, digest: &str) -> Option<&AppliedFacts> {
        self.last(child).filter(|it| it.is_sure && it.digest == digest)
    }

    /// Returns the last applied state if it is known.
    pub(crate) fn last(&self, child: &ChildName) -> Option<&AppliedFacts> {
        self.0.get(child)?.as_ref()
    }

    /// Returns the known names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &ChildName> {
        self.0.keys()
    }

    /// Records that the object with this name is foreign.
    pub(crate) fn release(&mut self, child: &ChildName) {
        self.0.remove(child);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::reaction) fn child() -> ChildName {
        ChildName {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: Some("ns".to_owned()),
            name: "c".to_owned(),
        }
    }

    pub(in crate::reaction) fn author(handler: &str, state: &str) -> Author {
        Author { handler: handler.into(), state: state.to_owned() }
    }

    pub(in crate::reaction) fn applied(version: &str) -> AppliedFacts {
        AppliedFacts {
            uid: "u".to_owned(),
            resource_version: version.to_owned(),
            state: "s".to_owned(),
            noted: "n".to_owned(),
            is_sure: true,
            digest: "d".to_owned(),
            author: author("a", "1"),
        }
    }

    #[test]
    fn a_name_is_looked_at_until_it_is_known() {
        let mut memory = ChildrenMemory::default();
        let step = |memory: &ChildrenMemory| memory.step(&child(), "d", &author("a", "1"));
        assert_eq!(step(&memory), Step::Look);
        memory.met(&child());
        memory.forget(&child());
        assert_eq!(step(&memory), Step::Look);
        assert_eq!(memory.applied(&child(), applied("1")), None);
        let again = Step::Again { uid: "u".to_owned() };
        assert_eq!(step(&memory), again);
        assert_eq!(memory.applied(&child(), applied("2")), Some(applied("1")));
        memory.forget(&child());
        assert_eq!(step(&memory), Step::Look);
        assert_eq!(memory.names().count(), 1);
        memory.release(&child());
        assert_eq!(memory.names().count(), 0);
    }

    #[test]
    fn nothing_is_skipped_after_an_apply_without_an_answer() {
        let mut memory = ChildrenMemory::default();
        memory.applied(&child(), applied("1"));
        assert_eq!(memory.as_wanted(&child(), "d"), Some(&applied("1")));
        assert_eq!(memory.as_wanted(&child(), "other"), None);
        memory.sends(&child());
        assert_eq!(memory.as_wanted(&child(), "d"), None);
        memory.applied(&child(), applied("2"));
        assert_eq!(memory.as_wanted(&child(), "d"), Some(&applied("2")));
    }

    #[test]
    fn two_handlers_may_apply_a_child_where_they_agree_or_one_follows_the_other() {
        let mut memory = ChildrenMemory::default();
        memory.applied(&child(), applied("1"));
        let again = Step::Again { uid: "u".to_owned() };
        let two = Step::TwoAuthors { first: "a".into() };
        for (handler, state, digest, expected) in [
            ("a", "1", "other", &again),
            ("b", "1", "d", &again),
            ("b", "2", "other", &again),
            ("b", "1", "other", &two),
        ] {
            let author = author(handler, state);
            assert_eq!(memory.step(&child(), digest, &author), *expected);
        }
    }
}
