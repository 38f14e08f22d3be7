//! `--install`, `--upgrade` and `--uninstall` of an operator as a process. The tests beside the code cover the details.

use kopf_rs_apiserver::WorkloadOptions;
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::Value;

use crate::cli::{Ended, ended, operator, root};

scenarios! {
    an_operator_is_installed_upgraded_and_removed [tcp real];
}

/// Runs `myapp` for this namespace, under a name of its own.
async fn run(cluster: &TestCluster, more: &[&str]) -> Ended {
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let definition = root().join("examples/myapp/crd.yaml").display().to_string();
    let name = cluster.namespace();
    let args = [
        "--kubeconfig",
        &kubeconfig,
        "--apply",
        &definition,
        "--name",
        name,
        "--install-namespace",
        name,
        "-n",
        name,
    ];
    ended(operator("myapp", &[&args, more].concat())).await
}

async fn an_operator_is_installed_upgraded_and_removed(cluster: TestCluster) {
    let name = cluster.namespace().to_owned();
    let deployment = format!("deployment.apps/{name}");
    let shown = run(&cluster, &["--install", "--image", "a:1", "--dry-run"]).await;
    shown.with(0, &["--- /dev/null", &format!("+++ wanted/{deployment}"), "image: a:1"]);
    assert_eq!(cluster.get("deployments.apps", &name).await, None);
    run(&cluster, &["--upgrade"]).await.with(1, &["is not installed in the namespace", "upgrade --install"]);
    // No node runs Pods.
    let failed = run(&cluster, &["--install", "--image", "a:1", "--timeout", "1s"]).await;
    failed.with(1, &[&format!("{deployment} created"), "is not rolled out within 1 seconds"]);
    let account = cluster.get("serviceaccounts", &name).await.unwrap_or_default();
    assert_eq!(account["metadata"]["labels"][format!("{name}.kopf.rs/installed-in")], *name);
    if let Some(server) = cluster.in_process() {
        server.workloads(WorkloadOptions::new());
        run(&cluster, &["--install", "--image", "a:1"])
            .await
            .with(0, &[&format!("{deployment} unchanged"), &format!("{deployment} is rolled out")]);
        run(&cluster, &["--install", "--image", "a:2"])
            .await
            .with(1, &["installed", "already", "Use `upgrade`"]);
        run(&cluster, &["--upgrade", "--image", "a:2"]).await.with(0, &[&format!("{deployment} configured")]);
    }
    run(&cluster, &["--uninstall"]).await.with(
        0,
        &[
            &format!("{deployment} deleted"),
            &format!("serviceaccount/{name} deleted"),
            "The operator",
            "is removed from the namespace",
        ],
    );
    for kind in ["deployments.apps", "roles", "rolebindings", "serviceaccounts"] {
        assert_eq!(cluster.get(kind, &name).await.map(|it: Value| it["kind"].clone()), None, "{kind}");
    }
    run(&cluster, &["--uninstall"]).await.with(0, &["is not installed."]);
}
