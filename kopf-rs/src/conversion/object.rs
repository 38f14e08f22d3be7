//! One object in another version of its kind, with nothing lost.
//!
//! At each step, converting back shows what the version cannot express, and an annotation carries that. Must not know reviews.

use serde_json::{Value, json};

use crate::conversion::carrier;
use crate::conversion::graph::{ConvertedKind, Pair};
use crate::conversion::lost::Lost;
use crate::conversion::stanza::{over, step};

/// An object that is converted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Converted {
    pub(crate) object: Value,
    /// Why a part of it is empty. What it should be is carried.
    pub(crate) problem: Option<String>,
}

/// One by one, only so many places are tried: somebody may have made them up.
const TRIED: usize = 64;

impl ConvertedKind {
    /// The object in the version `desired`, which is written as `group/version`.
    ///
    /// # Errors
    /// Where there is no way to that version, or something would be lost.
    pub(crate) fn convert(&self, object: Value, desired: &str) -> Result<Converted, String> {
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
        let mut converted = Converted {
            object,
            problem: None,
        };
        for pair in way {
            let next = self.without_loss(pair, converted.object)?;
            converted = Converted {
                object: next.object,
                problem: converted.problem.or(next.problem),
            };
        }
        let metadata = &mut converted.object["metadata"];
        if metadata.is_null() {
            *metadata = json!({});
        }
        Ok(converted)
    }

    /// One step. What was carried for the new version is put back, and what it cannot express is carried.
    fn without_loss(&self, pair: &Pair, mut object: Value) -> Result<Converted, String> {
        let has_annotations = object["metadata"]["annotations"].is_object();
        let mut lost = carrier::take(&mut object, &pair.from);
        let carried = carrier::take(&mut object, &pair.to);
        // It could not be put back, and still cannot. All else is a copy of something.
        lost.truncate(TRIED);
        lost.retain(|it| !self.takes(&pair.from, &pair.to, &object, it));
        let converted = step(self, pair, object.clone());
        let mut result = converted.object;
        let left = self.restore(pair, &mut result, carried);
        let may_carry = converted.is_complete || converted.problem.is_some() || has_annotations;
        if may_carry
            && is_named(&object)
            && let Some(back) = over(self, &pair.to, &pair.from, result.clone())
        {
            let mut all = Lost::between(&object, &back.object);
            all.extend(lost);
            carry(&mut result, &pair.from, &all)?;
        }
        carry(&mut result, &pair.to, &left)?;
        Ok(Converted {
            object: result,
            problem: converted.problem,
        })
    }

    /// Put back what was carried, unless functions could not read it. What is left.
    fn restore(&self, pair: &Pair, object: &mut Value, carried: Vec<Lost>) -> Vec<Lost> {
        if carried.is_empty() {
            return carried;
        }
        let is_good = |object: &Value| {
            let back = over(self, &pair.to, &pair.from, object.clone());
            back.is_some_and(|it| it.problem.is_none())
        };
        let mut tried = object.clone();
        for lost in &carried {
            lost.restore(&mut tried);
        }
        if is_good(&tried) {
            *object = tried;
            return Vec::new();
        }
        let mut left = Vec::new();
        for (number, lost) in carried.into_iter().enumerate() {
            let mut tried = object.clone();
            if !lost.restore(&mut tried) {
                continue;
            }
            if number < TRIED && is_good(&tried) {
                *object = tried;
            } else {
                left.push(lost);
            }
        }
        left
    }

    /// Whether the object with that put back could be read, or nothing would be put back.
    fn takes(&self, from: &str, to: &str, object: &Value, lost: &Lost) -> bool {
        let mut tried = object.clone();
        if !lost.restore(&mut tried) {
            return true;
        }
        over(self, from, to, tried).is_none_or(|it| it.problem.is_none())
    }
}

/// Let the object carry what was lost of it.
fn carry(object: &mut Value, version: &str, lost: &[Lost]) -> Result<(), String> {
    if lost.is_empty() {
        return Ok(());
    }
    carrier::put(object, version, lost).map_err(|length| {
        let places: Vec<_> = lost.iter().take(3).map(Lost::place).collect();
        let places = places.join(", ");
        let shown = object["apiVersion"].as_str().unwrap_or_default();
        format!(
            "{shown} has no place for what {version} has in {places}: {length} bytes are more than an annotation may have"
        )
    })
}

/// Whether it is an object, or is to be one: of pieces of objects nothing is carried.
fn is_named(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let names = [&metadata["name"], &metadata["generateName"]];
    names
        .iter()
        .any(|it| it.as_str().is_some_and(|it| !it.is_empty()))
}

#[cfg(test)]
mod tests;
