//! Protobuf bodies from Go clients, and the stored form of built-in objects.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{MAPS, ask, done, get, map};
use kopf_rs_apiserver::ApiServer;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Returns a protobuf field of bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    [&[number << 3 | 2, length], content].concat()
}

fn envelope(version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let meta = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, message)].concat()
}

async fn send(server: &ApiServer, method: &str, uri: &str, body: Vec<u8>) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", PROTOBUF)
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = server.service().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test]
async fn an_object_may_come_as_protobuf() {
    let server = ApiServer::new();
    let entry = [field(1, b"key"), field(2, b"value")].concat();
    let message = [field(1, &field(1, b"m")), field(2, &entry)].concat();
    let (code, made) = send(&server, "POST", MAPS, envelope("v1", "ConfigMap", &message)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["metadata"]["name"], "m");
    assert_eq!(made["data"], json!({"key": "value"}));

    let wrong = envelope("v1", "DeleteOptions", &field(2, &field(1, b"another uid")));
    let uri = format!("{MAPS}/m");
    assert_eq!(send(&server, "DELETE", &uri, wrong).await.0, 409);
    let uid = made["metadata"]["uid"].as_str().unwrap();
    let right = envelope("v1", "DeleteOptions", &field(2, &field(1, uid.as_bytes())));
    assert_eq!(send(&server, "DELETE", &uri, right).await.0, 200);
    assert_eq!(get(&server, &uri).await.0, 404);
}

#[tokio::test]
async fn unreadable_protobuf_is_refused_as_the_real_server_does() {
    let server = ApiServer::new();
    for (body, expected) in [
        (&b""[..], "empty data (<empty>)"),
        (
            b"x",
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (78)",
        ),
        (b"k8s\0", "empty body (6b387300)"),
        (
            b"k8s\0garbage",
            "proto: illegal wireType 7 (6b38730067617262616765)",
        ),
    ] {
        let (code, status) = send(&server, "POST", MAPS, body.to_vec()).await;
        assert_eq!(code, 400);
        let start = "the object provided is unrecognized (must be of type ConfigMap): ";
        assert_eq!(status["message"], format!("{start}{expected}"));
    }
}

#[tokio::test]
async fn unknown_and_repeated_fields_are_told_in_their_order() {
    let server = ApiServer::new();
    let text = r#"{"metadata":{"name":"d","name":"e","foo":1},"zoo":1,"data":{"a":"1","a":"2"},"bar":2,"bar":3}"#;
    let request = Request::post(format!("{MAPS}?fieldValidation=Strict"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(text)))
        .unwrap();
    let response = server.service().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 400);
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        status["message"],
        r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: duplicate field "metadata.name", unknown field "metadata.foo", unknown field "zoo", duplicate field "data.a", unknown field "bar""#
    );
}

#[tokio::test]
async fn objects_that_come_with_the_server_are_checked_and_completed() {
    let server = ApiServer::new();
    let mut body = map("m");
    body["data"] = json!({"a": 1});
    let (code, status) = ask(&server, "POST", MAPS, body).await;
    assert_eq!(code, 400);
    assert_eq!(
        status["message"],
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    );
    let quota =
        json!({"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "1.5", "memory": "1024Mi"}}});
    let uri = "/api/v1/namespaces/default/resourcequotas";
    let made = done(&server, "POST", uri, quota).await;
    let hard = json!({"cpu": "1500m", "memory": "1Gi"});
    assert_eq!(made["spec"]["hard"], hard);
    assert_eq!(made["status"], json!({}));
}
