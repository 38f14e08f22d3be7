//! Evaluates list and map literals.
//!
//! Leaves out optional entries without a value. Independent of calls.

use std::collections::BTreeMap;

use super::{Run, cost};
use crate::cel::tree::{Part, Tree};
use crate::cel::value::{Fault, Key, Map, Outcome, Value, shown};

// === impl Run ===

impl<'a> Run<'a> {
    pub(super) fn items(&mut self, items: &'a [Tree]) -> Result<Vec<Value<'a>>, Fault> {
        let mut found = Vec::with_capacity(items.len());
        for item in items {
            let value = self.value(item)?;
            found.extend(match (&item.part, value) {
                (Part::Perhaps(_), Value::Optional(of)) => of.map(|of| (*of).clone()),
                (Part::Perhaps(_), of) => {
                    let why = "cannot initialize optional list element from non-optional value";
                    return Err(Fault::Told(format!("{why} {}", shown(&of))));
                }
                (_, of) => Some(of),
            });
        }
        Ok(found)
    }

    pub(super) fn map(&mut self, tree: &'a Tree, entries: &'a [(Tree, Tree)]) -> Outcome<'a> {
        let mut map = BTreeMap::new();
        for (name, of) in entries {
            let name = self.value(name)?;
            let key = Key::of(&name)?;
            match (&of.part, self.value(of)?) {
                (Part::Perhaps(_), Value::Optional(None)) => {
                    map.remove(&key);
                }
                (Part::Perhaps(_), Value::Optional(Some(of))) => {
                    map.insert(key, (*of).clone());
                }
                (Part::Perhaps(_), of) => {
                    let (name, of) = (shown(&name), shown(&of));
                    return Err(Fault::Told(format!(
                        "cannot initialize optional entry '{name}' from non-optional value {of}"
                    )));
                }
                (_, of) => {
                    map.insert(key, of);
                }
            }
        }
        self.spend(if tree.is_constant() { 0 } else { cost::MAP })?;
        Ok(Value::Map(Map::Made(map.into())))
    }
}
