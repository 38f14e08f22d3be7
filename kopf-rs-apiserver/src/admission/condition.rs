//! Match conditions: expressions in CEL that say whether a webhook wants to know.
//!
//! Promise: what cannot be evaluated is an error, never a yes. Must not know webhooks.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::objects::Key;
use kube_cel::cel::{Context, Program, Value as Cel};
use serde_json::Value;

/// Whether an expression holds for a request.
pub(super) fn holds(expression: &str, request: &Value) -> Result<bool, String> {
    let program = Program::compile(expression).map_err(|errors| errors.to_string())?;
    let mut context = Context::default().with_all();
    let part = |name: &str| request.get(name).unwrap_or(&Value::Null);
    context.add_variable_from_value("object", value(part("object")));
    context.add_variable_from_value("oldObject", value(part("oldObject")));
    context.add_variable_from_value("request", value(request));
    match program.execute(&context) {
        Ok(Cel::Bool(truth)) => Ok(truth),
        Ok(other) => Err(format!(
            "must evaluate to bool but got {:?}",
            other.type_of()
        )),
        Err(why) => Err(why.to_string()),
    }
}

/// Whether an expression can be read at all.
pub(super) fn flaw(expression: &str) -> Option<String> {
    Program::compile(expression)
        .err()
        .map(|errors| errors.to_string())
}

fn value(json: &Value) -> Cel {
    match json {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(number) => number
            .as_i64()
            .map_or_else(|| Cel::Float(number.as_f64().unwrap_or_default()), Cel::Int),
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(value).collect())),
        Value::Object(map) => {
            let entries = map
                .iter()
                .map(|(name, found)| (Key::String(Arc::new(name.clone())), value(found)));
            let map: HashMap<Key, Cel> = entries.collect();
            Cel::Map(map.into())
        }
    }
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
