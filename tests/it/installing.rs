//! `--install`, `--upgrade` and `--uninstall` of an operator as a process. The tests beside the code cover the details.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use kopf_rs_apiserver::WorkloadOptions;
use kopf_rs_tests::{Program, TestCluster, say, scenarios};
use serde_json::Value;

use crate::cli::{Ended, ended, operator, root};

const PATIENCE: Duration = Duration::from_secs(180);

scenarios! {
    an_operator_is_installed_upgraded_and_removed [tcp real];
    a_process_that_is_killed_after_each_change_continues [tcp real];
}

/// Returns `myapp` for this namespace, under a name of its own.
fn command(cluster: &TestCluster, more: &[&str]) -> Command {
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
    operator("myapp", &[&args, more].concat())
}

async fn run(cluster: &TestCluster, more: &[&str]) -> Ended {
    ended(command(cluster, more)).await
}

/// Kills the process after each change that it reports, and repeats it until it prints its last line. Returns the number of kills.
async fn kill_after_each_change(cluster: &TestCluster, args: &[&str], last: &str) -> usize {
    let mut reported = BTreeSet::new();
    loop {
        let program = Program::start(command(cluster, args), PATIENCE);
        let is_new = |line: &str| {
            let is_change = [" created", " configured", " deleted"].iter().any(|word| line.ends_with(word));
            is_change && !reported.contains(line)
        };
        let line =
            program.lines().until("of a change, or the last one", |it| it.contains(last) || is_new(it)).await;
        if line.contains(last) {
            return reported.len();
        }
        reported.insert(line);
        // The drop of the program kills it.
    }
}

async fn a_process_that_is_killed_after_each_change_continues(cluster: TestCluster) {
    let install = ["--image", "a:1", "--timeout", "1s"];
    let upgrade = ["--image", "a:2", "--timeout", "1s", "--lease", "--metrics", "0.0.0.0:9090"];
    let mut kills = Vec::new();
    for (task, args) in [("--install", &install[..]), ("--upgrade", &upgrade[..])] {
        // No node runs Pods.
        let awaited = "still waiting after";
        kills.push(kill_after_each_change(&cluster, &[&[task], args].concat(), awaited).await);
        let rest = run(&cluster, &[&["--upgrade", "--dry-run"], args].concat()).await;
        // Other tests write to the definition on the shared server.
        let is_own =
            |line: &&str| line.starts_with("+++ wanted/") && !line.contains("/customresourcedefinition.");
        assert!(rest.code == Some(0) && rest.said.lines().find(is_own).is_none(), "{}", rest.said);
    }
    kills.push(kill_after_each_change(&cluster, &["--uninstall"], "The operator test-").await);
    say(&format!("kills of install, upgrade and uninstall: {kills:?}"));
    assert!(kills.iter().all(|it| *it > 1), "{kills:?}");
    run(&cluster, &["--uninstall"]).await.with(0, &["is not installed."]);
    for kind in
        ["deployments.apps", "roles", "rolebindings", "serviceaccounts", "poddisruptionbudgets.policy"]
    {
        let left = cluster.list(kind).await;
        let is_own = |it: &&Value| it["metadata"]["name"] != "default";
        assert_eq!(left.iter().find(is_own), None, "{kind}");
    }
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
    failed.with(1, &[&format!("{deployment} created"), "still waiting after 1 seconds (--timeout)"]);
    let account = cluster.get("serviceaccounts", &name).await.unwrap_or_default();
    assert_eq!(account["metadata"]["labels"][format!("{name}.kopf.rs/installed-in")], *name);
    if let Some(server) = cluster.in_process() {
        server.workloads(WorkloadOptions::new());
        // Its status would otherwise change while the command applies it.
        let is_ready = |it: Option<&Value>| it.is_some_and(|it| it["status"]["readyReplicas"] == 1);
        cluster.until("its Pod is ready", "deployments.apps", &name, is_ready).await;
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
