//! Recorded requests of a real API server to webhooks: handlers must get the contents of each review.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kopf_rs::{Context, Operation, Registry, handler};
use kopf_rs_tests::corpus::{Script, Told};
use kopf_rs_tests::{Recorded, TestCluster, kubernetes_version, scenarios};
use serde_json::{Value, json};

use super::client::Asker;
use super::{VALIDATING, configured, start};
use crate::cli::root;
use crate::operating::TestOperator;

scenarios! {
    handlers_get_the_data_of_recorded_reviews [tcp];
}

/// Returns the requests that `/echo` has denied with the request as its message, without uids and other generated values.
fn recorded() -> Vec<Value> {
    let workspace = root().join("apiserver");
    let scripts = Script::read_all(&workspace.join("tests/conformance"));
    let script = scripts.iter().find(|it| it.name == "webhooks");
    let asked = script.expect("it is there").asked();
    let by = format!("kube-apiserver {}", kubernetes_version());
    let told = Recorded::of(&workspace, "corpus", &by, &[]).read::<Told>("webhooks", asked);
    let told = told.unwrap_or_else(|why| panic!("{why}"));
    let answers = told.iter().flat_map(|it| &it.answers);
    let messages = answers.filter_map(|it| it.body["message"].as_str());
    let echoed = messages.filter_map(|it| it.split_once(" denied the request: "));
    // Values that differ between runs have names between control characters.
    let echoed = echoed.map(|(_, request)| request.replace(char::is_control, ""));
    let requests = echoed.filter_map(|it| serde_json::from_str(&it).ok());
    requests.filter(Value::is_object).collect()
}

/// Returns the kind of a request.
fn kind(request: &Value) -> String {
    let part = |name: &str| request[name].as_str().unwrap_or("none");
    let name = if request["name"].is_string() { "a" } else { "no" };
    let (operation, subresource) = (part("operation"), part("subResource"));
    format!("{operation}, subresource {subresource}, {name} name, dry run {}", request["dryRun"])
}

fn expected(request: &Value) -> Value {
    let [old, new] = ["oldObject", "object"].map(|it| &request[it]);
    let body = if new.is_null() { old } else { new };
    let metadata = &body["metadata"];
    let user = &request["userInfo"];
    json!({
        "operation": request["operation"], "subresource": request["subResource"], "dryrun": request["dryRun"],
        "name": metadata["name"].as_str().unwrap_or_default(), "namespace": metadata["namespace"],
        "plural": request["resource"]["resource"], "body": body, "old": old, "new": new,
        "user": [user["username"], user["uid"], user["groups"]],
    })
}

fn given(context: &Context) -> Value {
    let user = context.userinfo();
    let body: Value = context.object().expect("it is JSON");
    json!({
        "operation": context.operation().map(Operation::as_str), "subresource": context.subresource(), "dryrun": context.dryrun(),
        "name": context.name(), "namespace": context.namespace(),
        "plural": context.resource().map(|it| &it.plural), "body": body, "old": context.old(), "new": context.new(),
        "user": [json!(user.username), json!(user.uid), json!(user.groups)],
    })
}

/// AD1
async fn handlers_get_the_data_of_recorded_reviews(cluster: TestCluster) {
    let test = TestOperator::bare(cluster);
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let noting = || {
        let seen = seen.clone();
        let noting = handler("noting", move |context: Context| {
            seen.lock().expect("nobody panics with it").push(given(&context));
            async { Ok(()) }
        });
        noting.subresource("*")
    };
    let registry = Registry::new()
        .on_validate(("", "v1", "configmaps"), noting())
        .on_validate(("", "v1", "namespaces"), noting())
        .on_validate(("apps", "v1", "deployments"), noting());
    let working = start(&test, registry, VALIDATING, 1).await;
    let asker = Asker::of(&configured(&test, VALIDATING, 1).await[0]);
    seen.lock().expect("nobody panics with it").clear();
    let mut kinds = BTreeSet::new();
    for mut request in recorded() {
        request["uid"] = json!("705ab4f5-6393-11e8-b7cc-42010a800002");
        let review =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let (code, answer) = asker.post(review.to_string().as_bytes()).await;
        assert_eq!(code, 200, "{answer}\n{request}");
        let given = std::mem::take(&mut *seen.lock().expect("nobody panics with it"));
        assert_eq!(given, [expected(&request)]);
        kinds.insert(kind(&request));
    }
    let recorded = [
        "CREATE, subresource none, a name, dry run false",
        "CREATE, subresource none, a name, dry run true",
        "CREATE, subresource none, no name, dry run false",
        "DELETE, subresource none, a name, dry run false",
        "DELETE, subresource none, a name, dry run true",
        "DELETE, subresource none, no name, dry run false",
        "UPDATE, subresource none, a name, dry run false",
        "UPDATE, subresource none, a name, dry run true",
        "UPDATE, subresource scale, a name, dry run false",
    ];
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    assert_eq!(kinds, recorded);
    working.stop().await;
}
