//! Converts `HorizontalPodAutoscaler` between `autoscaling/v1` and `autoscaling/v2`, the stored version.
//!
//! Annotations hold the fields that `v1` lacks, so that a round trip loses nothing. Independent of the store.

use serde_json::{Value, json};

use crate::object::{Body, map_mut, metadata_mut};

const CPU: &str = "targetCPUUtilizationPercentage";
const CURRENT_CPU: &str = "currentCPUUtilizationPercentage";

/// The fields that only `v2` has: the part of the object, the field, and the annotation.
const ANNOTATIONS: [(&str, &str, &str); 4] = [
    ("spec", "metrics", "autoscaling.alpha.kubernetes.io/metrics"),
    (
        "spec",
        "behavior",
        "autoscaling.alpha.kubernetes.io/behavior",
    ),
    (
        "status",
        "currentMetrics",
        "autoscaling.alpha.kubernetes.io/current-metrics",
    ),
    (
        "status",
        "conditions",
        "autoscaling.alpha.kubernetes.io/conditions",
    ),
];

/// Converts from `v1` to `v2`.
pub(super) fn to_second(body: &mut Body) {
    for (part, field, annotation) in ANNOTATIONS {
        let said = map_mut(metadata_mut(body), "annotations").remove(annotation);
        let read = said.and_then(|text| serde_json::from_str(text.as_str()?).ok());
        if let Some(value) = read {
            map_mut(body, part).insert(field.to_owned(), value);
        }
    }
    tidy_annotations(body);
    let cpu = [
        ("spec", CPU, "metrics"),
        ("status", CURRENT_CPU, "currentMetrics"),
    ];
    for (part, field, list) in cpu {
        let Some(value) = map_of(body, part).and_then(|part| part.remove(field)) else {
            continue;
        };
        let resource = if part == "spec" {
            json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": value}})
        } else {
            json!({"name": "cpu", "current": {"averageUtilization": value}})
        };
        let metrics = map_mut(body, part).entry(list).or_insert_with(|| json!([]));
        if let Some(metrics) = metrics.as_array_mut() {
            metrics.push(json!({"type": "Resource", "resource": resource}));
        }
    }
}

/// Converts from `v2` to `v1`.
pub(super) fn to_first(body: &mut Body) {
    let cpu = [
        ("spec", CPU, "metrics", "target"),
        ("status", CURRENT_CPU, "currentMetrics", "current"),
    ];
    for (part, field, list, inner) in cpu {
        let Some(part) = map_of(body, part) else {
            continue;
        };
        let metrics = part.get_mut(list).and_then(Value::as_array_mut);
        let found = metrics.and_then(|metrics| take_cpu(metrics, inner));
        if let Some(value) = found {
            part.insert(field.to_owned(), value);
        }
        if part.get(list) == Some(&json!([])) {
            part.remove(list);
        }
    }
    for (part, field, annotation) in ANNOTATIONS {
        let taken = map_of(body, part).and_then(|part| part.remove(field));
        if let Some(value) = taken.filter(|value| !value.is_null()) {
            let annotations = map_mut(metadata_mut(body), "annotations");
            annotations.insert(annotation.to_owned(), value.to_string().into());
        }
    }
}

/// Removes the first CPU metric and returns its utilization.
fn take_cpu(metrics: &mut Vec<Value>, inner: &str) -> Option<Value> {
    let share = |metric: &Value| {
        let resource = metric.get("resource").filter(|it| it["name"] == "cpu")?;
        resource.get(inner)?.get("averageUtilization").cloned()
    };
    let at = metrics.iter().position(|metric| share(metric).is_some())?;
    share(&metrics.remove(at))
}

fn map_of<'a>(body: &'a mut Body, field: &str) -> Option<&'a mut Body> {
    body.get_mut(field).and_then(Value::as_object_mut)
}

fn tidy_annotations(body: &mut Body) {
    let meta = metadata_mut(body);
    if meta.get("annotations") == Some(&json!({})) {
        meta.remove("annotations");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_is_the_same() {
        let second = json!({
            "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "behavior": {"scaleUp": {}}, "metrics": [
                {"type": "Pods", "pods": {"metric": {"name": "m"}}},
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
            ]},
            "status": {"currentMetrics": null},
        });
        let mut body = second.as_object().unwrap().clone();
        to_first(&mut body);
        assert_eq!(body["spec"], json!({"maxReplicas": 3, CPU: 50}));
        let annotations = body["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(annotations.len(), 2);
        to_second(&mut body);
        assert_eq!(body["spec"], second["spec"]);
        assert_eq!(body["metadata"], second["metadata"]);
    }
}
