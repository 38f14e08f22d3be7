//! The journal of requests.

use serde_json::{Value, json};

use super::{APPS, CRDS, MAPS, app, crd, done, get, map, with_crd};
use kopf_rs_apiserver::{ApiServer, Verb};

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

#[tokio::test]
async fn all_effects_of_a_request_are_told() {
    let server = ApiServer::new();
    let owner = done(&server, "POST", MAPS, map("owner")).await;
    let mut child = map("child");
    child["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    done(&server, "POST", MAPS, child).await;
    done(&server, "PATCH", &format!("{MAPS}/child"), json!({})).await;
    done(&server, "DELETE", &format!("{MAPS}/owner"), Value::Null).await;
    done(&server, "POST", CRDS, crd()).await;
    let effects: Vec<Vec<String>> = server
        .journal()
        .entries()
        .iter()
        .map(|entry| {
            let told = entry.effects.iter();
            told.map(|effect| format!("{} {} {}", effect.event, effect.plural, effect.name))
                .collect()
        })
        .collect();
    assert_eq!(
        effects,
        [
            vec!["ADDED configmaps owner"],
            vec!["ADDED configmaps child"],
            vec![],
            vec!["DELETED configmaps owner", "DELETED configmaps child"],
            vec![
                "ADDED customresourcedefinitions myapps.demo.example",
                "MODIFIED customresourcedefinitions myapps.demo.example",
                "ADDED apiservices v1.demo.example",
            ],
        ]
    );
    let first = &server.journal().entries()[0].effects[0];
    assert_eq!(first.namespace.as_deref(), Some("default"));
    assert_eq!(
        Some(first.resource_version.as_str()),
        owner["metadata"]["resourceVersion"].as_str()
    );
}

#[tokio::test]
async fn the_journal_keeps_the_newest() {
    let server = ApiServer::new();
    server.journal().limit(2);
    for name in ["a", "b", "c"] {
        done(&server, "POST", MAPS, map(name)).await;
    }
    let names: Vec<_> = server.journal().entries();
    assert_eq!(names.len(), 2);
    assert_eq!(names[0].body, Some(map("b")));
    server.journal().limit(0);
    get(&server, MAPS).await;
    assert!(server.journal().entries().is_empty());
}
