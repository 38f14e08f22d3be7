//! The example `VoteConfig`.

// Links the handlers under test.
use voteconfig as _;

use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};

use super::Tutorial;

scenarios! {
    // Conversions need sockets.
    a_vote_lives_and_dies [tcp real];
}

const KIND: &str = "voteconfigs.voting.schoolofdevops.com";
const NAME: &str = "example-vote";
const CONFIG: &str = "example-vote-config";

async fn a_vote_lives_and_dies(cluster: TestCluster) {
    let test = Tutorial::of(cluster, "voteconfig").await;
    test.apply("crd.yaml").await;
    let first = test.start();
    let converts = |it: &Value| it["spec"]["conversion"]["strategy"] == "Webhook";
    test.until("it is converted", "customresourcedefinitions", KIND, converts).await;
    // An object in the older version.
    let older = json!({
        "apiVersion": "voting.schoolofdevops.com/v1alpha1", "kind": "VoteConfig",
        "metadata": {"name": NAME, "namespace": test.cluster.namespace()},
        "spec": {"question": "Pets", "choices": "Cats, Dogs"},
    });
    test.cluster.apply(&older.to_string()).await;
    let made = test.until("it is made", "configmaps", CONFIG, is("Cats\nDogs")).await;
    first.kill().await;
    // No operator runs during this edit.
    let edit = json!({"data": {"options": "Cats", "theirs": "x"}});
    test.cluster.patch("configmaps", CONFIG, &edit).await;

    let second = test.start();
    let right = test.until("it is put right", "configmaps", CONFIG, is("Cats\nDogs")).await;
    assert_eq!(right["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(right["data"]["theirs"], "x");
    let vote = synced(&test).await;
    assert_eq!(vote["status"]["configMap"], CONFIG);
    assert_eq!(vote["apiVersion"], "voting.schoolofdevops.com/v1");

    test.cluster.delete("configmaps", CONFIG).await;
    let is_new = |it: &Value| it["metadata"]["uid"] != made["metadata"]["uid"];
    test.until("it is made again", "configmaps", CONFIG, is_new).await;

    let doubled = json!({"spec": {"options": ["Cats", "cats"]}});
    test.cluster.patch(KIND, NAME, &doubled).await;
    test.line("failed permanently: spec.options: cats stands there twice").await;
    let good = json!({"spec": {"options": ["Cats", "Birds"]}});
    test.cluster.patch(KIND, NAME, &good).await;
    test.until("it is in sync", "configmaps", CONFIG, is("Cats\nBirds")).await;
    let vote = synced(&test).await;
    assert_eq!(vote["status"]["conditions"][0]["status"], "True");

    test.cluster.delete(KIND, NAME).await;
    test.until_gone(KIND, NAME).await;
    test.until_gone("configmaps", CONFIG).await;
    second.stop().await;
}

fn is(options: &str) -> impl Fn(&Value) -> bool {
    move |config| config["data"]["options"] == options
}

async fn synced(test: &Tutorial) -> Value {
    let so = |vote: &Value| {
        let observed = &vote["status"]["observedGeneration"];
        vote["status"]["updated"].is_string() && *observed == vote["metadata"]["generation"]
    };
    test.until("it is in sync", KIND, NAME, so).await
}
