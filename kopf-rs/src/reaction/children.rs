//! What to ask the server for a child: a first apply, one of a child that is known, or to look first.
//!
//! A first apply takes nothing from other managers, but it would take a child from another owner of the same operator: all have one manager. So
//! it is made only where nothing has the name. An apply of a known child takes what it needs, and is bound to its uid, so that it never makes again
//! what was deleted. Must not know requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::object::child::ChildName;

/// What is remembered of the children of one object.
#[derive(Debug, Default)]
pub(crate) struct ChildrenMemory(BTreeMap<ChildName, Known>);

/// What is known of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// Nothing was sent yet.
    Met,
    /// An apply was sent, and nothing is known of what became of it.
    Attempted,
    Applied(AppliedFacts),
}

/// A child that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedFacts {
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    /// Of its metadata, as far as they concern its owner: after the last apply.
    pub(crate) state: String,
    /// Of what was wanted.
    pub(crate) digest: String,
    pub(crate) author: Author,
}

/// The handler that has applied a child, and for which state of the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Author {
    pub(crate) handler: Arc<str>,
    /// The digest of the owner's essence.
    pub(crate) state: String,
}

/// What to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An apply without force, which makes the child or shows a stranger.
    First,
    /// The metadata of what has the name: whether it is a child is not known.
    Look,
    /// An apply with force, to this uid.
    Again { uid: String },
    /// None: another handler wants it to be different for the same state of the owner.
    TwoAuthors { first: Arc<str> },
}

impl ChildrenMemory {
    /// The first request for a child that is to be as `digest` says.
    pub(crate) fn step(&self, child: &ChildName, digest: &str, author: &Author) -> Step {
        match self.0.get(child) {
            None | Some(Known::Met | Known::Attempted) => Step::Look,
            Some(Known::Applied(applied)) => {
                let first = &applied.author;
                let is_same_state = first.state == author.state;
                if first.handler != author.handler && is_same_state && applied.digest != digest {
                    let first = first.handler.clone();
                    return Step::TwoAuthors { first };
                }
                let uid = applied.uid.clone();
                Step::Again { uid }
            }
        }
    }

    /// A handler asks for this child.
    pub(crate) fn met(&mut self, child: &ChildName) {
        self.0.entry(child.clone()).or_insert(Known::Met);
    }

    /// A first apply is about to be sent.
    pub(crate) fn attempted(&mut self, child: &ChildName) {
        self.0.insert(child.clone(), Known::Attempted);
    }

    /// It is as it was wanted. Whether that has changed it: `None` where nothing was known of it.
    pub(crate) fn applied(&mut self, child: &ChildName, facts: AppliedFacts) -> Option<bool> {
        let version = facts.resource_version.clone();
        let former = self.0.insert(child.clone(), Known::Applied(facts));
        match former? {
            Known::Met | Known::Attempted => None,
            Known::Applied(former) => Some(former.resource_version != version),
        }
    }

    /// The child as it was applied last, where it was just as it is wanted now.
    pub(crate) fn as_wanted(&self, child: &ChildName, digest: &str) -> Option<&AppliedFacts> {
        match self.0.get(child)? {
            Known::Applied(facts) if facts.digest == digest => Some(facts),
            _ => None,
        }
    }

    /// The child as it was applied last, where that is known.
    pub(crate) fn last(&self, child: &ChildName) -> Option<&AppliedFacts> {
        match self.0.get(child)? {
            Known::Applied(facts) => Some(facts),
            Known::Met | Known::Attempted => None,
        }
    }

    /// The names that were met.
    pub(crate) fn names(&self) -> impl Iterator<Item = &ChildName> {
        self.0.keys()
    }

    /// The child is no more: it is met anew.
    pub(crate) fn forget(&mut self, child: &ChildName) {
        self.0.insert(child.clone(), Known::Attempted);
    }

    /// What has the name is not ours.
    pub(crate) fn release(&mut self, child: &ChildName) {
        self.0.remove(child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child() -> ChildName {
        ChildName {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: Some("ns".to_owned()),
            name: "c".to_owned(),
        }
    }

    fn author(handler: &str, state: &str) -> Author {
        Author {
            handler: handler.into(),
            state: state.to_owned(),
        }
    }

    fn applied(version: &str) -> AppliedFacts {
        AppliedFacts {
            uid: "u".to_owned(),
            resource_version: version.to_owned(),
            state: "s".to_owned(),
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
        memory.attempted(&child());
        assert_eq!(step(&memory), Step::Look);
        assert_eq!(memory.applied(&child(), applied("1")), None);
        let again = Step::Again {
            uid: "u".to_owned(),
        };
        assert_eq!(step(&memory), again);
        assert_eq!(memory.applied(&child(), applied("1")), Some(false));
        assert_eq!(memory.applied(&child(), applied("2")), Some(true));
        memory.forget(&child());
        assert_eq!(step(&memory), Step::Look);
        assert_eq!(memory.names().count(), 1);
        memory.release(&child());
        assert_eq!(memory.names().count(), 0);
    }

    #[test]
    fn two_handlers_may_apply_a_child_where_they_agree_or_one_follows_the_other() {
        let mut memory = ChildrenMemory::default();
        memory.applied(&child(), applied("1"));
        let again = Step::Again {
            uid: "u".to_owned(),
        };
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
