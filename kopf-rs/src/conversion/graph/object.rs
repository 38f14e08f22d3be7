//! Converts one object to another version of its kind without loss.
//!
//! At each step, converting back reveals the fields that the version cannot express, and an annotation preserves
//! them. This module must not depend on reviews.

use serde_json::{Value, json};

use crate::conversion::carrier::{self, places};
use crate::conversion::graph::{ConvertedKind, Pair};
use crate::conversion::lost::Lost;
use crate::conversion::restoring::Between;
use crate::conversion::rules::Rules;
use crate::conversion::stanza::step;

/// A converted object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Converted {
    pub(crate) object: Value,
    /// The reason why a part of it is empty. The annotation preserves the original part.
    pub(crate) problem: Option<String>,
    /// The fields that are neither shown nor preserved, because they are too large.
    pub(crate) omitted: Option<String>,
}

/// The context of a conversion.
#[derive(Clone, Copy)]
struct Passage<'a> {
    kind: &'a ConvertedKind,
    rules: &'a Rules,
    /// True if a loss fails the request, because it writes this object. A read never fails, since that would fail the listing of all other
    /// objects.
    may_refuse: bool,
}

impl ConvertedKind {
    /// Converts the object to the version `desired`, given as `group/version`.
    ///
    /// # Errors
    /// If there is no path to that version, or if the object is being written and fields would be lost.
    pub(crate) fn convert(&self, object: Value, desired: &str, rules: &Rules) -> Result<Converted, String> {
        let version_of = |api_version: &str| {
            let version = api_version.strip_prefix(self.group.as_str());
            let version = version.and_then(|it| it.strip_prefix('/'));
            version.map(str::to_owned).ok_or_else(|| {
                format!(
                    "`{api_version}` is not a version of {}: expected one of the group {}",
                    self.name, self.group
                )
            })
        };
        if !object.is_object() {
            return Err("expected an object".to_owned());
        }
        let to = version_of(desired)?;
        let from = version_of(object["apiVersion"].as_str().unwrap_or_default())?;
        let way = self.way(&from, &to);
        let way = way.ok_or_else(|| {
            let missing = self.missing_between(&[&from, &to]);
            missing.unwrap_or_default()
        })?;
        let passage = Passage {
            kind: self,
            rules,
            may_refuse: rules.is_write(&from) && !object["metadata"]["deletionTimestamp"].is_string(),
        };
        let mut converted = Converted { object, problem: None, omitted: None };
        for pair in way {
            let next = passage.without_loss(pair, converted.object)?;
            converted = Converted {
                object: next.object,
                problem: converted.problem.or(next.problem),
                omitted: converted.omitted.or(next.omitted),
            };
        }
        let metadata = &mut converted.object["metadata"];
        if metadata.is_null() {
            *metadata = json!({});
        }
        Ok(converted)
    }
}

impl Passage<'_> {
    /// Performs one step: restores the preserved fields of the new version, and preserves the fields that it cannot express.
    fn without_loss(&self, pair: &Pair, mut object: Value) -> Result<Converted, String> {
        let has_annotations = object["metadata"]["annotations"].is_object();
        let stale = carrier::take(&mut object, &pair.from).lost;
        let carried = carrier::take(&mut object, &pair.to);
        if let Some(places) = carried.missing.filter(|_| self.may_refuse) {
            return Err(format!(
                "the object is too large to be written in {}: that version does not show what {} has in {places}, and writing it would lose that; \
                 write or delete the object in {}",
                pair.from, pair.to, pair.to
            ));
        }
        let converted = step(self.kind, pair, object.clone());
        let [into_new, into_old] =
            [(&pair.to, &pair.from, &object), (&pair.from, &pair.to, &converted.object)].map(
                |(version, other, counterpart)| Between {
                    kind: self.kind,
                    rules: self.rules,
                    version,
                    other,
                    counterpart,
                },
            );
        // Fields that could be restored into the old version are absent on purpose: the annotation was copied from another object.
        let stale = if stale.is_empty() { stale } else { into_old.restore(object.clone(), stale).left };
        let restored = into_new.restore(converted.object.clone(), carried.lost);
        let mut result = restored.object;
        let mut omitted = None;
        let may_carry = converted.is_complete || converted.problem.is_some() || has_annotations;
        if may_carry
            && is_named(&object)
            && let Some(back) = restored.back
        {
            let mut all = Lost::between(&object, &back.object);
            all.retain(|it| self.rules.carries(it));
            all.extend(stale);
            omitted = self.carry(&mut result, &pair.from, &all)?;
        }
        let also = self.carry(&mut result, &pair.to, &restored.left)?;
        Ok(Converted { object: result, problem: converted.problem, omitted: omitted.or(also) })
    }

    /// Stores lost fields in the object's annotation. If they are too large, a write fails, and a read gets a description of them.
    fn carry(&self, object: &mut Value, version: &str, lost: &[Lost]) -> Result<Option<String>, String> {
        if lost.is_empty() {
            return Ok(None);
        }
        let Err(length) = carrier::put(object, version, lost) else {
            return Ok(None);
        };
        let shown = object["apiVersion"].as_str().unwrap_or_default();
        let omitted = format!(
            "{shown} has no place for what {version} has in {}: {length} bytes are more than an annotation may have",
            places(lost)
        );
        if self.may_refuse {
            return Err(omitted);
        }
        Ok(Some(omitted))
    }
}

/// Returns true for complete objects, existing or new. For fragments of objects, nothing is preserved.
fn is_named(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let names = [&metadata["name"], &metadata["generateName"]];
    names.iter().any(|it| it.as_str().is_some_and(|it| !it.is_empty()))
}

#[cfg(test)]
mod tests;
