//! Kinds that are not known yet, and whether one kind may stand for another.
//!
//! Promise: what is found out stays so until it is taken back. Must not know expressions.

use super::kind::Kind;

/// What the open kinds have turned out to be.
#[derive(Clone, Debug, Default)]
pub(super) struct Open(Vec<Option<Kind>>);

// === impl Open ===

impl Open {
    /// So many new ones; the number of the first.
    pub(super) fn more(&mut self, count: usize) -> usize {
        let first = self.0.len();
        self.0.resize(first + count, None);
        first
    }

    /// A kind with what its open parts have turned out to be.
    pub(super) fn settled(&self, kind: &Kind) -> Kind {
        match kind {
            Kind::Open(at) => match self.0.get(*at).and_then(Option::as_ref) {
                Some(found) => self.settled(found),
                None => kind.clone(),
            },
            Kind::List(of) => Kind::list(self.settled(of)),
            Kind::Optional(of) => Kind::Optional(Box::new(self.settled(of))),
            Kind::Map(key, of) => {
                Kind::Map(Box::new(self.settled(key)), Box::new(self.settled(of)))
            }
            other => other.clone(),
        }
    }

    /// Whether a value of one kind may stand where another is wanted.
    pub(super) fn fits(&mut self, wanted: &Kind, found: &Kind) -> bool {
        let (wanted, found) = (self.settled(wanted), self.settled(found));
        match (&wanted, &found) {
            (Kind::Open(one), Kind::Open(two)) if one == two => true,
            (Kind::Open(at), other) | (other, Kind::Open(at)) => {
                // What is a part of itself stays open.
                let slot = self.0.get_mut(*at).filter(|_| !holds(other, *at));
                if let Some(slot) = slot {
                    *slot = Some(other.clone());
                }
                true
            }
            (wanted, found) if wanted.is_loose() || found.is_loose() => true,
            (Kind::List(wanted), Kind::List(found))
            | (Kind::Optional(wanted), Kind::Optional(found)) => self.fits(wanted, found),
            (Kind::Map(key, of), Kind::Map(other_key, other)) => {
                self.fits(key, other_key) && self.fits(of, other)
            }
            (
                Kind::Object(_)
                | Kind::Named(_)
                | Kind::Timestamp
                | Kind::Duration
                | Kind::Optional(_),
                Kind::Null,
            )
            | (
                Kind::Null,
                Kind::Object(_)
                | Kind::Named(_)
                | Kind::Timestamp
                | Kind::Duration
                | Kind::Optional(_),
            ) => true,
            (wanted, found) => wanted == found,
        }
    }
}

/// A kind whose open parts may be anything.
pub(super) fn closed(kind: Kind) -> Kind {
    match kind {
        Kind::Open(_) => Kind::Dyn,
        Kind::List(of) => Kind::list(closed(*of)),
        Kind::Optional(of) => Kind::Optional(Box::new(closed(*of))),
        Kind::Map(key, of) => Kind::Map(Box::new(closed(*key)), Box::new(closed(*of))),
        other => other,
    }
}

/// Whether an open kind is a part of a kind.
fn holds(kind: &Kind, open: usize) -> bool {
    match kind {
        Kind::Open(at) => *at == open,
        Kind::List(of) | Kind::Optional(of) => holds(of, open),
        Kind::Map(key, of) => holds(key, open) || holds(of, open),
        _ => false,
    }
}

/// The open kinds of an overload as those of this use of it.
pub(super) fn shifted(kind: &Kind, base: usize) -> Kind {
    match kind {
        Kind::Open(at) => Kind::Open(at + base),
        Kind::List(of) => Kind::list(shifted(of, base)),
        Kind::Optional(of) => Kind::Optional(Box::new(shifted(of, base))),
        Kind::Map(key, of) => Kind::Map(Box::new(shifted(key, base)), Box::new(shifted(of, base))),
        other => other.clone(),
    }
}
