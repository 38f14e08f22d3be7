//! `--manifests`: an operator runs with the printed objects, and with no other permissions.

mod packages;

use std::fs;
use std::path::PathBuf;

use kopf_rs_tests::{Program, TestCluster, documents, scenarios};
use serde_json::{Value, json};

use crate::cli::{PATIENCE, operator, root};

scenarios! {
    the_printed_permissions_are_enough [tcp real];
}

/// Returns what `myapp` prints for a namespace, without a server.
pub(crate) async fn printed(namespace: &str, more: &[&str]) -> String {
    let definition = root().join("examples/myapp/crd.yaml").display().to_string();
    let args = ["--manifests", "--apply", &definition, "--install-namespace", namespace, "-n", namespace];
    let mut command = operator("myapp", &[&args, more].concat());
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.expect("it does not panic").expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Writes a kubeconfig for a user without other rights.
pub(crate) fn kubeconfig_of(cluster: &TestCluster, user: &str) -> PathBuf {
    let text = fs::read_to_string(cluster.kubeconfig()).expect("the administrator's kubeconfig");
    let mut config = documents(&text).remove(0);
    config["users"][0]["user"] = json!({"token": format!("{user}-token")});
    let path = cluster.kubeconfig().with_file_name(format!("{}-{user}", cluster.namespace()));
    fs::write(&path, config.to_string()).expect("the folder can be written to");
    path
}

async fn the_printed_permissions_are_enough(cluster: TestCluster) {
    let namespace = cluster.namespace();
    let printed = printed(namespace, &["--image", "myapp:1", "--lease"]).await;
    let user = cluster.restricted_user();
    for mut object in documents(&printed) {
        if let Some(subjects) = object.get_mut("subjects") {
            let account = json!({"kind": "ServiceAccount", "name": "myapp", "namespace": namespace});
            assert_eq!(*subjects, json!([account]));
            *subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]);
        }
        cluster.apply(&object.to_string()).await;
    }
    let deployment = cluster.get("deployments.apps", "myapp").await.expect("the Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "myapp:1");
    let args: Vec<&str> =
        container["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let flag = format!("--namespace={namespace}");
    assert_eq!(args[..3], [flag.as_str(), "--name=myapp", "--lease"]);
    let kubeconfig = kubeconfig_of(&cluster, &user).display().to_string();
    // The name is given to all programs of tests.
    let mut command = operator("myapp", &["--kubeconfig", &kubeconfig, args[0], args[2]]);
    command.env("KOPF_RS_LEASE_NAMESPACE", namespace);
    let mut program = Program::start(command, PATIENCE);
    let sample = fs::read_to_string(root().join("examples/myapp/example-app.yaml")).expect("the sample");
    cluster.apply(&sample.replace("namespace: default", &format!("namespace: {namespace}"))).await;
    let handled = |line: &str| line.contains("Handler 'create_myapp' succeeded.");
    program.lines().until("the object is handled", handled).await;
    program.signal("TERM").await;
    assert_eq!(program.ended().await.code(), Some(0));
    // Namespaces that are given by name need not be watched.
    let is_needless = |line: &str| line.contains("to watch namespaces");
    let is_refusal = |line: &str| line.contains("To permit it") || line.contains("orbidden");
    let is_missing = |line: &str| line.contains("lacks permissions");
    let refused = |line: &&String| (is_refusal(line) || is_missing(line)) && !is_needless(line);
    let lines = program.lines().all();
    assert_eq!(lines.iter().filter(refused).collect::<Vec<_>>(), [] as [&String; 0]);
}
