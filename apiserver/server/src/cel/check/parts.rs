//! The types of lists, fields and messages.
//!
//! Reports unknown fields, and every message literal, because no message types exist. Independent of calls.

use super::{Checker, is_type};
use crate::cel::kind::{Kind, meant};
use crate::cel::tree::{Field, Tree, plain};

// === impl Checker ===

impl Checker {
    /// Returns the common type of nodes that must agree, such as list items.
    pub(super) fn alike(&mut self, parts: &[(usize, Kind)]) -> Kind {
        let Some((_, first)) = parts.first() else {
            return Kind::Open(self.open.more(1));
        };
        let mut made = first.clone();
        for (place, kind) in &parts[1..] {
            if !self.open.fits(first, kind) {
                if self.free == 0 {
                    let why = format!("expected type '{first}' but found '{kind}'");
                    self.later.push((*place, why));
                }
                made = Kind::Dyn;
            }
        }
        made
    }

    /// Returns the type of the value within an optional entry (`?item`).
    pub(super) fn perhaps(&mut self, of: &Tree) -> Kind {
        let kind = self.visit(of);
        match self.open.settled(&kind) {
            Kind::Optional(inner) => *inner,
            loose if loose.is_loose() => loose,
            other => {
                let why = format!("expected type 'optional_type({other})' but found '{other}'");
                self.complain(of.place, why);
                other
            }
        }
    }

    /// Reports a message literal as an error, as there are no message types.
    pub(super) fn message(&mut self, place: usize, name: &str, fields: &[Field]) -> Kind {
        let known = self.known(name).map(Kind::to_string);
        let why = match known {
            Some(kind) => format!("'{kind}' is not a type"),
            None if is_type(name) => format!("'{}' is not a message type", plain(name)),
            None => return self.undeclared(place, name),
        };
        self.complain(place, why);
        for field in fields {
            self.visit(&field.of);
            self.complain(field.place, format!("undefined field '{}'", field.name));
        }
        Kind::Unknown
    }

    pub(super) fn select(&mut self, place: usize, of: &Kind, field: &str, optional: bool) -> Kind {
        let of = self.open.settled(of);
        let (inner, wrapped) = match &of {
            Kind::Optional(inner) => (self.open.settled(inner), true),
            _ => (of.clone(), optional),
        };
        let found = match &inner {
            Kind::Object(object) => match meant(&object.fields, field) {
                Some(kind) => kind.clone(),
                None => return self.complain(place, format!("undefined field '{field}'")),
            },
            Kind::Map(_, of) => (**of).clone(),
            loose if loose.is_loose() => loose.clone(),
            Kind::Open(_) => Kind::Dyn,
            other => {
                let why = format!("type '{other}' does not support field selection");
                return self.complain(place, why);
            }
        };
        if wrapped {
            return Kind::Optional(Box::new(found));
        }
        found
    }
}
