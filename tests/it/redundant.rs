//! Values that the server normalises on write: a handler that sets the same value again and again must cost one write.
//!
//! `KOPF_RS_SEEDS=1-40` plays other seeds than the default ones: each stands for a few fields with random schemas, and a few objects with
//! random values.

use std::collections::BTreeMap;
use std::sync::Arc;

use kopf_rs::{Callback, Context, Patch, Registry};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Map, Value, json};

use crate::operating::{TestOperator, definition};
use crate::random::dice::Dice;

scenarios! {
    the_same_values_again_cost_one_write;
    values_that_builtin_types_rewrite_cost_one_write;
    a_value_that_another_client_changes_is_written_again [memory];
}

const SEEDS: &str = "1-4";
const FIELDS: usize = 10;
const OBJECTS: usize = 4;
/// The number of timer calls per object.
const CALLS: usize = 5;

/// The values that a timer sets on one object.
#[derive(Clone)]
struct Wish {
    /// By stanza and field.
    values: BTreeMap<&'static str, Map<String, Value>>,
    by_function: bool,
}

impl Wish {
    fn put_into(&self, patch: &mut Patch) {
        if !self.by_function {
            patch.merge(json!(self.values));
            return;
        }
        let values = self.values.clone();
        patch.transform(move |object| {
            for (stanza, fields) in &values {
                for (field, value) in fields {
                    object[*stanza][field] = value.clone();
                }
            }
        });
    }

    /// Returns the number of its requests: one for the status, one for the rest.
    fn parts(&self) -> usize {
        self.values.len()
    }
}

/// Returns a schema and values to send for it.
fn field(dice: &mut Dice) -> (Value, Vec<Value>) {
    let port = json!({"type": "object", "properties": {
        "port": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
        "weight": {"type": "number", "default": 1},
        "note": {"type": "string", "nullable": true},
    }});
    let fields = [
        (
            json!({"type": "number"}),
            vec![
                json!(50.0),
                json!(-3.0),
                json!(0.1),
                json!(1e15),
                json!(2.5e-7),
                json!(9_223_372_036_854_775_809_u64),
            ],
        ),
        (json!({"type": "integer"}), vec![json!(1), json!(9_007_199_254_740_993_u64)]),
        (json!({"type": "string", "default": "a"}), vec![json!(null), json!("a"), json!("b")]),
        (json!({"type": "string", "nullable": true}), vec![json!(null), json!("x")]),
        (
            json!({"type": "array", "items": port}),
            vec![
                json!([{"port": 80}]),
                json!([{"port": 80, "protocol": null, "weight": 2.0}, {"note": null}]),
                json!([{"port": 80, "unknown": 1}]),
                json!([]),
            ],
        ),
        (
            json!({"type": "array", "items": {"type": "number"}}),
            vec![json!([1.0, 2.5]), json!([10_000_000_000_000_000_001_u64])],
        ),
        (json!({"x-kubernetes-int-or-string": true}), vec![json!(5), json!("5"), json!("50%")]),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            vec![json!({"a": 1.0, "l": [null, {"d": null}]}), json!({"b": {"c": null}}), json!({})],
        ),
        (
            json!({"type": "object", "default": {}, "properties": {
                "x": {"type": "integer", "default": 1},
                "y": {"type": "string"},
            }}),
            vec![json!(null), json!({}), json!({"y": "b"}), json!({"x": null})],
        ),
    ];
    dice.pick(&fields).clone()
}

/// Returns the seeds to play.
fn seeds() -> Vec<u64> {
    let wanted = std::env::var("KOPF_RS_SEEDS").unwrap_or_else(|_| SEEDS.to_owned());
    let number = |text: &str| -> u64 { text.parse().expect("seeds such as 7 or 1-40") };
    let (first, last) = wanted.split_once('-').unwrap_or((&wanted, &wanted));
    (number(first)..=number(last)).collect()
}

/// Adds the fields of all seeds to the definition, and returns the values to set on each object.
fn fields_and_wishes(definition: &mut Value) -> BTreeMap<String, Wish> {
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"] = json!({
        "spec": {"type": "object", "properties": {}},
        "status": {"type": "object", "properties": {"heartbeat": {"type": "integer"}}},
    });
    let mut wishes = BTreeMap::new();
    for seed in seeds() {
        let mut dice = Dice::new(seed);
        let mut fields = Vec::new();
        for number in 0..FIELDS {
            let (name, stanza) = (format!("f{seed}x{number}"), ["spec", "status"][number % 2]);
            let (of_field, values) = field(&mut dice);
            // Some are not in the schema, so the server prunes them.
            if !dice.one_in(8) {
                schema["properties"][stanza]["properties"][&name] = of_field;
            }
            fields.push((stanza, name, values));
        }
        for number in 0..OBJECTS {
            let mut wish = Wish { values: BTreeMap::new(), by_function: dice.one_in(2) };
            for _ in 0..=dice.roll(4) {
                let (stanza, name, values) = dice.pick(&fields);
                let value = dice.pick(values).clone();
                let of_stanza = wish.values.entry(*stanza).or_default();
                of_stanza.insert(name.clone(), value);
            }
            wishes.insert(format!("o{seed}x{number}"), wish);
        }
    }
    wishes
}

/// Returns a timer that sets the same values on its object at each call.
fn wishing(test: &TestOperator, wishes: &Arc<BTreeMap<String, Wish>>) -> Callback {
    let wishes = wishes.clone();
    let timer = test.handler("t", move |context: Context| {
        let wish = wishes.get(context.name()).cloned();
        async move {
            if let Some(wish) = wish {
                context.patch(|patch| wish.put_into(patch));
            }
            Ok(Value::Null)
        }
    });
    timer.interval(0.3)
}

/// Waits until the timer has been called a number of times for each of these objects.
async fn called(test: &TestOperator, names: impl Iterator<Item = &String> + Clone, times: usize) {
    loop {
        let calls = test.calls.all();
        let is_called = |name: &String| {
            let call = format!("t {name}");
            calls.iter().filter(|it| **it == call).count() >= times
        };
        if names.clone().all(is_called) {
            return;
        }
        test.calls.until(calls.len() + 1).await;
    }
}

async fn the_same_values_again_cost_one_write(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let mut crd = definition(&test.group);
    let wishes = Arc::new(fields_and_wishes(&mut crd));
    test.cluster.apply(&crd.to_string()).await;
    let working = test.start(Registry::new().timer(test.selector(), wishing(&test, &wishes)));
    for name in wishes.keys() {
        test.create(name, json!({})).await;
    }
    called(&test, wishes.keys(), 2).await;
    // Other clients keep changing the status and labels, which does not affect the handlers' values.
    for beat in 0..3 {
        for name in wishes.keys() {
            let status = json!({"status": {"heartbeat": beat}});
            test.patch(&format!("{name}/status"), status).await;
            let label = json!({"metadata": {"labels": {"beat": beat.to_string()}}});
            test.patch(name, label).await;
        }
        called(&test, wishes.keys(), 3 + beat).await;
    }
    called(&test, wishes.keys(), 3 + CALLS).await;
    let mut all = 0;
    for (name, wish) in wishes.iter() {
        let writes = test.all_writes(name).await;
        // One write for the finalizer, the others for the values.
        let most = 1 + wish.parts();
        let kind = test.kind();
        let object = test.get(name).await;
        assert!(
            writes <= most,
            "{writes} writes to {name}, expected at most {most}: {:?} (by function: {}) makes {} and {}: {:#?}",
            wish.values,
            wish.by_function,
            object["spec"],
            object["status"],
            test.cluster.writes_to(&kind, name).await
        );
        all += writes - 1;
    }
    assert!(all >= wishes.len() / 2, "{all} writes of values");
    working.stop().await;
}

/// Covers Secrets with text, Services without protocols, and quantities.
async fn values_that_builtin_types_rewrite_cost_one_write(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let wishes = [
        ("secrets", json!({"stringData": {"a": "x"}})),
        ("services", json!({"spec": {"ports": [{"port": 80}]}})),
        ("resourcequotas", json!({"spec": {"hard": {"cpu": "0.5"}}})),
        ("configmaps", json!({"data": {"gone": null}, "binaryData": null})),
    ];
    let objects = [
        json!({"kind": "Secret", "type": "Opaque"}),
        json!({"kind": "Service", "spec": {"ports": [{"port": 81}]}}),
        json!({"kind": "ResourceQuota", "spec": {"hard": {"cpu": "1"}}}),
        json!({"kind": "ConfigMap", "data": {"a": "b"}}),
    ];
    let mut registry = Registry::new();
    for (plural, wish) in wishes.clone() {
        let timer = test.handler("t", move |context: Context| {
            let wish = wish.clone();
            async move {
                if context.name() == "a" {
                    context.patch(|patch| patch.merge(wish));
                }
                Ok(Value::Null)
            }
        });
        registry = registry.timer(plural, timer.interval(0.3).annotation("wanted", plural));
    }
    let working = test.start(registry);
    for ((plural, _), mut object) in wishes.iter().zip(objects) {
        object["apiVersion"] = json!("v1");
        object["metadata"] = json!({"name": "a", "annotations": {"wanted": plural}});
        test.cluster.create(&object).await;
    }
    let name = "a".to_owned();
    called(&test, std::iter::once(&name), 4 * CALLS).await;
    working.stop().await;
    for (plural, _) in wishes {
        let writes = test.cluster.writes_to(plural, "a").await;
        assert!((1..=2).contains(&writes.len()), "{plural}: {writes:#?}");
    }
}

/// The memory of sent values must not suppress necessary writes.
async fn a_value_that_another_client_changes_is_written_again(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let mut crd = definition(&test.group);
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    for stanza in ["spec", "status"] {
        schema[stanza] = json!({"type": "object", "properties": {
            "ports": {"type": "array", "items": {"type": "object", "properties": {
                "port": {"type": "integer"},
                "protocol": {"type": "string", "default": "TCP"},
            }}},
        }});
    }
    test.cluster.apply(&crd.to_string()).await;
    let timer = test.handler("t", |context: Context| async move {
        context.patch(|patch| {
            patch.set("spec.ports", json!([{"port": 80}]));
            patch.set("status.ports", json!([{"port": 80}]));
        });
        Ok(Value::Null)
    });
    let working = test.start(Registry::new().timer(test.selector(), timer.interval(0.3)));
    test.create("a", json!({})).await;
    let is_80 = |object: &Value| {
        let stanzas = [&object["spec"], &object["status"]];
        stanzas.iter().all(|it| it["ports"][0]["port"] == 80)
    };
    test.until("both are written", "a", is_80).await;
    let theirs = json!({"ports": [{"port": 81}]});
    test.patch("a", json!({"spec": theirs.clone()})).await;
    test.until("the spec is written again", "a", is_80).await;
    test.patch("a/status", json!({"status": theirs})).await;
    test.until("the status is written again", "a", is_80).await;
    working.stop().await;
}
