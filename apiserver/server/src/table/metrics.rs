//! The targets of horizontal Pod autoscalers.
//!
//! Independent of tables.

use serde_json::Value;

use super::cells::items;
use super::find;
use crate::object::Body;

/// Returns the current and target values of the first two metrics, and the number of others.
pub(super) fn targets(body: &Body) -> String {
    let wanted = items(find(body, ".spec.metrics"));
    let current = items(find(body, ".status.currentMetrics"));
    let shown = |(at, spec): (usize, &Value)| target(spec, current.get(at).unwrap_or(&Value::Null));
    let all: Vec<String> = wanted.iter().enumerate().map(shown).collect();
    match all.as_slice() {
        [] => "<none>".to_owned(),
        [one, two, _, ..] => format!("{one}, {two} + {} more...", all.len() - 2),
        few => few.join(", "),
    }
}

fn target(spec: &Value, status: &Value) -> String {
    let field = match spec["type"].as_str().unwrap_or_default() {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => return "<unknown type>".to_owned(),
    };
    let (wanted, current) = (&spec[field]["target"], &status[field]["current"]);
    let text = |value: &Value, absent: &str| value.as_str().unwrap_or(absent).to_owned();
    let average = || text(&current["averageValue"], "<unknown>");
    let is_average = wanted["averageValue"].is_string();
    match field {
        "resource" | "containerResource" => {
            let name = text(&spec[field]["name"], "");
            if is_average {
                return format!(
                    "{name}: {}/{}",
                    average(),
                    text(&wanted["averageValue"], "")
                );
            }
            let percent = |value: &Value, absent: &str| {
                let number = value["averageUtilization"].as_i64();
                number.map_or_else(|| absent.to_owned(), |number| format!("{number}%"))
            };
            let (current, wanted) = (percent(current, "<unknown>"), percent(wanted, "<auto>"));
            format!("{name}: {current}/{wanted}")
        }
        "pods" => format!("{}/{}", average(), text(&wanted["averageValue"], "")),
        _ if is_average => format!("{}/{} (avg)", average(), text(&wanted["averageValue"], "")),
        _ => {
            let current = text(&current["value"], "<unknown>");
            format!("{current}/{}", text(&wanted["value"], "0"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_by_table() {
        let resource = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}});
        let external = json!({"type": "External", "external": {"target": {"value": "10"}}});
        let status = json!([{"resource": {"current": {"averageUtilization": 30}}}]);
        for (metrics, status, expected) in [
            (json!([]), json!([]), "<none>"),
            (json!([resource]), json!([]), "cpu: <unknown>/50%"),
            (
                json!([resource, external]),
                status,
                "cpu: 30%/50%, <unknown>/10",
            ),
            (
                json!([external, external, external]),
                json!([]),
                "<unknown>/10, <unknown>/10 + 1 more...",
            ),
        ] {
            let body = json!({"spec": {"metrics": metrics}, "status": {"currentMetrics": status}});
            assert_eq!(targets(body.as_object().unwrap()), expected);
        }
    }
}
