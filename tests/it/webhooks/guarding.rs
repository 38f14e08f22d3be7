//! Webhooks that are refused as dangerous, and objects for which no webhook is called.

use kopf_rs::{AdmissionServer, Operator, OperatorError, PRESENT, Registry, Settings, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use super::{
    MUTATING, VALIDATING, configured, denying, hooks, managed, object, operator, refusal, settings, start,
};
use crate::operating::{TestOperator, Working};

scenarios! {
    webhooks_that_would_block_the_operator_are_refused [tcp];
    needed_kinds_are_left_out_where_they_must_be [tcp real];
    webhooks_are_for_the_namespaces_of_the_operator [tcp real];
    filters_are_sent_to_the_api_server [tcp real];
    an_operator_with_no_server_does_not_start [tcp];
    handlers_that_would_share_a_path_are_refused [tcp];
}

fn passing(id: &str) -> kopf_rs::Callback {
    handler(id, |_| async { Ok(()) })
}

/// Returns the error with which an operator of the whole cluster ends.
async fn end(test: &TestOperator, registry: Registry, settings: Settings) -> String {
    let operator = Operator::new(registry).name("guarded").settings(settings);
    ended(test, operator).await
}

async fn ended(test: &TestOperator, operator: Operator) -> String {
    let working = Working::start(&test.cluster, operator);
    match working.end().await {
        Err(OperatorError::Admission(why)) => why,
        other => panic!("{other:?}"),
    }
}

async fn webhooks_that_would_block_the_operator_are_refused(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let persistent = |id| passing(id).persistent();
    for (registry, resource) in [
        (Registry::new().on_validate("leases", persistent("hook")), "leases.v1.coordination.k8s.io"),
        (
            Registry::new().on_validate("customresourcedefinitions", persistent("hook")),
            "customresourcedefinitions.v1.apiextensions.k8s.io",
        ),
        (Registry::new().on_mutate("nodes", persistent("hook")), "nodes.v1"),
        (
            Registry::new()
                .on_validate(kopf_rs::Selector::everything(&[]).expect("it is clear"), persistent("hook")),
            "",
        ),
    ] {
        let why = end(&test, registry, settings(&test)).await;
        assert!(why.contains("the admission handler `hook`"), "{why}");
        assert!(why.contains(resource), "{why}");
        assert!(why.contains("ignore_failures = true"), "{why}");
    }
    // The operator's own namespace, even if it is selected by name.
    let own = test.cluster.namespace();
    let mut through_service = settings(&test);
    through_service.admission.server = Some(AdmissionServer::service(own, "hooks"));
    through_service.admission.listen = Some("127.0.0.1:0".to_owned());
    let registry = Registry::new().on_validate("pods", passing("hook"));
    let why = ended(&test, test.operator(registry).settings(through_service)).await;
    assert!(why.contains(&format!("in the namespace `{own}`")), "{why}");
    for kind in [VALIDATING, MUTATING] {
        assert_eq!(test.cluster.get(kind, &managed(&test)).await, None);
    }
}

async fn needed_kinds_are_left_out_where_they_must_be(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_validate("pods", passing("all_pods"))
        .on_validate(
            "leases",
            passing("some_leases")
                .persistent()
                .label(format!("{}.example.com/watched", test.cluster.namespace()), PRESENT),
        )
        .on_validate("nodes", passing("ignored").ignore_failures(true).label("no.such/label", PRESENT));
    let operator = Operator::new(registry).name("guarded").settings(settings(&test));
    let working = Working::start(&test.cluster, operator);
    let hooks = configured(&test, VALIDATING, 3).await;
    for hook in &hooks[..2] {
        let expected = json!([{
            "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-node-lease", "kube-system"],
        }]);
        assert_eq!(hook["namespaceSelector"]["matchExpressions"], expected);
    }
    let policies: Vec<_> = hooks.iter().map(|it| it["failurePolicy"].clone()).collect();
    assert_eq!(policies, ["Ignore", "Fail", "Ignore"]);
    working.stop().await;
    test.cluster.delete(VALIDATING, &managed(&test)).await;
}

async fn webhooks_are_for_the_namespaces_of_the_operator(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let own = test.cluster.namespace().to_owned();
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    test.cluster.create(&namespace(&format!("{own}-out"))).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let patterns = [own.clone(), format!("{own}-b-*")];
    let operator = operator(&test, registry).namespaces(patterns);
    let working = Working::start(&test.cluster, operator);
    refusal(&test, &json!({"size": 101})).await;
    let (path, large) = object(&test, "large", &json!({"size": 101}));
    let elsewhere = |name: &str| path.replace(&format!("/{own}/"), &format!("/{name}/"));
    let outside = elsewhere(&format!("{own}-out"));
    let created = test.cluster.request("POST", &outside, Some(&large));
    created.await.expect("nobody is asked there");
    let late = format!("{own}-b-1");
    test.cluster.create(&namespace(&late)).await;
    let names = json!([own, late]);
    let knows = |found: Option<&Value>| {
        let hooks = found.map(hooks).unwrap_or_default();
        hooks.first().is_some_and(|it| it["namespaceSelector"]["matchExpressions"][0]["values"] == names)
    };
    let (what, name) = ("the new namespace counts", managed(&test));
    test.cluster.until(what, VALIDATING, &name, knows).await;
    let path = format!("{}?dryRun=All", elsewhere(&late));
    while test.cluster.request("POST", &path, Some(&large)).await.is_ok() {
        tokio::task::yield_now().await;
    }
    working.stop().await;
}

/// Waits until the API server fails to call this webhook for an object, or calls none.
async fn asks(test: &TestOperator, asked_about: &Value, id: Option<&str>) {
    let (path, _) = object(test, "", &Value::Null);
    let path = format!("{path}?dryRun=All");
    let answer = async {
        loop {
            let answer = test.cluster.request("POST", &path, Some(asked_about)).await;
            match (answer, id) {
                (Err(kube::Error::Api(status)), Some(id)) => {
                    let hook = format!("failed calling webhook \"{id}.{}\"", managed(test));
                    assert!(status.message.contains(&hook), "{}", status.message);
                    return;
                }
                (Ok(_), None) => return,
                // The change may not be in effect yet.
                (Ok(_), Some(_)) => tokio::task::yield_now().await,
                (other, _) => panic!("{asked_about}: {other:?}"),
            }
        }
    };
    let patience = test.cluster.server().patience();
    let answered = tokio::time::timeout(patience, answer).await;
    answered.expect("the change counts soon");
}

async fn filters_are_sent_to_the_api_server(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let deny = |id: &str| {
        handler(id, |context: kopf_rs::Context| async move {
            let message = format!("denied by {}", context.handler_id());
            Err::<(), _>(kopf_rs::AdmissionError::new(message).code(422).into())
        })
    };
    let registry = Registry::new()
        .on_validate(test.selector(), deny("annotated").annotation("example.com/its", "a \"b\" isn't"))
        .on_validate(test.selector(), deny("coloured").field("spec.colour").value("red"))
        .on_validate(test.selector(), deny("deep").field("spec.a.b"));
    let working = start(&test, registry, VALIDATING, 3).await;
    let (_, bare) = object(&test, "bare", &json!({"a": "text", "colour": 7}));
    // No webhook runs any more, so a request fails exactly if the API server calls one.
    let name = managed(&test);
    let mut broken = configured(&test, VALIDATING, 3).await;
    refusal(&test, &json!({"colour": "red"})).await;
    working.kill().await;
    for hook in &mut broken {
        hook["failurePolicy"] = json!("Fail");
        hook["timeoutSeconds"] = json!(1);
    }
    test.cluster.patch(VALIDATING, &name, &json!({"webhooks": broken})).await;
    for (spec, annotations, asked) in [
        (json!({"a": "text", "colour": 7}), json!(null), None),
        (json!({"a": {"b": null}}), json!({"example.com/its": "else"}), None),
        (json!({}), json!({"example.com/its": "a \"b\" isn't"}), Some("annotated")),
        (json!({"colour": "red"}), json!({}), Some("coloured.spec.colour")),
        (json!({"a": {"b": 0}}), json!({}), Some("deep.spec.a.b")),
    ] {
        let mut object = bare.clone();
        object["spec"] = spec;
        object["metadata"]["annotations"] = annotations;
        asks(&test, &object, asked).await;
    }
    test.cluster.delete(VALIDATING, &name).await;
}

async fn an_operator_with_no_server_does_not_start(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = || Registry::new().on_validate(test.selector(), denying());
    let why = end(&test, registry(), Settings::default()).await;
    assert!(why.contains("expected the setting `admission.server`"), "{why}");
    let mut half = settings(&test);
    half.admission.certificate_file = Some("tls.crt".to_owned());
    let why = end(&test, registry(), half).await;
    assert!(why.contains("belong together"), "{why}");
    let mut lost = settings(&test);
    lost.admission.listen = Some("192.0.2.1:1".to_owned());
    let why = end(&test, registry(), lost).await;
    assert!(why.contains("cannot be served at 192.0.2.1:1"), "{why}");
}

async fn handlers_that_would_share_a_path_are_refused(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new()
        .on_validate(test.selector(), passing("my_check"))
        .on_validate(test.selector(), passing("my-check"));
    let why = end(&test, registry, settings(&test)).await;
    assert_eq!(
        why,
        "the webhooks of the handlers `my_check` and `my-check` would have the same path /validate/my-check: give one of them another id"
    );
}
