//! Match conditions: CEL expressions that decide whether a webhook is called.
//!
//! Guarantees that an evaluation failure is an error and never counts as true. Must not depend on webhooks.

use serde_json::Value as Json;

use crate::cel::{self, Fault, Program, Value};

/// The cost limit of one expression.
const LIMIT: u64 = 1_000_000;

/// Returns whether an expression is true for a request.
pub(super) fn holds(expression: &str, request: &Json) -> Result<bool, String> {
    let program = Program::of(expression)?;
    let part = |name: &str| Ok(Value::plain(request.get(name).unwrap_or(&Json::Null)));
    let names = vec![
        ("object", part("object")),
        ("oldObject", part("oldObject")),
        ("request", Ok(Value::plain(request))),
    ];
    match program.run(names, LIMIT).0 {
        Ok(Value::Bool(truth)) => Ok(truth),
        Ok(_) => Err("must evaluate to bool".to_owned()),
        Err(Fault::Told(why)) => Err(why),
        Err(Fault::Limit) => Err("operation cancelled: actual cost limit exceeded".to_owned()),
    }
}

/// Returns the syntax error of an expression, if it has one.
pub(super) fn flaw(expression: &str) -> Option<String> {
    cel::syntax(expression).err()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_see_the_request_and_its_objects() {
        let request =
            json!({"operation": "CREATE", "object": {"spec": {"replicas": 3}}, "oldObject": null});
        for (expression, expected) in [
            ("request.operation == 'CREATE'", Ok(true)),
            ("object.spec.replicas > 3", Ok(false)),
            ("oldObject == null", Ok(true)),
        ] {
            assert_eq!(holds(expression, &request), expected, "{expression}");
        }
        assert!(holds("object.nope == 1", &request).is_err());
        assert!(flaw("object.(").is_some());
    }
}
