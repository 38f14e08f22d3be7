//! TCP with TLS, using the printed kubeconfig, in real time.

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kopf_rs_apiserver::{ApiServer, Listening};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

pub(crate) async fn client(listening: &Listening, token: Option<&str>) -> Client {
    let mut text = listening.kubeconfig();
    if let Some(token) = token {
        text = text.replace(listening.token(), token);
    }
    let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn an_object_lives_and_dies_over_tcp() {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let client = client(&listening, None).await;
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let watch = maps.watch(&WatchParams::default(), "0").await.unwrap();
    let mut watch = watch.boxed();

    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "m"}, "data": {"a": "1"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    maps.patch(
        "m",
        &PatchParams::default(),
        &Patch::Merge(json!({"data": {"b": "2"}})),
    )
    .await
    .unwrap();
    maps.delete("m", &DeleteParams::default()).await.unwrap();

    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(match watch.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            // Bookmarks report the progress of the watch, and the end of the initial objects.
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(_) => "error",
        });
    }
    assert_eq!(seen, ["added", "modified", "deleted"]);

    listening.shutdown().await;
    assert!(
        watch.try_next().await.unwrap().is_none(),
        "a graceful end ends watches"
    );
    assert!(client.apiserver_version().await.is_err());
}

#[tokio::test]
async fn a_wrong_token_is_unauthorized() {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client(&listening, Some("wrong")).await);
    let error = pods
        .list(&kube::api::ListParams::default())
        .await
        .unwrap_err();
    let kube::Error::Api(status) = error else {
        panic!("{error}");
    };
    assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized"));
    assert_eq!(server.journal().entries()[0].code, 401);
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let error = server.listen(listening.addr()).await.unwrap_err();
    let start = format!("failed to listen on {}: ", listening.addr());
    assert!(error.to_string().starts_with(&start), "{error}");
}

#[tokio::test]
async fn certificates_are_valid_wherever_the_clock_has_jumped_to() {
    let server = ApiServer::new();
    server.jump_clock(400 * 24 * 3600);
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    assert_eq!(
        client(&listening, None)
            .await
            .apiserver_version()
            .await
            .unwrap()
            .minor,
        "36"
    );
    assert!(!format!("{listening:?} {server:?}").contains(listening.token()));
}
