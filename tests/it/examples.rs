//! The examples, each checked against its expected output: on a separate server, and on servers with earlier and later objects.

use std::fs;
use std::process::Command;

use kopf_rs_tests::{Program, TestCluster, built_program, scenarios};
use serde_json::Value;

use crate::cli::{PATIENCE, ended, kopf_rs, root};

scenarios! {
    myapp [tcp real];
    myapp_template [tcp];
    myapp_in_a_single_file [tcp];
    myapp_in_a_program_of_its_own [tcp];
}

const BANNER: &str = "Hello from kopf-rs! 🚀";

/// Returns the lines that a run of the example must show.
fn expected(example: &str) -> Vec<String> {
    let text = read(&format!("{example}/expected.txt"));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

fn read(file: &str) -> String {
    let path = root().join("examples").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns a sample object in the cluster's namespace.
fn sample(cluster: &TestCluster, file: &str) -> String {
    let namespace = format!("namespace: {}", cluster.namespace());
    read(&format!("myapp/{file}")).replace("namespace: default", &namespace)
}

async fn shows_what_it_promises(path: &str, objects: &str) {
    let (path, applied) = (format!("examples/{path}"), format!("examples/{objects}"));
    let args = ["run", &path, "--embedded", "--apply", &applied, "--verbose", "--once"];
    let expected = expected(objects);
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    ended(kopf_rs(&args)).await.with(1, &expected);
}

#[tokio::test]
async fn myapp_shows_what_it_promises() {
    shows_what_it_promises("myapp", "myapp").await;
}

#[tokio::test]
async fn myapp_template_shows_what_it_promises() {
    shows_what_it_promises("myapp-template", "myapp-template").await;
}

#[tokio::test]
async fn the_single_file_shows_what_it_promises() {
    shows_what_it_promises("myapp.rs", "myapp").await;
}

async fn myapp(cluster: TestCluster) {
    lives(cluster, |flags| kopf_rs(&[&["run", "examples/myapp"], flags].concat())).await;
}

async fn myapp_template(cluster: TestCluster) {
    lives(cluster, |flags| kopf_rs(&[&["run", "examples/myapp-template"], flags].concat())).await;
}

async fn myapp_in_a_single_file(cluster: TestCluster) {
    lives(cluster, |flags| kopf_rs(&[&["run", "examples/myapp.rs"], flags].concat())).await;
}

/// Plays an object from before the start, one from after it, and an invalid one.
async fn lives(cluster: TestCluster, start: impl Fn(&[&str]) -> Command) {
    cluster.apply(&read("myapp/crd.yaml")).await;
    cluster.apply(&sample(&cluster, "example-app.yaml")).await;
    let kubeconfig = cluster.kubeconfig().to_str().expect("an ASCII path").to_owned();
    let flags = ["--kubeconfig", &kubeconfig, "-n", cluster.namespace(), "--verbose"];
    let mut program = Program::start(start(&flags), PATIENCE);
    let line = |text: String| {
        let lines = program.lines();
        let wanted = text.clone();
        async move { lines.until(&text, |line| line.contains(&wanted)).await }
    };
    let place = cluster.namespace().to_owned();
    line(format!("[{place}/example-app] Creation is in progress")).await;
    line(format!("[{place}/example-app] Pod example-app-pod created.")).await;
    line(format!("[{place}/example-app] Handler 'create_myapp' succeeded.")).await;
    check_pod(&cluster, "example-app").await;
    let late = sample(&cluster, "example-app.yaml").replace("name: example-app", "name: late-app");
    cluster.apply(&late).await;
    line(format!("[{place}/late-app] Handler 'create_myapp' succeeded.")).await;
    check_pod(&cluster, "late-app").await;
    cluster.apply(&sample(&cluster, "missing-image.yaml")).await;
    line(format!(
        "[{place}/missing-image] Handler 'create_myapp' failed permanently: Field 'spec.image' must be provided."
    ))
    .await;
    program.signal("TERM").await;
    assert_eq!(program.ended().await.code(), Some(0));
}

async fn check_pod(cluster: &TestCluster, name: &str) {
    let pod = cluster.get("pods", &format!("{name}-pod")).await.expect("the Pod is there");
    let container = &pod["spec"]["containers"][0];
    assert_eq!(pod["metadata"]["labels"]["app"], name);
    assert_eq!(container["name"], name);
    assert_eq!(container["image"], "nginx:latest");
    assert_eq!(container["ports"][0]["containerPort"], 80);
    let env: &Value = &container["env"][0];
    assert_eq!((env["name"].as_str(), env["value"].as_str()), (Some("BANNER"), Some(BANNER)));
}

async fn myapp_in_a_program_of_its_own(cluster: TestCluster) {
    cluster.apply(&read("myapp/crd.yaml")).await;
    cluster.apply(&sample(&cluster, "example-app.yaml")).await;
    let mut command = Command::new(built_program("myapp-in-a-program"));
    command.env("KUBECONFIG", cluster.kubeconfig()).env("NAMESPACE", cluster.namespace());
    let mut program = Program::start(command, PATIENCE);
    let counted = |line: &str| line.contains("Handler 'count' succeeded.");
    program.lines().until("of the closure", counted).await;
    check_pod(&cluster, "example-app").await;
    program.signal("INT").await;
    assert_eq!(program.ended().await.code(), Some(0));
    let told = |line: &str| line.contains("1 created, 0 failed for good");
    program.lines().until("at the end", told).await;
}
