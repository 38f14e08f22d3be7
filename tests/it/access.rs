//! kubectl's requests about users and permissions, on both servers over TCP.

use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::json;

scenarios! {
    kubectl_shows_the_user_and_its_permissions [tcp real];
    kubectl_makes_tokens_that_count [tcp real];
}

/// Returns the output of kubectl; `None` if kubectl is unavailable.
async fn printed(cluster: &TestCluster, args: &[&str]) -> Option<(bool, String)> {
    let output = cluster.kubectl(args).await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    Some((output.status.success(), text + &errors))
}

/// Lets a user read Pods and their logs.
async fn let_look(cluster: &TestCluster, user: &str) {
    let api = "rbac.authorization.k8s.io";
    let rules =
        json!([{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list", "watch"]}]);
    let version = format!("{api}/v1");
    cluster
        .create(&json!({"apiVersion": version, "kind": "Role", "metadata": {"name": "look"}, "rules": rules}))
        .await;
    cluster
        .create(&json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": {"name": "look"},
            "roleRef": {"apiGroup": api, "kind": "Role", "name": "look"},
            "subjects": [{"kind": "User", "name": user}],
        }))
        .await;
}

async fn kubectl_shows_the_user_and_its_permissions(cluster: TestCluster) {
    let user = cluster.restricted_user();
    let token = format!("--token={user}-token");
    let Some((done, whoami)) = printed(&cluster, &["auth", "whoami", &token]).await else {
        return;
    };
    assert!(done && whoami.contains(&user), "{whoami}");
    assert!(whoami.contains("[system:authenticated]"), "{whoami}");
    let can = ["auth", "can-i", "list", "pods", &token];
    let (done, answer) = printed(&cluster, &can).await.expect("kubectl is there");
    assert!(!done && answer.starts_with("no"), "{answer}");
    let_look(&cluster, &user).await;
    let allowed = async {
        loop {
            let (done, answer) = printed(&cluster, &can).await.expect("kubectl is there");
            if done {
                return answer;
            }
        }
    };
    let allowed = tokio::time::timeout(cluster.server().patience(), allowed).await;
    assert_eq!(allowed.expect("the binding counts soon"), "yes\n");
    let list = ["auth", "can-i", "--list", &token];
    let (done, list) = printed(&cluster, &list).await.expect("kubectl is there");
    assert!(done && list.contains("pods/log") && list.contains("[get list watch]"), "{list}");
    let (done, refused) = printed(&cluster, &["get", "secrets", &token]).await.expect("kubectl is there");
    assert!(!done && refused.contains("cannot list resource \"secrets\""), "{refused}");
    let other = ["get", "pods", "--as=somebody", "--as-group=else"];
    let (done, refused) = printed(&cluster, &other).await.expect("kubectl is there");
    assert!(!done && refused.contains("User \"somebody\" cannot list"), "{refused}");
}

async fn kubectl_makes_tokens_that_count(cluster: TestCluster) {
    cluster.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}").await;
    let Some((done, token)) = printed(&cluster, &["create", "token", "robot"]).await else {
        return;
    };
    assert!(done, "{token}");
    let argument = format!("--token={}", token.trim());
    let name = format!("system:serviceaccount:{}:robot", cluster.namespace());
    let (done, whoami) = printed(&cluster, &["auth", "whoami", &argument]).await.expect("kubectl is there");
    assert!(done && whoami.contains(&name), "{whoami}");
    let longer = ["create", "token", "robot", "--duration=20m", "-o", "json"];
    let (done, answer) = printed(&cluster, &longer).await.expect("kubectl is there");
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("kubectl prints JSON");
    assert!(done);
    assert_eq!(answer["spec"]["expirationSeconds"], 1200);
}
