//! The example `ConfigMonitor` behind `kubectl proxy`: it registers its kind and stays within the permissions of its role.

use std::path::PathBuf;
use std::process::Command;

use kopf_rs_tests::{Program, StartError, TestCluster, Tool, scenarios, skipped, tool};
use serde_json::{Value, json};

use crate::cli::{PATIENCE, kopf_rs, root};

scenarios! {
    pods_are_deleted_when_their_config_map_is_modified [tcp real];
}

const KINDS: &str = "configmonitors.demo.rtfm.co.ua";

async fn pods_are_deleted_when_their_config_map_is_modified(cluster: TestCluster) {
    let Some(proxy) = Proxy::start(&cluster).await else {
        return;
    };
    let program = start(&cluster, &proxy);
    told(&program, "Starting the service").await;
    let registered = |object: Option<&Value>| {
        object.is_some_and(|it| it["status"]["acceptedNames"]["kind"] == "ConfigMonitor")
    };
    let definitions = "customresourcedefinitions.apiextensions.k8s.io";
    cluster.until("the kind is there", definitions, KINDS, registered).await;
    told(&program, "Serving ").await;

    let objects = cluster.apply(&read(&cluster, "example-monitor.yaml")).await;
    assert_eq!(objects[1]["kind"], "ConfigMonitor");
    for (name, app) in [("one", "example-app"), ("two", "example-app"), ("other", "other")] {
        cluster.create(&pod(name, app)).await;
    }
    modify(&cluster, "other-config", 1).await;
    modify(&cluster, "other-config", 2).await;
    // The monitor may reach the operator after the first modification of the ConfigMap, so modify it until it is noticed.
    let mut greeting = 0;
    let mut pulse = tokio::time::interval(std::time::Duration::from_millis(200));
    while program.lines().count(|line| line.contains("Modification detected")) == 0 {
        pulse.tick().await;
        greeting += 1;
        modify(&cluster, "example-config", greeting).await;
    }
    for name in ["one", "two"] {
        cluster.until("it is deleted", "pods", name, |object| object.is_none()).await;
        told(&program, &format!("{name} was deleted successfully")).await;
    }
    assert!(cluster.get("pods", "other").await.is_some());
    let line = told(&program, "Modification detected").await;
    let about = format!("[{}/example-config]", cluster.namespace());
    assert!(line.contains(&about), "{line}");
    // These lines are expected: the kind is new, and the operator may not watch namespaces but serves the named one without that
    // permission.
    let is_expected = |line: &str| line.contains("not served yet") || line.contains("to watch namespaces");
    let forbidden = |line: &str| !is_expected(line) && (line.contains("ermission") || line.contains("ERROR"));
    let complaints: Vec<_> = program.lines().all().into_iter().filter(|it| forbidden(it)).collect();
    assert_eq!(complaints, Vec::<String>::new(), "the role is enough");
    program.signal("TERM").await;
}

fn pod(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    })
}

async fn modify(cluster: &TestCluster, name: &str, greeting: u32) {
    let data = json!({"greeting": greeting.to_string()});
    if cluster.get("configmaps", name).await.is_some() {
        cluster.patch("configmaps", name, &json!({"data": data})).await;
    } else {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        cluster.create(&object).await;
    }
}

/// Reads a file of the example, for the cluster's namespace.
fn read(cluster: &TestCluster, file: &str) -> String {
    let path = root().join("examples/configmonitor").join(file);
    let text = std::fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let namespace = cluster.namespace();
    text.replace("namespace: default", &format!("namespace: {namespace}"))
}

/// Returns the service account with the printed permissions.
async fn permissions(cluster: &TestCluster) -> String {
    let namespace = cluster.namespace();
    let definition = root().join("examples/configmonitor/crd.yaml").display().to_string();
    let install =
        ["--name", "configmonitor", "--install-namespace", namespace, "-n", namespace, "--standalone"];
    let args = [&["manifests", "examples/configmonitor", "--apply", &definition], &install[..]].concat();
    let mut command = kopf_rs(&args);
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.expect("it does not panic").expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = kopf_rs_tests::documents(&String::from_utf8_lossy(&output.stdout)).into_iter();
    let is_permission = |it: &Value| {
        let kind = it["kind"].as_str().unwrap_or_default();
        kind == "ServiceAccount" || kind.contains("Role")
    };
    let permissions = printed.filter(is_permission).map(|it| it.to_string());
    permissions.collect::<Vec<_>>().join("\n---\n")
}

/// A `kubectl proxy` with the permissions of the example's service account.
struct Proxy {
    _program: Program,
    kubeconfig: PathBuf,
}

impl Proxy {
    async fn start(cluster: &TestCluster) -> Option<Self> {
        let kubectl = match tool(Tool::Kubectl) {
            Ok(kubectl) => kubectl,
            Err(error) => {
                let error = StartError::Tool(error);
                let missing = error.missing().unwrap_or_else(|| panic!("kubectl: {error}"));
                skipped("configmonitor", missing);
                return None;
            }
        };
        cluster.apply(&permissions(cluster).await).await;
        let account = format!("system:serviceaccount:{}:configmonitor", cluster.namespace());
        let mut command = Command::new(kubectl);
        command
            .arg(format!("--kubeconfig={}", cluster.kubeconfig().display()))
            .arg(format!("--as={account}"))
            .args(["proxy", "--port=0"]);
        let program = Program::start(command, PATIENCE);
        let mark = "Starting to serve on ";
        let line = program.lines().until("its address", |line| line.contains(mark)).await;
        let address = line.split(mark).nth(1).unwrap_or_else(|| panic!("no address in {line}"));
        let deployed = read(cluster, "deployment.yaml");
        let kubeconfig = kopf_rs_tests::documents(&deployed).remove(0);
        let text = kubeconfig["data"]["kubeconfig.yaml"].as_str().expect("a kubeconfig");
        let text = text.replace("127.0.0.1:8001", address.trim());
        let path = cluster.kubeconfig().with_file_name(format!("proxy-{}.yaml", cluster.namespace()));
        std::fs::write(&path, text).expect("the folder of the kubeconfig can be written to");
        Some(Self { _program: program, kubeconfig: path })
    }
}

/// Starts the operator in the same way as its Deployment.
fn start(cluster: &TestCluster, proxy: &Proxy) -> Program {
    let mut command = kopf_rs(&["run", "examples/configmonitor"]);
    command
        .env("KUBECONFIG", &proxy.kubeconfig)
        .env("KOPF_RUN_STANDALONE", "true")
        .env("KOPF_RUN_NAMESPACES", cluster.namespace());
    Program::start(command, PATIENCE)
}

async fn told(program: &Program, text: &str) -> String {
    let has_text = |line: &str| line.contains(text);
    program.lines().until(text, has_text).await
}
