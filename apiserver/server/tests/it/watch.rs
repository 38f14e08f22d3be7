//! Watches: their start, their events, their end.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{APPS, Lines, MAPS, app, done, get, map, with_crd};
use kopf_rs_apiserver::ApiServer;

#[tokio::test(start_paused = true)]
async fn a_watch_begins_after_its_revision() {
    let server = with_crd().await;
    let first = done(&server, "POST", APPS, app("a")).await;
    done(&server, "POST", APPS, app("b")).await;
    let revision = first["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = Lines::open(
        &server,
        &format!("{APPS}?watch=1&resourceVersion={revision}"),
    )
    .await;
    assert_eq!(watch.brief().await, "ADDED b");
    done(
        &server,
        "PATCH",
        &format!("{APPS}/a"),
        json!({"spec": {"image": "z"}}),
    )
    .await;
    assert_eq!(watch.brief().await, "MODIFIED a");
    done(&server, "DELETE", &format!("{APPS}/a"), Value::Null).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_ne!(event["object"]["metadata"]["resourceVersion"], revision);
}

#[tokio::test(start_paused = true)]
async fn without_a_revision_it_begins_with_what_there_is() {
    let server = ApiServer::new();
    done(&server, "POST", MAPS, map("a")).await;
    for query in ["watch=1", "watch=1&resourceVersion=0"] {
        let mut watch = Lines::open(&server, &format!("{MAPS}?{query}")).await;
        assert_eq!(watch.brief().await, "ADDED a");
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_ends_with_its_bookmark() {
    let server = ApiServer::new();
    done(&server, "POST", MAPS, map("a")).await;
    let query =
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = Lines::open(&server, &format!("{MAPS}?{query}")).await;
    assert_eq!(watch.brief().await, "ADDED a");
    let mark = watch.next().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(
        mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    let (_, list) = get(&server, MAPS).await;
    assert_eq!(
        mark["object"]["metadata"]["resourceVersion"],
        list["metadata"]["resourceVersion"]
    );
    done(&server, "POST", MAPS, map("b")).await;
    assert_eq!(watch.brief().await, "ADDED b");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_in_time_and_the_end_does_too() {
    let server = ApiServer::new();
    let start = Instant::now();
    let query = "watch=1&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=90";
    done(&server, "POST", MAPS, map("a")).await;
    let mut watch = Lines::open(&server, &format!("/api/v1/secrets?{query}")).await;
    let mark = watch.next().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(start.elapsed(), Duration::from_secs(60));
    let (_, list) = get(&server, "/api/v1/secrets").await;
    assert_eq!(
        mark["object"]["metadata"]["resourceVersion"],
        list["metadata"]["resourceVersion"]
    );
    assert_eq!(watch.next().await, None);
    assert_eq!(start.elapsed(), Duration::from_secs(90));
}

#[tokio::test(start_paused = true)]
async fn selectors_turn_changes_into_additions_and_deletions() {
    let server = ApiServer::new();
    let mut watch = Lines::open(&server, &format!("{MAPS}?watch=1&labelSelector=on%3Dyes")).await;
    done(&server, "POST", MAPS, map("a")).await;
    let uri = format!("{MAPS}/a");
    done(
        &server,
        "PATCH",
        &uri,
        json!({"metadata": {"labels": {"on": "yes"}}}),
    )
    .await;
    assert_eq!(watch.brief().await, "ADDED a");
    done(&server, "PATCH", &uri, json!({"data": {"b": "2"}})).await;
    assert_eq!(watch.brief().await, "MODIFIED a");
    let last = done(
        &server,
        "PATCH",
        &uri,
        json!({"metadata": {"labels": {"on": "no"}}}),
    )
    .await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["labels"]["on"], "yes");
    assert_eq!(
        event["object"]["metadata"]["resourceVersion"],
        last["metadata"]["resourceVersion"]
    );
}

#[tokio::test(start_paused = true)]
async fn compacted_revisions_are_expired() {
    let server = ApiServer::new();
    done(&server, "POST", MAPS, map("a")).await;
    let mut open = Lines::open(&server, &format!("{MAPS}?watch=1&resourceVersion=1")).await;
    assert_eq!(open.brief().await, "ADDED a");
    done(&server, "POST", MAPS, map("b")).await;
    server.compact();
    let mut watch = Lines::open(&server, &format!("{MAPS}?watch=1&resourceVersion=1")).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "ERROR");
    assert_eq!(event["object"]["code"], 410);
    assert_eq!(event["object"]["reason"], "Expired");
    assert_eq!(watch.next().await, None);
    assert_eq!(open.brief().await, "ADDED b", "open watches go on");
}

#[tokio::test(start_paused = true)]
async fn names_and_namespaces_narrow_a_watch() {
    let server = ApiServer::new();
    done(
        &server,
        "POST",
        "/api/v1/namespaces",
        json!({"metadata": {"name": "other"}}),
    )
    .await;
    let mut all = Lines::open(&server, "/api/v1/configmaps?watch=1").await;
    let mut one = Lines::open(&server, "/api/v1/watch/namespaces/other/configmaps/b").await;
    done(&server, "POST", MAPS, map("b")).await;
    done(
        &server,
        "POST",
        "/api/v1/namespaces/other/configmaps",
        map("a"),
    )
    .await;
    done(
        &server,
        "POST",
        "/api/v1/namespaces/other/configmaps",
        map("b"),
    )
    .await;
    assert_eq!(all.brief().await, "ADDED b");
    assert_eq!(all.brief().await, "ADDED a");
    let event = one.next().await.unwrap();
    assert_eq!(event["object"]["metadata"]["namespace"], "other");
}

#[tokio::test]
async fn a_watch_may_be_asked_to_last_for_ever() {
    let server = ApiServer::new();
    let uri = format!("{MAPS}?watch=1&timeoutSeconds={}", i64::MAX);
    let mut watch = Lines::open(&server, &uri).await;
    done(&server, "POST", MAPS, map("a")).await;
    assert_eq!(watch.brief().await, "ADDED a");
}
