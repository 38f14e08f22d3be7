//! Objects that handlers create for the handled object: they get its name, namespace and labels, and are deleted with it.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kopf_rs::{Client, Context, FromCause, HandlerResult, Owner, Registry, adopt};
use kopf_rs_tests::{TestCluster, scenarios};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::operating::{TestOperator, is_handled};

scenarios! {
    adopted_objects_belong_to_the_handled_object;
    tasks_of_a_handler_get_the_owner_by_argument [memory];
    objects_that_kubernetes_would_delete_immediately_are_refused [memory];
    adopted_objects_are_deleted_after_their_owner [real];
}

/// Creates a config map, and returns it as stored.
async fn send(context: &Context, map: ConfigMap) -> HandlerResult<ConfigMap> {
    let client = Client::clone(&*context.state::<Client>()?);
    let maps = Api::<ConfigMap>::namespaced(client, context.namespace().unwrap_or_default());
    Ok(maps.create(&PostParams::default(), &map).await?)
}

/// Creates an adopted config map, and returns its name.
async fn make(context: Context) -> HandlerResult<Value> {
    let mut map = ConfigMap::default();
    adopt(&mut map)?;
    let sent = send(&context, map).await?;
    Ok(json!({"made": sent.metadata.name}))
}

/// Returns the name of the object that was created for an object.
async fn made(test: &TestOperator, name: &str) -> String {
    let is_made = |object: &Value| object["status"]["create_fn"]["made"].is_string();
    let object = test.until("its child is made", name, is_made).await;
    let made = object["status"]["create_fn"]["made"].as_str();
    made.unwrap_or_default().to_owned()
}

async fn create_labelled(test: &TestOperator, name: &str) -> Value {
    let api_version = format!("{}/v1", test.group);
    let metadata = json!({"name": name, "labels": {"app": "x"}});
    let object = json!({"apiVersion": api_version, "kind": "KopfExample", "metadata": metadata, "spec": {}});
    test.cluster.create(&object).await
}

async fn adopted_objects_belong_to_the_handled_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().on_create(test.selector(), test.handler("create_fn", make)));
    let owner = create_labelled(&test, "a").await;
    create_labelled(&test, "b").await;
    let (name, other) = (made(&test, "a").await, made(&test, "b").await);
    assert!(name.starts_with("a-") && other.starts_with("b-"), "{name}, {other}");
    let child = test.cluster.get("configmaps", &name).await;
    working.stop().await;
    let metadata = &child.expect("it is there")["metadata"];
    assert_eq!(metadata["namespace"], test.cluster.namespace());
    assert_eq!(metadata["labels"], json!({"app": "x"}));
    let reference = json!([{
        "apiVersion": format!("{}/v1", test.group), "kind": "KopfExample", "name": "a", "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(metadata["ownerReferences"], reference);
}

async fn tasks_of_a_handler_get_the_owner_by_argument(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        let owner = Owner::from_cause(&context)?;
        let (without, with) = tokio::spawn(async move {
            let mut objects = (ConfigMap::default(), Secret::default());
            let without = adopt(&mut objects.1).map_err(|error| error.to_string());
            let with = owner.strict().adopt((&mut objects.0, &mut objects.1));
            (without, with.map(|()| objects))
        })
        .await?;
        let (map, secret) = with?;
        let sent = send(&context, map).await?;
        Ok(json!({"made": sent.metadata.name, "secret": secret.metadata.name, "without": without.err()}))
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("a", json!({})).await;
    assert_eq!(made(&test, "a").await, "a");
    let status = test.get("a").await["status"]["create_fn"].clone();
    working.stop().await;
    assert_eq!(status["secret"], "a");
    let refused = status["without"].as_str().unwrap_or_default();
    assert!(refused.contains("take `owner: Owner`"), "{refused}");
}

async fn objects_that_kubernetes_would_delete_immediately_are_refused(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = test.handler("create_fn", |context| async move {
        let mut child = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        match context.name() {
            "elsewhere" => child["metadata"] = json!({"name": "c", "namespace": "elsewhere"}),
            "controlled" => {
                let reference =
                    json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": true});
                child["metadata"] = json!({"name": "c", "ownerReferences": [reference]});
            }
            _ => child["kind"] = json!("Namespace"),
        }
        adopt(&mut child)?;
        Ok(json!("adopted"))
    });
    let working = test.start(Registry::new().on_create(test.selector(), create));
    for (name, told) in [
        ("elsewhere", "ConfigMap `c` is in the namespace `elsewhere`, and its owner"),
        ("controlled", "ConfigMap `c` is controlled by Pod `p` (1) already"),
        ("wide", "Namespace is cluster-scoped, and its owner KopfExample `wide` is in the namespace"),
    ] {
        test.create(name, json!({})).await;
        test.line(&format!("failed permanently: {told}")).await;
        test.until("nothing is tried again", name, is_handled).await;
    }
    working.stop().await;
    assert_eq!(test.calls.all().len(), 3);
}

async fn adopted_objects_are_deleted_after_their_owner(cluster: TestCluster) {
    cluster.start_controllers().await;
    let test = TestOperator::of(cluster).await;
    let working = test.start(Registry::new().on_create(test.selector(), test.handler("create_fn", make)));
    create_labelled(&test, "a").await;
    let name = made(&test, "a").await;
    test.delete("a").await;
    test.cluster.until("it is gone", "configmaps", &name, |child| child.is_none()).await;
    working.stop().await;
}
