//! Schemas of custom kinds: pruning, defaults, validation.

use serde_json::{Value, json};

use super::{CRDS, MERGE, ask, ask_as, crd, done, get};
use kopf_rs_apiserver::ApiServer;

const APPS: &str = super::APPS;

async fn server() -> ApiServer {
    let server = ApiServer::new();
    let mut definition = crd();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["image"],
                "properties": {
                    "image": {"type": "string", "maxLength": 8, "pattern": "^[a-z]+$"},
                    "size": {"type": "integer", "minimum": 1, "maximum": 5},
                    "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
                    "port": {"x-kubernetes-int-or-string": true},
                    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "when": {"type": "string", "format": "date-time"},
                },
            },
            "status": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
        },
    });
    done(&server, "POST", CRDS, definition).await;
    server
}

fn app(spec: &Value) -> Value {
    json!({"apiVersion": "demo.example/v1", "kind": "MyApp", "metadata": {"name": "x"}, "spec": spec})
}

#[tokio::test]
async fn refusals_by_table() {
    let server = server().await;
    for (spec, told) in [
        (json!({}), "spec.image: Required value"),
        (json!(null), "spec: Required value"),
        (
            json!({"image": 1}),
            r#"spec.image: Invalid value: "integer": spec.image in body must be of type string: "integer""#,
        ),
        (
            json!({"image": "abcdefghij"}),
            "spec.image: Too long: may not be more than 8 bytes",
        ),
        (
            json!({"image": "ABC"}),
            r#"spec.image: Invalid value: "ABC": spec.image in body should match '^[a-z]+$'"#,
        ),
        (
            json!({"image": "a", "size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            json!({"image": "a", "size": 6}),
            "spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5",
        ),
        (
            json!({"image": "a", "color": "blue"}),
            r#"spec.color: Unsupported value: "blue": supported values: "red", "green""#,
        ),
        (
            json!({"image": "a", "port": true}),
            r#"spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"image": "a", "set": ["a", "a"]}),
            r#"spec.set[1]: Duplicate value: "a""#,
        ),
        (
            json!({"image": "a", "when": "nope"}),
            r#"spec.when: Invalid value: "nope": spec.when in body must be of type date-time: "nope""#,
        ),
    ] {
        let (code, status) = ask(&server, "POST", APPS, app(&spec)).await;
        assert_eq!(code, 422, "{spec}");
        assert_eq!(
            status["message"],
            format!("MyApp.demo.example \"x\" is invalid: {told}")
        );
    }
}

#[tokio::test]
async fn unknown_fields_are_pruned_or_refused() {
    let server = server().await;
    let spec = json!({"image": "a", "what": 1});
    let (code, status) = ask(
        &server,
        "POST",
        &format!("{APPS}?fieldValidation=Strict"),
        app(&spec),
    )
    .await;
    assert_eq!(code, 400);
    assert_eq!(
        status["message"],
        "MyApp in version \"v1\" cannot be handled as a MyApp: strict decoding error: unknown field \"spec.what\""
    );
    let made = done(&server, "POST", APPS, app(&spec)).await;
    assert_eq!(made["spec"], json!({"image": "a", "color": "red"}));
    let (code, status) = ask_as(
        &server,
        "PATCH",
        &format!("{APPS}/x/status"),
        MERGE,
        json!({"status": {"ok": "x"}}),
    )
    .await;
    assert_eq!(code, 422);
    let told = status["message"].as_str().unwrap();
    assert!(
        told.ends_with(
            r#"status.ok: Invalid value: "string": ok in body must be of type boolean: "string""#
        ),
        "{told}"
    );
    let patched = done(
        &server,
        "PATCH",
        &format!("{APPS}/x"),
        json!({"spec": {"color": null}}),
    )
    .await;
    assert_eq!(patched["spec"]["color"], "red");
    assert_eq!(
        get(&server, &format!("{APPS}/x")).await.1["metadata"]["generation"],
        1
    );
}
