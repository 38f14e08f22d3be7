use serde_json::json;

use super::*;
use crate::cluster::fake::{Answer, Fake};

const CORE: &str = r#"{"kind":"APIGroupDiscoveryList","items":[{"versions":[{"version":"v1","resources":[
    {"resource":"configmaps","responseKind":{"kind":"ConfigMap"},"scope":"Namespaced","verbs":["get"]},
    {"resource":"namespaces","responseKind":{"kind":"Namespace"},"scope":"Cluster","verbs":["get"]}]}]}]}"#;

fn groups(more: &str) -> String {
    format!(
        r#"{{"kind":"APIGroupDiscoveryList","items":[{{"metadata":{{"name":"apiextensions.k8s.io"}},"versions":[{{"version":"v1","resources":[
            {{"resource":"customresourcedefinitions","responseKind":{{"kind":"CustomResourceDefinition"}},"scope":"Cluster","verbs":["get"]}}]}}]}}{more}]}}"#
    )
}

fn discovery(more: &str) -> [Answer; 2] {
    [Answer::new(200, CORE), Answer::new(200, groups(more))]
}

fn missing() -> Answer {
    Answer::refusal(404, "not found")
}

fn state(version: u32) -> Answer {
    let text = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": version.to_string()}});
    Answer::new(200, text.to_string())
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}})
}

async fn apply(answers: Vec<Answer>) -> (Result<Applied, String>, Vec<String>) {
    let fake = Fake::new(discovery("").into_iter().chain(answers));
    let applied = fake.cluster().apply_manifest(&config_map()).await;
    (applied.map_err(|error| error.to_string()), fake.lines().split_off(2))
}

const GET: &str = "GET /api/v1/namespaces/default/configmaps/a";
const POST: &str = "POST /api/v1/namespaces/default/configmaps?fieldManager=kopf-rs&fieldValidation=Strict";
const PATCH: &str =
    "PATCH /api/v1/namespaces/default/configmaps/a?fieldManager=kopf-rs&fieldValidation=Strict";

#[tokio::test(start_paused = true)]
async fn a_manifest_is_created_configured_or_found_unchanged() {
    let (applied, lines) = apply(vec![missing(), state(1)]).await;
    assert_eq!((applied, lines), (Ok(Applied::Created), vec![GET.into(), POST.into()]));
    let (applied, lines) = apply(vec![state(1), state(2)]).await;
    assert_eq!((applied, lines), (Ok(Applied::Configured), vec![GET.into(), PATCH.into()]));
    let (applied, _) = apply(vec![state(1), state(1)]).await;
    assert_eq!(applied, Ok(Applied::Unchanged));
    let taken = Answer::refusal(409, "already exists");
    let (applied, lines) = apply(vec![missing(), taken, state(1)]).await;
    assert_eq!(applied, Ok(Applied::Configured));
    assert_eq!(lines, [GET, POST, PATCH]);
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_waited_for_and_then_its_objects_are() {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kopfexamples.kopf.dev"}, "spec": {"group": "kopf.dev", "names": {"kind": "KopfExample"}}});
    let state = |conditions: Value| {
        let state =
            json!({"metadata": {"name": "kopfexamples.kopf.dev"}, "status": {"conditions": conditions}});
        Answer::new(200, state.to_string())
    };
    let served = r#",{"metadata":{"name":"kopf.dev"},"versions":[{"version":"v1","resources":[
        {"resource":"kopfexamples","responseKind":{"kind":"KopfExample"},"scope":"Namespaced","verbs":["get"]}]}]}"#;
    let created = [
        missing(),
        state(json!(null)),
        state(json!([])),
        state(json!([{"type": "Established", "status": "True"}])),
    ];
    let answers = discovery("").into_iter().chain(created).chain(discovery("")).chain(discovery(served));
    let fake = Fake::new(answers.chain([missing(), state(json!(null))]));
    let cluster = fake.cluster();
    assert_eq!(cluster.apply_manifest(&definition).await.unwrap(), Applied::Created);
    let object = json!({"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "a", "namespace": "ns"}});
    assert_eq!(cluster.apply_manifest(&object).await.unwrap(), Applied::Created);
    assert!(fake.lines().last().unwrap().starts_with("POST /apis/kopf.dev/v1/namespaces/ns/kopfexamples"));
}

#[test]
fn names_that_are_taken_refuse_a_definition() {
    let taken = json!([{"type": "NamesAccepted", "status": "False", "message": "\"po\" is taken"}]);
    assert_eq!(verdict(taken.as_array().unwrap()), Verdict::Refused("\"po\" is taken".into()));
    assert_eq!(verdict(&[]), Verdict::Pending);
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_manifest_is_explained() {
    for (manifest, expected) in [
        (json!({"kind": "A"}), "invalid: the manifest has no apiVersion"),
        (json!({"apiVersion": "v1"}), "invalid: the manifest has no kind"),
        (json!({"apiVersion": "v1", "kind": "A"}), "invalid: the manifest has no metadata.name"),
        (
            json!({"apiVersion": "v1", "kind": "Nope", "metadata": {"name": "a"}}),
            "not found: no kind \"Nope\" in v1 is served: is its CustomResourceDefinition applied?",
        ),
    ] {
        let fake = Fake::new(discovery(""));
        let refused = fake.cluster().apply_manifest(&manifest).await.unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }
}
