//! Restores preserved fields into an object as far as that is safe, because any user may have written the annotation.
//!
//! A field is restored if the schema of the version accepts it, if functions can read the resulting object, and if it
//! does not change the object in the version that it came from: fields that this version can express are
//! authoritative there. This module guarantees a limit on the number of conversions that it tries.

use crate::conversion::graph::ConvertedKind;
use crate::conversion::lost::Lost;
use crate::conversion::rules::Rules;
use crate::conversion::stanza::{Step, over};
use serde_json::Value;
use std::collections::BTreeSet;

/// The maximum number of additional conversions that search for fields which cannot be restored.
pub(super) const TRIES: usize = 24;

/// The two versions of an object.
#[derive(Clone, Copy)]
pub(super) struct Between<'a> {
    pub(super) kind: &'a ConvertedKind,
    pub(super) rules: &'a Rules,
    /// The version of the object into which fields are restored.
    pub(super) version: &'a str,
    pub(super) other: &'a str,
    /// The same object in the other version.
    pub(super) counterpart: &'a Value,
}

/// An object with restored fields.
pub(super) struct Restored {
    pub(super) object: Value,
    /// Its conversion to the other version.
    pub(super) back: Option<Step>,
    /// The fields that could not be restored, because functions cannot read the object with them or its schema refuses them.
    pub(super) left: Vec<Lost>,
}

struct Restorer<'a> {
    between: Between<'a>,
    restored: Restored,
    /// The schema violations before restoring.
    faults: BTreeSet<String>,
    /// The differences of the counterpart before restoring.
    hidden: Vec<Lost>,
    tries: usize,
}

enum Verdict {
    Taken,
    /// The schema refuses it, or no function can read it.
    Refused,
    /// It would change the object in the other version.
    Visible,
}

impl Between<'_> {
    pub(super) fn restore(self, object: Value, mut carried: Vec<Lost>) -> Restored {
        let mut tried = object.clone();
        carried.retain(|it| self.rules.carries(it));
        let mut was_put_back = Lost::restore(&carried, &mut tried).into_iter();
        carried.retain(|_| was_put_back.next() == Some(true));
        let faults =
            if carried.is_empty() { Some(BTreeSet::new()) } else { self.rules.faults(self.version, &object) };
        let back = self.back(&object);
        let (Some(faults), Some(before)) = (faults, &back) else {
            return Restored { object, back, left: carried };
        };
        let mut restorer = Restorer {
            between: self,
            faults,
            hidden: Lost::sorted(Lost::between(self.counterpart, &before.object)),
            restored: Restored { object, back, left: Vec::new() },
            tries: TRIES,
        };
        restorer.put(&carried);
        restorer.restored
    }

    fn back(&self, object: &Value) -> Option<Step> {
        over(self.kind, self.version, self.other, object.clone())
    }
}

impl Restorer<'_> {
    /// Restores as many of these fields as possible, by bisection.
    fn put(&mut self, carried: &[Lost]) {
        if carried.is_empty() {
            return;
        }
        if self.tries == 0 {
            self.restored.left.extend_from_slice(carried);
            return;
        }
        self.tries -= 1;
        match self.try_all(carried) {
            Verdict::Taken => {}
            Verdict::Visible if carried.len() == 1 => {}
            Verdict::Refused if carried.len() == 1 => {
                self.restored.left.extend_from_slice(carried);
            }
            Verdict::Refused | Verdict::Visible => {
                let (one, other) = carried.split_at(carried.len() / 2);
                self.put(one);
                self.put(other);
            }
        }
    }

    fn try_all(&mut self, carried: &[Lost]) -> Verdict {
        let between = self.between;
        let mut object = self.restored.object.clone();
        Lost::restore(carried, &mut object);
        let faults = between.rules.faults(between.version, &object);
        if faults.is_none_or(|it| !it.is_subset(&self.faults)) {
            return Verdict::Refused;
        }
        let back = between.back(&object);
        let Some(back) = back.filter(|it| it.problem.is_none()) else {
            return Verdict::Refused;
        };
        let differs = Lost::between(between.counterpart, &back.object);
        if !differs.iter().all(|it| it.is_within(&self.hidden)) {
            return Verdict::Visible;
        }
        self.restored.object = object;
        self.restored.back = Some(back);
        Verdict::Taken
    }
}
