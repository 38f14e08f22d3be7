//! Custom resource definitions: creation, changes, deletion.

use serde_json::{Value, json};

use super::{APPS, CRD, CRDS, Lines, app, ask, crd, done, get, with_crd};
use kopf_rs_apiserver::ApiServer;

#[tokio::test]
async fn a_definition_is_established_and_served() {
    let server = ApiServer::new();
    assert_eq!(
        get(&server, APPS).await,
        (404, Value::from("404 page not found\n"))
    );
    done(&server, "POST", CRDS, crd()).await;
    let (_, definition) = get(&server, CRD).await;
    let conditions: Vec<String> = definition["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| {
            format!(
                "{}={}",
                c["type"].as_str().unwrap(),
                c["status"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(conditions, ["NamesAccepted=True", "Established=True"]);
    assert_eq!(
        definition["status"]["acceptedNames"]["listKind"],
        "MyAppList"
    );
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(get(&server, APPS).await.1["kind"], "MyAppList");
}

#[tokio::test(start_paused = true)]
async fn instances_go_with_their_definition() {
    let server = with_crd().await;
    done(&server, "POST", APPS, app("x")).await;
    let mut watch = Lines::open(&server, &format!("{APPS}?watch=1")).await;
    assert_eq!(watch.brief().await, "ADDED x");
    done(&server, "DELETE", CRD, Value::Null).await;
    assert_eq!(watch.brief().await, "DELETED x");
    assert_eq!(watch.next().await, None);
    assert_eq!(get(&server, APPS).await.0, 404);
    assert_eq!(get(&server, CRD).await.0, 404);
    done(&server, "POST", CRDS, crd()).await;
    assert_eq!(get(&server, APPS).await.1["items"], json!([]));
}

#[tokio::test]
async fn instances_wait_while_no_version_is_served() {
    let server = with_crd().await;
    let made = done(&server, "POST", APPS, app("x")).await;
    let mut definition = get(&server, CRD).await.1;
    for served in [false, true, false] {
        definition["spec"]["versions"][0]["served"] = json!(served);
        definition = done(&server, "PUT", CRD, definition).await;
        let (code, list) = get(&server, APPS).await;
        assert_eq!(code, if served { 200 } else { 404 });
        if served {
            assert_eq!(list["items"][0]["metadata"]["uid"], made["metadata"]["uid"]);
        }
    }
    done(&server, "DELETE", CRD, Value::Null).await;
    assert_eq!(get(&server, CRD).await.0, 404);
    done(&server, "POST", CRDS, crd()).await;
    assert_eq!(get(&server, APPS).await.1["items"], json!([]));
}

#[tokio::test]
async fn a_finalizer_of_an_instance_holds_the_definition() {
    let server = with_crd().await;
    let mut body = app("x");
    body["metadata"]["finalizers"] = json!(["demo.example/hold"]);
    done(&server, "POST", APPS, body).await;
    done(&server, "DELETE", CRD, Value::Null).await;
    let (_, marked) = get(&server, CRD).await;
    let terminating = marked["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .any(|c| c["type"] == "Terminating");
    assert!(terminating);
    done(
        &server,
        "PATCH",
        &format!("{APPS}/x"),
        json!({"metadata": {"finalizers": []}}),
    )
    .await;
    assert_eq!(get(&server, CRD).await.0, 404);
}

#[tokio::test]
async fn versions_differ_in_their_name_alone() {
    let server = ApiServer::new();
    let mut definition = crd();
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    second.as_object_mut().unwrap().remove("subresources");
    definition["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .push(second);
    done(&server, "POST", CRDS, definition).await;
    done(&server, "POST", APPS, app("x")).await;
    let apps = APPS.replace("/v1/", "/v2/");
    let (_, object) = get(&server, &format!("{apps}/x")).await;
    assert_eq!(object["apiVersion"], "demo.example/v2");
    assert_eq!(object["spec"]["image"], "nginx");
    let (code, status) = ask(&server, "POST", &apps, app("y")).await;
    assert_eq!(code, 400, "{status}");
    assert_eq!(get(&server, &format!("{apps}/x/status")).await.0, 404);
    let (_, list) = get(&server, &apps).await;
    assert_eq!(list["items"][0]["apiVersion"], "demo.example/v2");
    let (_, group) = get(&server, "/apis/demo.example").await;
    assert_eq!(group["preferredVersion"]["version"], "v2");
}
