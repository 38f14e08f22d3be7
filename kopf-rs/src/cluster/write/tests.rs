use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::cluster::fake::{Answer, Fake};

const STATUS: &str = "PATCH /apis/kopf.dev/v1/namespaces/ns/kopfexamples/a/status?fieldManager=kopf-rs";
const OBJECT: &str = "PATCH /apis/kopf.dev/v1/namespaces/ns/kopfexamples/a?fieldManager=kopf-rs";

fn resource(subresources: &[&str]) -> Resource {
    Resource {
        group: "kopf.dev".into(),
        version: "v1".into(),
        plural: "kopfexamples".into(),
        kind: "KopfExample".into(),
        namespaced: true,
        subresources: subresources.iter().map(|&name| name.to_owned()).collect(),
        ..Resource::default()
    }
}

fn facts() -> Facts {
    Facts { uid: "u1".into(), name: "a".into(), namespace: Some("ns".into()), resource_version: "5".into() }
}

fn patch(value: &Value) -> Patch {
    let mut patch = Patch::new();
    for (key, value) in value.as_object().unwrap() {
        patch[key.as_str()] = value.clone();
    }
    patch
}

fn state(uid: &str, version: &str, finalizers: &[&str], more: &Value) -> Answer {
    let mut state = json!({"metadata": {"name": "a", "namespace": "ns", "uid": uid, "resourceVersion": version, "finalizers": finalizers}});
    for (key, value) in more.as_object().unwrap() {
        state[key] = value.clone();
    }
    Answer::new(200, state.to_string())
}

async fn send(
    fake: &Fake,
    subresources: &[&str],
    changes: &Changes,
    part: Part,
    is_bound: bool,
) -> Result<Raw, ClusterError> {
    let request =
        PatchRequest { resource: &resource(subresources), facts: &facts(), changes, part, is_bound };
    fake.cluster().patch(request, None).await
}

fn merge(content: &Value) -> Changes {
    Changes::Merge(Arc::new(patch(content)))
}

fn bodies(fake: &Fake) -> Vec<Value> {
    let patches = fake.seen().into_iter().filter(|seen| seen.line.starts_with("PATCH"));
    patches.map(|seen| serde_json::from_str(&seen.body).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn one_patch_bound_to_the_uid_is_all_without_a_status_subresource() {
    let fake = Fake::new([state("u1", "6", &[], &json!({"status": {"x": 1}}))]);
    let changes =
        merge(&json!({"metadata": {"annotations": {"k": "v"}, "uid": "forged"}, "status": {"x": 1}}));
    let all = Part::Object { with_status: true };
    let reply = send(&fake, &[], &changes, all, false).await.unwrap();
    assert_eq!(reply.facts().resource_version, "6");
    assert_eq!(fake.lines(), [OBJECT]);
    assert_eq!(
        bodies(&fake),
        [json!({"metadata": {"uid": "u1", "annotations": {"k": "v"}}, "status": {"x": 1}})]
    );
    let headers = &fake.seen()[0].headers;
    assert_eq!(headers["content-type"], "application/merge-patch+json");
    let agent = headers["user-agent"].to_str().unwrap();
    assert!(agent.starts_with("kopf-rs/0."));
}

#[tokio::test(start_paused = true)]
async fn a_part_has_only_its_own_and_a_status_is_bound_to_the_version() {
    let changes = merge(&json!({"metadata": {"annotations": {"k": "v"}}, "status": {"x": 1}}));
    let rest = Part::Object { with_status: false };
    for (part, is_bound, line, body) in [
        (
            Part::Status,
            false,
            STATUS,
            json!({"metadata": {"uid": "u1", "resourceVersion": "5"}, "status": {"x": 1}}),
        ),
        (rest, false, OBJECT, json!({"metadata": {"uid": "u1", "annotations": {"k": "v"}}})),
        (
            rest,
            true,
            OBJECT,
            json!({"metadata": {"uid": "u1", "resourceVersion": "5", "annotations": {"k": "v"}}}),
        ),
    ] {
        let fake = Fake::new([state("u1", "6", &[], &json!({"status": {"x": 1}}))]);
        let reply = send(&fake, &["status"], &changes, part, is_bound).await;
        assert!(reply.is_ok());
        assert_eq!(fake.lines(), [line]);
        assert_eq!(bodies(&fake), [body]);
    }
}

#[tokio::test(start_paused = true)]
async fn operations_are_bound_to_their_version_whatever_is_asked() {
    let (found, wanted) = (json!({"spec": {}}), json!({"spec": {"a": 1}, "status": {"s": 1}}));
    let changes = Changes::Operations { operations: Operations::between(&found, &wanted), wanted };
    let fake = Fake::new([state("u1", "6", &[], &json!({}))]);
    let rest = Part::Object { with_status: false };
    let reply = send(&fake, &["status"], &changes, rest, false).await;
    assert!(reply.is_ok());
    let bonds = [
        json!({"op": "replace", "path": "/metadata/uid", "value": "u1"}),
        json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "5"}),
        json!({"op": "add", "path": "/spec/a", "value": 1}),
    ];
    assert_eq!(bodies(&fake), [json!(bonds)]);
}

#[test]
fn empty_parts_are_not_sent() {
    let rest = Part::Object { with_status: false };
    let all = Part::Object { with_status: true };
    for (content, expected) in [
        (json!({"status": {"x": 1}}), [true, false, true]),
        (json!({"status": {}, "metadata": {"labels": {"a": "b"}}}), [false, true, true]),
        (json!({"status": {"x": null}, "metadata": {}}), [true, false, true]),
        (json!({"status": {}}), [false, false, false]),
    ] {
        let changes = merge(&content);
        let has = [Part::Status, rest, all].map(|part| changes.has(part));
        assert_eq!(has, expected, "{content}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_is_sent_once_whatever_the_answer() {
    let changes = merge(&json!({"metadata": {"annotations": {"k": "v"}}}));
    let all = Part::Object { with_status: true };
    let foreign = r#"{"code":422,"message":"no","details":{"causes":[{"field":"metadata.uid"}]}}"#;
    for (answer, expected) in [
        (Answer::refusal(404, "no"), "not found: no"),
        (Answer::refusal(409, "no"), "conflict: no"),
        (Answer::new(422, foreign), "another object has this name now: no"),
        (Answer::refusal(422, "no"), "invalid: no"),
        (Answer::refusal(403, "no"), "forbidden: no"),
        (Answer::refusal(503, "no"), "the server cannot answer now (503): no"),
        (Answer::stuck(), "unreachable: no complete answer within 65 seconds"),
    ] {
        let fake = Fake::new([answer]);
        let error = send(&fake, &[], &changes, all, false).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(fake.lines(), [OBJECT]);
    }
}

/// The server may have executed the request, and a caller must not take the patch for refused.
#[tokio::test(start_paused = true)]
async fn a_page_of_a_proxy_is_no_answer_of_the_server() {
    let changes = merge(&json!({"spec": {"x": 1}}));
    let fake = Fake::new([Answer::new(200, "<html></html>")]);
    let part = Part::Object { with_status: true };
    let error = send(&fake, &[], &changes, part, false).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "unreachable: the reply is not an object, but begins with \"<html></html>\" (does a proxy or another server answer at the address of the API server?)"
    );
    assert!(error.is_transient() && error.may_have_landed());
}

#[tokio::test(start_paused = true)]
async fn a_denial_names_the_rule_for_the_subresource() {
    let denial =
        "kopfexamples.kopf.dev \"a\" is forbidden: User \"op\" cannot patch resource \"kopfexamples/status\"";
    let fake = Fake::new([Answer::refusal(403, denial)]);
    let changes = merge(&json!({"status": {"x": 1}}));
    let denied = send(&fake, &["status"], &changes, Part::Status, false).await;
    let Err(ClusterError::Denied { rule, .. }) = denied else {
        panic!("not denied");
    };
    assert!(rule.ends_with("resources: [\"kopfexamples/status\"]\n    verbs: [\"patch\"]"), "{rule}");
}

#[tokio::test(start_paused = true)]
async fn writes_are_limited() {
    let settings = crate::cluster::ClusterSettings { writes: 2, ..Default::default() };
    let fake = Fake::new((0..6).map(|_| Answer::stuck()));
    let cluster = Cluster::with_settings(fake.client(), &settings);
    let (resource, facts) = (resource(&[]), facts());
    let changes = merge(&json!({"spec": {"x": 1}}));
    let request = PatchRequest {
        resource: &resource,
        facts: &facts,
        changes: &changes,
        part: Part::Object { with_status: true },
        is_bound: false,
    };
    let writes = (0..6).map(|_| cluster.patch(request, None));
    let all = futures_util::future::join_all(writes);
    let _ = tokio::time::timeout(Duration::from_secs(1), all).await;
    assert_eq!(fake.lines().len(), 2);
}
