//! The journal of requests.

use serde_json::json;

use super::{APPS, app, done, get, with_crd};
use kopf_rs_apiserver::Verb;

#[tokio::test]
async fn an_entry_tells_what_was_asked_and_what_came_of_it() {
    let server = with_crd().await;
    server.journal().clear();
    let made = done(&server, "POST", APPS, app("x")).await;
    get(&server, &format!("{APPS}?labelSelector=a%3Db")).await;
    done(
        &server,
        "PATCH",
        &format!("{APPS}/x/status"),
        json!({"status": {"a": 1}}),
    )
    .await;
    let entries = server.journal().entries();
    assert_eq!(entries.len(), 3);
    assert_eq!(
        entries[0].resource_version.as_deref(),
        made["metadata"]["resourceVersion"].as_str()
    );
    assert_eq!(entries[1].verb, Verb::List);
    assert_eq!(
        entries[1].query,
        [("labelSelector".to_owned(), "a=b".to_owned())]
    );
    let patch = &server.journal().writes()[1];
    assert_eq!(
        (patch.verb, patch.code, patch.changed),
        (Verb::Patch, 200, true)
    );
    assert_eq!(patch.subresource.as_deref(), Some("status"));
    assert_eq!(patch.body, Some(json!({"status": {"a": 1}})));
}

#[tokio::test]
async fn waiting_resolves_for_past_and_future_entries() {
    let server = with_crd().await;
    let journal = server.journal();
    let past = journal.wait_for(|entry| entry.verb == Verb::Create).await;
    assert_eq!(past.plural, "customresourcedefinitions");
    let future = journal.wait_for(|entry| entry.plural == "myapps");
    let (entry, _) = tokio::join!(future, get(&server, APPS));
    assert_eq!(entry.verb, Verb::List);
}
