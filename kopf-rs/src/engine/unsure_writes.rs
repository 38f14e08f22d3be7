//! Remembers writes by functions that were aborted in an unknown state: a part of them may have landed, or their answer was lost.
//!
//! Applied again to a newer state, such functions would change it twice. Their changes are therefore remembered, and the part that a state
//! already has is left out. Must not know why a write was aborted.

use serde_json::Value;

use crate::object::operations::Operations;
use crate::object::patch::{Patch, Transformation};

/// Changes by functions that may have landed: all of a write, only one of status and rest, or none.
#[derive(Debug, Default)]
pub(crate) struct UnsureWrites(Vec<UnsureWrite>);

#[derive(Debug)]
struct UnsureWrite {
    operations: Operations,
    functions: Vec<Transformation>,
}

/// Says which changes of a function the object has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Landed {
    status: bool,
    rest: bool,
}

impl UnsureWrites {
    /// Remembers an aborted write of these functions, of which these changes may have landed.
    pub(super) fn add(&mut self, operations: Operations, patch: &Patch) {
        /// The number of remembered writes. Each of them is a failed write, and writes of equal changes count as one.
        const MOST: usize = 8;
        self.0.retain(|it| it.operations != operations);
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        let functions = patch.functions().to_vec();
        self.0.push(UnsureWrite { operations, functions });
    }

    /// Forgets a write of these functions, which has landed.
    pub(super) fn settle(&mut self, patch: &Patch) {
        for write in &mut self.0 {
            let is_settled = |it: &Transformation| patch.functions().iter().any(|of| of.is(it));
            write.functions.retain(|it| !is_settled(it));
        }
        self.0.retain(|write| !write.functions.is_empty());
    }

    /// Removes from `changed`, which the `function` has made of `before`, the part that `found` already has.
    pub(super) fn take_out_landed(
        &self,
        function: &Transformation,
        found: &Value,
        (before, changed): (&Value, &mut Value),
    ) {
        let landed = self.landed(function, found);
        if landed != Landed::default() {
            landed.take_out(before, changed);
        }
    }

    /// Returns which changes of the function `found` has.
    fn landed(&self, function: &Transformation, found: &Value) -> Landed {
        let is_of = |write: &&UnsureWrite| write.functions.iter().any(|it| it.is(function));
        let writes = self.0.iter().filter(is_of);
        let landed = writes.map(|write| write.landed_in(found));
        landed.fold(Landed::default(), |all, one| Landed {
            status: all.status || one.status,
            rest: all.rest || one.rest,
        })
    }
}

impl UnsureWrite {
    /// Returns which part of this write `found` has.
    fn landed_in(&self, found: &Value) -> Landed {
        let operations = &self.operations;
        let [status, rest] = [true, false].map(|it| operations.hold_in(it, !it, found));
        // An empty part counts as landed only if the other part has landed, since on its own it proves nothing.
        Landed {
            status: status && (rest || operations.has(true)),
            rest: rest && (status || operations.has(false)),
        }
    }
}

impl Landed {
    /// Removes the landed part from what a function has made of `before` once more.
    fn take_out(self, before: &Value, changed: &mut Value) {
        let made = changed.clone();
        if self.rest {
            changed.clone_from(before);
        }
        if self.rest != self.status {
            put_status(if self.status { before } else { &made }, changed);
        }
    }
}

fn put_status(from: &Value, to: &mut Value) {
    if let Some(members) = to.as_object_mut() {
        match from.get("status") {
            Some(status) => members.insert("status".to_owned(), status.clone()),
            None => members.remove("status"),
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns what a function that adds to a list of each stanza makes of `found`, after its changes to an object with empty lists may have
    /// landed.
    fn left(found: &Value) -> Value {
        let push = |object: &mut Value| {
            for stanza in ["spec", "status"] {
                let items = object[stanza]["items"].as_array_mut();
                items.expect("a list").push(json!("one"));
            }
        };
        let mut patch = Patch::new();
        patch.transform(push);
        let before = lists(&[], &[]);
        let mut after = before.clone();
        push(&mut after);
        let mut unsure = UnsureWrites::default();
        unsure.add(Operations::between(&before, &after), &patch);
        let mut changed = found.clone();
        push(&mut changed);
        let function = &patch.functions()[0];
        unsure.take_out_landed(function, found, (found, &mut changed));
        unsure.settle(&patch);
        assert!(unsure.0.is_empty());
        changed
    }

    fn lists(spec: &[&str], status: &[&str]) -> Value {
        json!({"spec": {"items": spec}, "status": {"items": status}})
    }

    #[test]
    fn what_has_landed_is_not_made_twice() {
        let whole = lists(&["one"], &["one"]);
        for found in [lists(&[], &[]), lists(&["one"], &[]), lists(&[], &["one"]), whole.clone()] {
            assert_eq!(left(&found), whole, "{found}");
        }
        let others = lists(&["theirs"], &["one"]);
        assert_eq!(left(&others), lists(&["theirs", "one"], &["one"]));
    }
}
