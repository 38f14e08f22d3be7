//! Performs one conversion step between two versions by the users' functions: part by part, including incomplete parts.
//!
//! Always yields an object. This module does not know which fields are lost.

use serde_json::{Map, Value, json};

use crate::conversion::graph::{ConvertedKind, Pair};
use crate::conversion::partial::Filled;
use crate::handler::conversion::{ConversionFunction, Filler, NotConverted};

/// An object in another version.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) object: Value,
    /// True if all fields that functions require were present.
    pub(crate) is_complete: bool,
    /// The reason why a part of it is empty.
    pub(crate) problem: Option<String>,
}

/// The result of converting a part.
enum Part {
    Whole(Option<Value>),
    /// An incomplete part, with the results that do not depend on missing fields.
    Incomplete(Option<Value>),
    Bad(String),
}

/// Converts the object along the path between these two versions, if there is one.
pub(crate) fn over(kind: &ConvertedKind, from: &str, to: &str, object: Value) -> Option<Step> {
    let start = Step { object, is_complete: true, problem: None };
    let way = kind.way(from, to)?;
    Some(way.into_iter().fold(start, |before, pair| {
        let mut after = step(kind, pair, before.object);
        after.is_complete &= before.is_complete;
        after.problem = before.problem.or(after.problem);
        after
    }))
}

/// Converts the object in one step.
pub(crate) fn step(kind: &ConvertedKind, pair: &Pair, mut object: Value) -> Step {
    let (mut is_complete, mut problem) = (true, None);
    for function in &pair.functions {
        let outcome = match function.part.member() {
            Some(member) => match object.get(member) {
                None | Some(Value::Null) => continue,
                Some(part) => converted(function, part),
            },
            None => converted(function, &whole(&object)),
        };
        let converted = match outcome {
            Part::Whole(converted) => converted,
            Part::Incomplete(converted) => {
                is_complete = false;
                converted
            }
            Part::Bad(why) => {
                let place = function.part.member().unwrap_or("it");
                problem.get_or_insert_with(|| format!("{place}: {why}"));
                function.part.member().map(|_| json!({}))
            }
        };
        let Value::Object(members) = &mut object else {
            continue;
        };
        match (function.part.member(), converted) {
            (Some(member), Some(converted)) => {
                members.insert(member.to_owned(), converted);
            }
            (Some(member), None) => {
                members.remove(member);
            }
            (None, converted) => replace(members, converted),
        }
    }
    if let Value::Object(members) = &mut object {
        let version = format!("{}/{}", kind.group, pair.to);
        members.insert("apiVersion".to_owned(), version.into());
    }
    Step { object, is_complete, problem }
}

/// Returns the object in the form for functions of whole objects.
fn whole(object: &Value) -> Value {
    let mut whole = object.clone();
    if let Value::Object(members) = &mut whole {
        let metadata = members.entry("metadata").or_insert(Value::Null);
        if metadata.is_null() {
            *metadata = json!({});
        }
        if let Value::Object(metadata) = metadata {
            metadata.remove("managedFields");
        }
    }
    whole
}

/// Replaces the object by the function's result, except for the fields that identify it.
fn replace(members: &mut Map<String, Value>, converted: Option<Value>) {
    let mut converted = match converted {
        Some(Value::Object(converted)) => converted,
        _ => Map::new(),
    };
    members.retain(|name, _| matches!(name.as_str(), "kind" | "metadata"));
    let said = converted.remove("metadata");
    for name in ["labels", "annotations"] {
        let said = said.as_ref().and_then(|it| it.get(name));
        let Some(Value::Object(metadata)) = members.get_mut("metadata") else {
            break;
        };
        match said {
            Some(said) => metadata.insert(name.to_owned(), said.clone()),
            None => metadata.remove(name),
        };
    }
    converted.remove("kind");
    members.extend(converted);
}

fn converted(function: &ConversionFunction, part: &Value) -> Part {
    match function.call(part, None) {
        Ok(converted) => Part::Whole(converted),
        Err(NotConverted::Failed(why)) => Part::Bad(why),
        Err(NotConverted::Unreadable(why)) => match filled(function, part) {
            Some(filled) => Part::Incomplete(filled.common()),
            None => Part::Bad(why),
        },
    }
}

/// Returns the function's results for the part with fillings that it accepts.
fn filled(function: &ConversionFunction, part: &Value) -> Option<Filled> {
    let nothing = json!({});
    Filler::pairs().find_map(|[one, other]| {
        let of = |part, filler| function.call(part, Some(filler)).ok().flatten();
        Some(Filled {
            of_part: [of(part, one)?, of(part, other)?],
            of_nothing: [of(&nothing, one)?, of(&nothing, other)?],
        })
    })
}
