//! Literal requests, and the real server's answers to them.

use serde_json::{Value, json};

use super::{APPS, MAPS, app, ask, ask_as, done, get, map, with_crd};
use kopf_rs_apiserver::ApiServer;

#[tokio::test]
async fn discovery_lists_custom_kinds_in_both_forms() {
    let server = with_crd().await;
    let (_, list) = get(&server, "/apis/demo.example/v1").await;
    let names: Vec<&str> = list["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["myapps", "myapps/status"]);
    assert_eq!(list["resources"][0]["shortNames"], json!(["ma"]));
    assert_eq!(list["resources"][0]["singularName"], "myapp");
    let (_, groups) = get(&server, "/apis").await;
    let newest = groups["groups"].as_array().unwrap().last().unwrap();
    assert_eq!(
        newest["preferredVersion"]["groupVersion"],
        "demo.example/v1"
    );
    let request = http::Request::get("/apis")
        .header(
            "accept",
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
        )
        .body(http_body_util::Full::new(bytes::Bytes::new()))
        .unwrap();
    let response = tower::ServiceExt::oneshot(server.service(), request)
        .await
        .unwrap();
    assert_eq!(
        response.headers()["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
}

#[tokio::test]
async fn unknown_paths_and_objects_are_not_found() {
    let server = with_crd().await;
    assert_eq!(
        get(&server, "/apis/nope/v1/foos").await,
        (404, Value::from("404 page not found\n"))
    );
    let (code, status) = get(&server, "/api/v1/namespaces/default/foos").await;
    assert_eq!(
        (code, &status["message"]),
        (
            404,
            &json!("the server could not find the requested resource")
        )
    );
    let (code, status) = get(&server, &format!("{APPS}/x")).await;
    assert_eq!(code, 404);
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404, "reason": "NotFound",
            "message": "myapps.demo.example \"x\" not found",
            "details": {"name": "x", "group": "demo.example", "kind": "myapps"},
        })
    );
    let (code, status) = ask(
        &server,
        "POST",
        "/api/v1/namespaces/nowhere/configmaps",
        map("m"),
    )
    .await;
    assert_eq!(
        (code, &status["message"]),
        (404, &json!("namespaces \"nowhere\" not found"))
    );
}

#[tokio::test]
async fn the_same_name_twice_already_exists() {
    let server = with_crd().await;
    let made = done(&server, "POST", APPS, app("x")).await;
    assert_eq!(made["metadata"]["generation"], 1);
    assert!(made["metadata"]["uid"].is_string());
    let (code, status) = ask(&server, "POST", APPS, app("x")).await;
    assert_eq!(code, 409);
    assert_eq!(status["reason"], "AlreadyExists");
    assert_eq!(
        status["message"],
        "myapps.demo.example \"x\" already exists"
    );
}

#[tokio::test]
async fn names_are_generated_and_checked() {
    let server = ApiServer::new();
    let mut body = map("");
    body["metadata"] = json!({"generateName": "run-"});
    let made = done(&server, "POST", MAPS, body).await;
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("run-") && name.len() == 9, "{name}");
    let (code, status) = ask(&server, "POST", MAPS, map("Bad_Name")).await;
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123"), "{message}");
}

#[tokio::test]
async fn strategic_patches_are_for_built_in_kinds_only() {
    let server = with_crd().await;
    done(&server, "POST", APPS, app("x")).await;
    let kind = "application/strategic-merge-patch+json";
    let (code, _) = ask_as(&server, "PATCH", &format!("{APPS}/x"), kind, json!({})).await;
    assert_eq!(code, 415);
    done(&server, "POST", MAPS, map("m")).await;
    let (code, answer) = ask_as(
        &server,
        "PATCH",
        &format!("{MAPS}/m"),
        kind,
        json!({"data": {"b": "2"}}),
    )
    .await;
    assert_eq!((code, &answer["data"]), (200, &json!({"a": "1", "b": "2"})));
}

#[tokio::test]
async fn yaml_bodies_are_read() {
    let server = ApiServer::new();
    let request = http::Request::post(MAPS)
        .header("content-type", "application/yaml")
        .body(http_body_util::Full::new(bytes::Bytes::from(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: \"1\"}\n",
        )))
        .unwrap();
    let response = tower::ServiceExt::oneshot(server.service(), request)
        .await
        .unwrap();
    let bytes = http_body_util::BodyExt::collect(response.into_body())
        .await
        .unwrap()
        .to_bytes();
    let made: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(made["data"], json!({"a": "1"}), "{made}");
}

#[tokio::test]
async fn pages_of_a_list_show_one_revision() {
    let server = ApiServer::new();
    for name in ["a", "b", "c", "d"] {
        done(&server, "POST", MAPS, map(name)).await;
    }
    let (_, first) = get(&server, &format!("{MAPS}?limit=2")).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    done(&server, "DELETE", &format!("{MAPS}/c"), Value::Null).await;
    done(&server, "POST", MAPS, map("e")).await;
    let next = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = get(&server, &format!("{MAPS}?limit=5&continue={next}")).await;
    let names: Vec<_> = second["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["c", "d"]);
    assert_eq!(
        first["metadata"]["resourceVersion"],
        second["metadata"]["resourceVersion"]
    );
    assert_eq!(
        first["items"][0].get("kind"),
        None,
        "built-in kinds are not named in lists"
    );
    server.compact();
    let (code, status) = get(&server, &format!("{MAPS}?limit=5&continue={next}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
}

#[tokio::test]
async fn selectors_narrow_lists() {
    let server = ApiServer::new();
    for (name, tier) in [("a", "web"), ("b", "db")] {
        let mut body = map(name);
        body["metadata"]["labels"] = json!({"tier": tier});
        done(&server, "POST", MAPS, body).await;
    }
    for (query, expected) in [
        ("labelSelector=tier%3Dweb", json!(["a"])),
        ("labelSelector=tier%20in%20(web,db)", json!(["a", "b"])),
        ("fieldSelector=metadata.name%3Db", json!(["b"])),
        ("fieldSelector=metadata.name!%3Db", json!(["a"])),
    ] {
        let (_, list) = get(&server, &format!("{MAPS}?{query}")).await;
        let names: Vec<_> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| i["metadata"]["name"].clone())
            .collect();
        assert_eq!(Value::from(names), expected, "{query}");
    }
    let (code, _) = get(&server, &format!("{MAPS}?fieldSelector=data.a%3D1")).await;
    assert_eq!(code, 400);
}
