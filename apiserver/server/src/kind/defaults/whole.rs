//! Defaults for resources at the level of the Pod, which follow from its containers.
//!
//! Changes only a Pod that sets such resources itself. Independent of nodes.

use serde_json::{Map, Value};

use crate::object::{Body, text};
use crate::typed::{self, nanos};

type Amounts = Map<String, Value>;

/// Fills in missing requests and limits.
pub(super) fn resources(spec: &mut Body) {
    let Some(Value::Object(whole)) = spec.get("resources") else {
        return;
    };
    let mut whole = whole.clone();
    let list = |whole: &Body, name: &str| {
        whole
            .get(name)
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let (mut limits, mut requests) = (list(&whole, "limits"), list(&whole, "requests"));
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    for (name, amount) in summed(spec, "limits") {
        if name.starts_with("hugepages-") && !requests.contains_key(&name) {
            limits.entry(name).or_insert(amount);
        }
    }
    if !limits.is_empty() {
        let usual = |name: &str| matches!(name, "cpu" | "memory");
        for (name, amount) in summed(spec, "requests") {
            if usual(&name) {
                requests.entry(name).or_insert(amount);
            }
        }
        for (name, amount) in &limits {
            if usual(name) || name.starts_with("hugepages-") {
                requests
                    .entry(name.clone())
                    .or_insert_with(|| amount.clone());
            }
        }
    }
    for (name, list) in [("limits", limits), ("requests", requests)] {
        if !list.is_empty() {
            whole.insert(name.to_owned(), Value::Object(list));
        }
    }
    spec.insert("resources".to_owned(), Value::Object(whole));
}

/// Returns the most resources that the containers need at any one time, including the start of init containers.
pub(crate) fn summed(spec: &Body, list: &str) -> Amounts {
    let containers = |of: &str| spec.get(of).and_then(Value::as_array).into_iter().flatten();
    let of = |container: &Value| {
        container["resources"][list]
            .as_object()
            .cloned()
            .unwrap_or_default()
    };
    let (mut sum, mut lasting, mut first) = (Amounts::new(), Amounts::new(), Amounts::new());
    for container in containers("containers") {
        add(&mut sum, &of(container));
    }
    for container in containers("initContainers") {
        let mut needed = of(container);
        let lasts = container
            .as_object()
            .is_some_and(|map| text(map, "restartPolicy") == "Always");
        if lasts {
            add(&mut sum, &needed);
            add(&mut lasting, &needed);
            needed = lasting.clone();
        } else {
            add(&mut needed, &lasting);
        }
        raise(&mut first, &needed);
    }
    raise(&mut sum, &first);
    sum
}

fn amount(value: &Value) -> i128 {
    value.as_str().and_then(nanos).unwrap_or_default()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, value) in more {
        let slot = sum.entry(name.clone()).or_insert_with(|| "0".into());
        *slot = match amount(slot) {
            0 => value.clone(),
            had => typed::written(
                had.saturating_add(amount(value)),
                slot.as_str().unwrap_or_default(),
            )
            .into(),
        };
    }
}

fn raise(most: &mut Amounts, to: &Amounts) {
    for (name, value) in to {
        match most.get_mut(name) {
            Some(slot) if amount(slot) >= amount(value) => {}
            _ => {
                most.insert(name.clone(), value.clone());
            }
        }
    }
}
