use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::cluster::fake::{Answer, Fake};

const STATUS: &str =
    "PATCH /apis/kopf.dev/v1/namespaces/ns/kopfexamples/a/status?fieldManager=kopf-rs";
const OBJECT: &str = "PATCH /apis/kopf.dev/v1/namespaces/ns/kopfexamples/a?fieldManager=kopf-rs";
const GET: &str = "GET /apis/kopf.dev/v1/namespaces/ns/kopfexamples/a";

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
    Facts {
        uid: "u1".into(),
        name: "a".into(),
        namespace: Some("ns".into()),
        resource_version: "5".into(),
    }
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

/// The version of the reply, or `-` where the object is gone.
async fn apply(
    fake: &Fake,
    subresources: &[&str],
    content: &Value,
    finalizers: Option<&[&str]>,
) -> Result<String, String> {
    let finalizers: Option<Vec<String>> =
        finalizers.map(|all| all.iter().map(|&name| name.to_owned()).collect());
    let reply = fake
        .cluster()
        .apply(
            &resource(subresources),
            &facts(),
            &patch(content),
            finalizers.as_deref(),
        )
        .await;
    match reply {
        Ok(Some(raw)) => Ok(raw.facts().resource_version.clone()),
        Ok(None) => Ok("-".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn bodies(fake: &Fake) -> Vec<Value> {
    let patches = fake
        .seen()
        .into_iter()
        .filter(|seen| seen.line.starts_with("PATCH"));
    patches
        .map(|seen| serde_json::from_str(&seen.body).unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn one_patch_bound_to_the_uid_is_all_without_a_status_subresource() {
    let fake = Fake::new([state("u1", "6", &[], &json!({"status": {"x": 1}}))]);
    let content =
        json!({"metadata": {"annotations": {"k": "v"}, "uid": "forged"}, "status": {"x": 1}});
    assert_eq!(apply(&fake, &[], &content, None).await.unwrap(), "6");
    assert_eq!(fake.lines(), [OBJECT]);
    assert_eq!(
        bodies(&fake),
        [json!({"metadata": {"uid": "u1", "annotations": {"k": "v"}}, "status": {"x": 1}})]
    );
    let headers = &fake.seen()[0].headers;
    assert_eq!(headers["content-type"], "application/merge-patch+json");
    assert!(
        headers["user-agent"]
            .to_str()
            .unwrap()
            .starts_with("kopf-rs/0.")
    );
}

#[tokio::test(start_paused = true)]
async fn the_status_goes_apart_and_first() {
    let fake = Fake::new([
        state("u1", "6", &[], &json!({"status": {"x": 1}})),
        state("u1", "7", &[], &json!({})),
    ]);
    let content = json!({"metadata": {"annotations": {"k": "v"}}, "status": {"x": 1}});
    assert_eq!(
        apply(&fake, &["status"], &content, None).await.unwrap(),
        "7"
    );
    assert_eq!(fake.lines(), [STATUS, OBJECT]);
    assert_eq!(
        bodies(&fake),
        [
            json!({"metadata": {"uid": "u1", "resourceVersion": "5"}, "status": {"x": 1}}),
            json!({"metadata": {"uid": "u1", "annotations": {"k": "v"}}})
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn only_what_has_content_is_sent() {
    for (content, lines) in [
        (json!({"status": {"x": 1}}), vec![STATUS]),
        (
            json!({"status": {}, "metadata": {"labels": {"a": "b"}}}),
            vec![OBJECT],
        ),
        (json!({"status": {"x": null}, "metadata": {}}), vec![STATUS]),
        (json!({"status": {}}), vec![GET]),
    ] {
        let fake = Fake::new([state("u1", "6", &[], &json!({"status": {"x": 1}}))]);
        assert_eq!(
            apply(&fake, &["status"], &content, None).await.unwrap(),
            "6"
        );
        assert_eq!(fake.lines(), lines, "{content}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_expects_finalizers_is_bound_to_the_version() {
    let fake = Fake::new([state("u1", "6", &["f"], &json!({}))]);
    let content = json!({"metadata": {"finalizers": ["f"]}});
    assert_eq!(apply(&fake, &[], &content, Some(&[])).await.unwrap(), "6");
    assert_eq!(
        bodies(&fake),
        [json!({"metadata": {"uid": "u1", "resourceVersion": "5", "finalizers": ["f"]}})]
    );
}

#[tokio::test(start_paused = true)]
async fn after_the_status_the_version_of_its_reply_is_expected() {
    let fake = Fake::new([
        state("u1", "6", &["f"], &json!({"status": {"x": 1}})),
        state("u1", "7", &[], &json!({})),
    ]);
    let content = json!({"metadata": {"finalizers": []}, "status": {"x": 1}});
    assert_eq!(
        apply(&fake, &["status"], &content, Some(&["f"]))
            .await
            .unwrap(),
        "7"
    );
    assert_eq!(bodies(&fake)[1]["metadata"]["resourceVersion"], "6");
    let fake = Fake::new([state(
        "u1",
        "6",
        &["f", "other"],
        &json!({"status": {"x": 1}}),
    )]);
    let refused = apply(&fake, &["status"], &content, Some(&["f"]))
        .await
        .unwrap_err();
    assert_eq!(refused, "conflict: the finalizers have changed meanwhile");
    assert_eq!(fake.lines(), [STATUS]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_has_moved_on_is_no_obstacle_while_the_finalizers_stay() {
    let conflict = || Answer::refusal(409, "the object has been modified");
    let content = json!({"metadata": {"finalizers": ["f"]}});
    let fake = Fake::new([
        conflict(),
        state("u1", "8", &[], &json!({})),
        state("u1", "9", &["f"], &json!({})),
    ]);
    assert_eq!(apply(&fake, &[], &content, Some(&[])).await.unwrap(), "9");
    assert_eq!(fake.lines(), [OBJECT, GET, OBJECT]);
    assert_eq!(bodies(&fake)[1]["metadata"]["resourceVersion"], "8");
    let fake = Fake::new([conflict(), state("u1", "8", &["other"], &json!({}))]);
    let refused = apply(&fake, &[], &content, Some(&[])).await.unwrap_err();
    assert_eq!(refused, "conflict: the finalizers have changed meanwhile");
}

#[tokio::test(start_paused = true)]
async fn another_object_of_the_same_name_is_left_alone() {
    let content = json!({"metadata": {"annotations": {"k": "v"}}});
    let foreign = r#"{"code":422,"message":"metadata.uid: Invalid value","details":{"causes":[{"field":"metadata.uid"}]}}"#;
    for refusal in [
        Answer::new(422, foreign),
        Answer::refusal(409, "Precondition failed: UID in precondition: u1"),
    ] {
        let fake = Fake::new([refusal, state("u2", "9", &[], &json!({}))]);
        assert_eq!(apply(&fake, &[], &content, None).await.unwrap(), "-");
        assert_eq!(fake.lines(), [OBJECT, GET]);
    }
    let late_status = json!({"status": {"x": 1}});
    let fake = Fake::new([
        Answer::refusal(409, "modified"),
        state("u2", "9", &[], &json!({})),
    ]);
    assert_eq!(
        apply(&fake, &["status"], &late_status, None).await.unwrap(),
        "-"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_is_none() {
    let fake = Fake::new([Answer::refusal(404, "not found")]);
    let content = json!({"metadata": {"annotations": {"k": "v"}}});
    assert_eq!(apply(&fake, &[], &content, None).await.unwrap(), "-");
    assert_eq!(fake.lines(), [OBJECT]);
    let gone = || Answer::refusal(404, "not found");
    let fake = Fake::new([gone(), gone()]);
    let content = json!({"status": {"x": 1}});
    assert_eq!(
        apply(&fake, &["status"], &content, None).await.unwrap(),
        "-"
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_subresource_that_is_gone_does_not_pass_for_a_gone_object() {
    let fake = Fake::new([
        Answer::refusal(404, "the server could not find the requested resource"),
        state("u1", "5", &[], &json!({})),
        state("u1", "6", &[], &json!({"status": {"x": 1}})),
    ]);
    let content = json!({"metadata": {"annotations": {"k": "v"}}, "status": {"x": 1}});
    let applied = apply(&fake, &["status"], &content, None).await;
    assert_eq!(applied.unwrap(), "6");
    assert_eq!(fake.lines(), [STATUS, GET, OBJECT]);
    assert_eq!(
        bodies(&fake)[1],
        json!({"metadata": {"uid": "u1", "annotations": {"k": "v"}}, "status": {"x": 1}})
    );
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_a_few_times() {
    let content = json!({"metadata": {"annotations": {"k": "v"}}});
    let fake = Fake::new([
        Answer::refusal(429, "slow down").header("retry-after", "3"),
        Answer::none(),
        Answer::refusal(500, "oops"),
        state("u1", "6", &[], &json!({})),
    ]);
    assert_eq!(apply(&fake, &[], &content, None).await.unwrap(), "6");
    let seen = fake.seen();
    assert!(seen[1].at >= seen[0].at + Duration::from_secs(3));
    assert!(seen[3].at < seen[1].at + Duration::from_secs(2));
    let fake = Fake::new((0..9).map(|_| Answer::refusal(503, "down")));
    let refused = apply(&fake, &[], &content, None).await.unwrap_err();
    assert_eq!(refused, "server is not able to answer now (503): down");
    assert_eq!(fake.lines().len(), 4);
    let fake = Fake::new([Answer::refusal(429, "later").header("retry-after", "60")]);
    assert!(apply(&fake, &[], &content, None).await.is_err());
    assert_eq!(
        fake.lines().len(),
        1,
        "a long wait is the caller's business"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up() {
    let fake = Fake::new((0..4).map(|_| Answer::stuck()));
    let content = json!({"metadata": {"annotations": {"k": "v"}}});
    let refused = apply(&fake, &[], &content, None).await.unwrap_err();
    assert_eq!(refused, "unreachable: no complete answer within 65 seconds");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_not_asked_again() {
    let content = json!({"spec": {"size": -1}});
    let fake = Fake::new([Answer::refusal(422, "spec.size: Invalid value: -1")]);
    let refused = apply(&fake, &[], &content, None).await.unwrap_err();
    assert_eq!(refused, "invalid: spec.size: Invalid value: -1");
    let denial = "kopfexamples.kopf.dev \"a\" is forbidden: User \"op\" cannot patch resource \"kopfexamples/status\"";
    let fake = Fake::new([Answer::refusal(403, denial)]);
    let denied = fake
        .cluster()
        .apply(
            &resource(&["status"]),
            &facts(),
            &patch(&json!({"status": {"x": 1}})),
            None,
        )
        .await;
    let Err(ClusterError::Denied { rule, .. }) = denied else {
        panic!("not denied");
    };
    assert!(
        rule.ends_with("resources: [\"kopfexamples/status\"]\n    verbs: [\"patch\"]"),
        "{rule}"
    );
}

#[tokio::test(start_paused = true)]
async fn writes_are_limited() {
    let settings = crate::cluster::ClusterSettings {
        writes: 2,
        ..Default::default()
    };
    let fake = Fake::new((0..6).map(|_| Answer::stuck()));
    let cluster = Cluster::with_settings(fake.client(), &settings);
    let (resource, facts) = (resource(&[]), facts());
    let content = patch(&json!({"spec": {"x": 1}}));
    let writes = (0..6).map(|_| cluster.apply(&resource, &facts, &content, None));
    let all = futures_util::future::join_all(writes);
    let _ = tokio::time::timeout(Duration::from_secs(1), all).await;
    assert_eq!(fake.lines().len(), 2);
}
