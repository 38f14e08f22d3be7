//! Kubectl on a server that simulates workloads without nodes: rollouts, waiting, scaling, jobs; over TCP and in real time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kopf_rs_apiserver::{ApiServer, WorkloadOptions};
use kopf_rs_apiserver_tests::{Missing, Served, StartError, Tool, skipped, tool};

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "nginx:1", ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox, command: [date]}]}}}
"#;

fn program() -> Result<PathBuf, Missing> {
    tool(Tool::Kubectl).map_err(|error| {
        let error = StartError::Tool(error);
        let missing = error.missing().cloned();
        missing.unwrap_or_else(|| panic!("kubectl: {error}"))
    })
}

/// Runs kubectl, which must succeed, and returns its output.
fn kubectl(program: &Path, kubeconfig: &Path, args: &str) -> String {
    let output = Command::new(program)
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .args(args.split(' '))
        .output()
        .expect("kubectl can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "kubectl {args}: {out}{err}");
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_follows_workloads() {
    let program = match program() {
        Ok(program) => program,
        Err(missing) => return skipped("workloads::kubectl_follows_workloads", &missing),
    };
    let server = ApiServer::new();
    let fast = Duration::from_millis(300);
    server.workloads(
        WorkloadOptions::new()
            .ready_after(fast)
            .job_time(fast)
            .stop_after(fast),
    );
    let over_tls = Served::start(&server, &std::env::temp_dir()).await;
    let kubeconfig = over_tls.kubeconfig().to_owned();
    let manifest = kubeconfig.with_extension("yaml");
    std::fs::write(&manifest, DEPLOYMENT).expect("files can be written");
    let apply = format!("apply -f {}", manifest.display());
    let steps = tokio::task::spawn_blocking(move || {
        let run = |args: &str| kubectl(&program, &kubeconfig, args);
        run(&apply);
        let told = run("rollout status deployment/web --timeout=60s");
        assert!(told.contains("successfully rolled out"), "{told}");
        run("wait --for=condition=Available deployment/web --timeout=60s");
        run("wait --for=condition=Ready pod -l app=web --timeout=60s");
        run("wait --for=condition=complete job/once --timeout=60s");
        run("scale deployment/web --replicas=3");
        run("rollout status deployment/web --timeout=60s");
        run("set image deployment/web c=nginx:2");
        run("rollout status deployment/web --timeout=60s");
        let images = run("get pods -l app=web -o jsonpath={.items[*].spec.containers[0].image}");
        assert!(images.contains("nginx:2"), "{images}");
        let table = run("get deployment web");
        assert!(table.contains("3/3"), "{table}");
        run("rollout undo deployment/web");
        run("rollout status deployment/web --timeout=60s");
        let image = run("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}");
        assert_eq!(image, "nginx:1");
        let endpoints = run(
            "get endpointslices -l kubernetes.io/service-name=web -o jsonpath={.items[0].endpoints[*].addresses[0]}",
        );
        assert_eq!(endpoints.split(' ').count(), 3, "{endpoints}");
        run("delete deployment web --cascade=foreground --timeout=60s");
        let left = run("get replicasets -o name");
        assert_eq!(left, "");
    });
    steps.await.expect("the steps end");
    std::fs::remove_file(manifest).expect("what was written can be removed");
}
