//! Validates the replica counts and the selector that the scale subresource reads from an object.
//!
//! Errors name the path as the definition writes it. Independent of schemas.

use serde_json::Value;

use super::go;
use crate::kind::Scale;
use crate::object::Body;
use crate::status::Cause;

/// Validates the values at the paths of a scale; `spec` includes the desired replica count.
pub(crate) fn check(scale: &Scale, body: &Body, spec: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let wanted = Some(&scale.spec).filter(|_| spec);
    for path in wanted.into_iter().chain([&scale.status]) {
        causes.extend(number(body, path));
    }
    if let Some(path) = &scale.selector
        && let Err(why) = leaf(body, path, "string", Value::is_string)
    {
        causes.push(Cause::invalid(path.as_str(), &"".into(), &why));
    }
    causes
}

fn number(body: &Body, path: &str) -> Option<Cause> {
    let found = match leaf(body, path, "int64", Value::is_i64) {
        Ok(found) => found.and_then(Value::as_i64).unwrap_or_default(),
        Err(why) => return Some(Cause::invalid(path, &0.into(), &why)),
    };
    let message = if found < 0 {
        "should be a non-negative integer".to_owned()
    } else if found > i64::from(i32::MAX) {
        format!("should be less than or equal to {}", i32::MAX)
    } else {
        return None;
    };
    Some(Cause::invalid(path, &found.into(), &message))
}

/// Returns the value at a path, or an error if it has another type than wanted.
pub(crate) fn leaf<'a>(
    body: &'a Body,
    path: &str,
    wanted: &str,
    fits: impl Fn(&Value) -> bool,
) -> Result<Option<&'a Value>, String> {
    let names: Vec<&str> = path.trim_start_matches('.').split('.').collect();
    let wrong = |end: usize, found: &Value, wanted: &str| {
        let path = names[..end].join(".");
        format!(
            ".{path} accessor error: {} is of the type {}, expected {wanted}",
            go::value(found),
            go::type_of(found)
        )
    };
    let mut found = body.get(names[0]);
    for (at, name) in names.iter().enumerate().skip(1) {
        found = match found {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(map)) => map.get(*name),
            Some(other) => return Err(wrong(at + 1, other, "map[string]interface{}")),
        };
    }
    match found {
        Some(found) if !fits(found) => Err(wrong(names.len(), found, wanted)),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_by_table() {
        for (body, expected) in [
            (json!({}), ""),
            (json!({"spec": {"n": 3}}), ""),
            (
                json!({"spec": {"n": -1}}),
                "Invalid value: -1: should be a non-negative integer",
            ),
            (
                json!({"spec": {"n": "x"}}),
                "Invalid value: 0: .spec.n accessor error: x is of the type string, expected int64",
            ),
            (
                json!({"spec": 1}),
                "Invalid value: 0: .spec.n accessor error: 1 is of the type int64, expected map[string]interface{}",
            ),
        ] {
            let found = number(body.as_object().unwrap(), ".spec.n");
            assert_eq!(
                found.map(|cause| cause.message).unwrap_or_default(),
                expected
            );
        }
    }
}
