//! Unification of types.
//!
//! A resolved type variable stays resolved until the caller restores an earlier state. Independent of expressions.

use super::kind::Kind;

/// The type variables and the types they resolve to.
#[derive(Clone, Debug, Default)]
pub(super) struct Open(Vec<Option<Kind>>);

// === impl Open ===

impl Open {
    /// Creates `count` type variables; returns the id of the first.
    pub(super) fn more(&mut self, count: usize) -> usize {
        let first = self.0.len();
        self.0.resize(first + count, None);
        first
    }

    /// Replaces resolved type variables within a type.
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

    /// Returns true if a value of type `found` may be used as `wanted`; resolves type variables on the way.
    pub(super) fn fits(&mut self, wanted: &Kind, found: &Kind) -> bool {
        let (wanted, found) = (self.settled(wanted), self.settled(found));
        match (&wanted, &found) {
            (Kind::Open(one), Kind::Open(two)) if one == two => true,
            (Kind::Open(at), other) | (other, Kind::Open(at)) => {
                // A type that contains the variable itself leaves the variable unresolved.
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

/// Replaces unresolved type variables with `dyn`.
pub(super) fn closed(kind: Kind) -> Kind {
    match kind {
        Kind::Open(_) => Kind::Dyn,
        Kind::List(of) => Kind::list(closed(*of)),
        Kind::Optional(of) => Kind::Optional(Box::new(closed(*of))),
        Kind::Map(key, of) => Kind::Map(Box::new(closed(*key)), Box::new(closed(*of))),
        other => other,
    }
}

/// Returns true if the type contains the type variable.
fn holds(kind: &Kind, open: usize) -> bool {
    match kind {
        Kind::Open(at) => *at == open,
        Kind::List(of) | Kind::Optional(of) => holds(of, open),
        Kind::Map(key, of) => holds(key, open) || holds(of, open),
        _ => false,
    }
}

/// Renumbers the type variables of an overload for one use of it.
pub(super) fn shifted(kind: &Kind, base: usize) -> Kind {
    match kind {
        Kind::Open(at) => Kind::Open(at + base),
        Kind::List(of) => Kind::list(shifted(of, base)),
        Kind::Optional(of) => Kind::Optional(Box::new(shifted(of, base))),
        Kind::Map(key, of) => Kind::Map(Box::new(shifted(key, base)), Box::new(shifted(of, base))),
        other => other.clone(),
    }
}
