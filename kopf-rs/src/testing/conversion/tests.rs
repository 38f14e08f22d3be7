use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::handler::conversion::{Conversion, conversion};

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [host, port]
            properties:
              host: {type: string, minLength: 1, pattern: '^[a-z]+$', enum: [one, two, three]}
              port: {type: integer, minimum: 1, maximum: 65535}
              since: {type: string, format: date-time}
              note: {type: string, nullable: true}
              limit: {x-kubernetes-int-or-string: true}
              large: {type: integer, format: int64}
              ratio: {type: number}
              labels: {type: object, additionalProperties: {type: string}}
              rules:
                type: array
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    weight: {type: integer, default: 1}
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
              tags: {type: array, items: {type: string}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties: {ready: {type: boolean}}
  - name: v1alpha1
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [address]
            properties:
              address: {type: string, enum: ['one:1', 'two:22', 'two:0022', 'three:333']}
              size: {type: integer, nullable: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties: {ready: {type: boolean}}
";

#[derive(Serialize, Deserialize)]
struct Old {
    address: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    free: Value,
}

#[derive(Serialize, Deserialize)]
struct New {
    host: String,
    port: u16,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    free: Value,
}

fn registry(up: Conversion) -> Registry {
    let down = conversion("down", |new: New| {
        Ok(Old { address: format!("{}:{}", new.host, new.port), free: new.free })
    });
    let of = |version| ("example.com", version, "things");
    Registry::new().on_convert(of("v1alpha1"), of("v1"), up).on_convert(of("v1"), of("v1alpha1"), down)
}

fn up() -> Conversion {
    conversion("up", |old: Old| {
        let (host, port) = old.address.split_once(':').ok_or("no port")?;
        Ok(New { host: host.to_owned(), port: port.parse()?, free: old.free })
    })
}

#[test]
fn ten_thousand_objects_come_back_as_they_were() {
    tried(&registry(up()), CRD, 10_000);
}

#[test]
#[should_panic(expected = "an object has changed")]
fn a_visible_default_is_reported() {
    // The conversion turns the default into the size of the other version.
    let of_size =
        CRD.replace("since: {type: string, format: date-time}", "since: {type: integer, default: 5}");
    let up = conversion("up", |spec: Value| Ok(json!({"host": "one", "port": 1, "since": spec["size"]})));
    let down = conversion("down", |spec: Value| Ok(json!({"address": "one:1", "size": spec["since"]})));
    let of = |version| ("example.com", version, "things");
    let registry =
        Registry::new().on_convert(of("v1alpha1"), of("v1"), up).on_convert(of("v1"), of("v1alpha1"), down);
    round_trips(&registry, &of_size);
}

#[test]
#[should_panic(expected = "cannot be converted to example.com/v1: spec: `up` has failed: never")]
fn a_failing_function_is_reported() {
    let up = conversion("up", |_: Value| -> crate::HandlerResult<Value> { Err("never".into()) });
    round_trips(&registry(up), CRD);
}

#[test]
#[should_panic(expected = "objects of things.example.com cannot be converted from v1 to v2")]
fn missing_conversions_are_reported() {
    round_trips(&registry(up()), &CRD.replace("- name: v1alpha1", "- name: v2"));
}
