//! Parses list, map and message literals.
//!
//! A question mark before an entry makes it optional. Independent of operators.

use super::Reader;
use crate::cel::tree::{Field, Part, Tree};

// === impl Reader ===

impl Reader {
    /// Parses an entry; an optional one is left out of the result if its value is absent.
    pub(super) fn perhaps(&mut self, optional: bool) -> Option<Tree> {
        let of = self.ternary()?;
        if !optional {
            return Some(of);
        }
        let place = of.place;
        Some(self.maker.make(place, Part::Perhaps(Box::new(of))))
    }

    pub(super) fn list(&mut self, place: usize) -> Option<Tree> {
        let mut items = Vec::new();
        let empty = self.take(",");
        while !self.take("]") {
            if empty {
                return None;
            }
            let optional = self.take("?");
            items.push(self.perhaps(optional)?);
            if !self.take(",") {
                return self
                    .take("]")
                    .then(|| self.maker.make(place, Part::List(items)));
            }
        }
        Some(self.maker.make(place, Part::List(items)))
    }

    pub(super) fn map(&mut self, place: usize) -> Option<Tree> {
        let mut entries = Vec::new();
        let empty = self.take(",");
        while !self.take("}") {
            if empty {
                return None;
            }
            let optional = self.take("?");
            let key = self.ternary()?;
            if !self.take(":") {
                return None;
            }
            entries.push((key, self.perhaps(optional)?));
            if !self.take(",") {
                return self
                    .take("}")
                    .then(|| self.maker.make(place, Part::Map(entries)));
            }
        }
        Some(self.maker.make(place, Part::Map(entries)))
    }

    /// Reads the full name of a message literal that starts with this word, or returns `None` if no message literal follows.
    pub(super) fn message(&mut self, word: &str) -> Option<String> {
        let start = self.at;
        let mut name = word.to_owned();
        while self.take(".") {
            self.space();
            let Some(more) = self.word() else {
                break;
            };
            name = format!("{name}.{more}");
        }
        self.space();
        if self.peek() == Some('{') {
            return Some(name);
        }
        self.at = start;
        None
    }

    pub(super) fn fields(&mut self, name: String) -> Option<Tree> {
        let place = self.at;
        let mut fields = Vec::new();
        let mut more = self.take("{");
        let empty = self.take(",");
        while more && !self.take("}") {
            if empty {
                return None;
            }
            let optional = self.take("?");
            self.space();
            let name = self.word()?;
            self.space();
            let place = self.at;
            if !self.take(":") {
                return None;
            }
            let of = self.perhaps(optional)?;
            fields.push(Field { name, place, of });
            more = self.take(",");
            if !more && !self.take("}") {
                return None;
            }
        }
        Some(self.maker.make(place, Part::Message(name, fields)))
    }
}
