//! The examples, each with only the permissions that it prints: it works, and it names each one that is missing.

use std::fs;
use std::process::Command;

use kopf_rs_tests::{TestCluster, documents, say, scenarios};
use serde_json::{Value, json};

use crate::cli::{operator, root};
use crate::least_rights::{Rule, rules_not_named, rules_of, run_with_only};

scenarios! {
    configmonitor [tcp real];
    cronjob [tcp real];
    mysqlcluster [tcp real];
    myingress [tcp real];
    replicator [tcp real];
    // The definition of the shared real server keeps its conversion by a Service without Pods, which breaks `it tutorials::voteconfig`.
    voteconfig [tcp];
    webapp [tcp real];
}

/// The examples, each with the file of its definitions if it has no Rust types.
pub(crate) const EXAMPLES: [(&str, Option<&str>); 8] = [
    ("configmonitor", Some("crd.yaml")),
    ("cronjob", None),
    ("myapp", Some("crd.yaml")),
    ("myingress", Some("crd.yaml")),
    ("mysqlcluster", None),
    ("replicator", None),
    ("voteconfig", Some("crd.yaml")),
    ("webapp", Some("crd.yaml")),
];

/// Returns the arguments that apply the definitions of an example.
pub(crate) fn definitions_of(example: &str) -> Vec<String> {
    let of_it = EXAMPLES.iter().find(|(name, _)| *name == example);
    let file = of_it.and_then(|(_, file)| *file);
    let path = file.map(|it| root().join("examples").join(example).join(it));
    path.iter().map(|it| format!("--apply={}", it.display())).collect()
}

/// An example, and how to see that it works.
struct Example<'a> {
    name: &'static str,
    /// The file of its objects.
    objects: &'static str,
    /// A part of a line that the operator logs once it has written something.
    line: Option<&'static str>,
    /// The scope, on the command line.
    scope: &'a [&'a str],
}

fn read(cluster: &TestCluster, example: &str, file: &str) -> String {
    let path = root().join("examples").join(example).join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let namespace = cluster.namespace();
    let text = text.replace("namespace: default", &format!("namespace: {namespace}"));
    text.replace("team-", &format!("{namespace}-team-"))
}

/// Returns all objects that the example prints.
async fn printed(cluster: &TestCluster, example: &Example<'_>) -> Vec<Value> {
    let definitions = definitions_of(example.name);
    let mut args = vec!["--manifests", "--standalone", "--install-namespace", cluster.namespace()];
    args.extend(definitions.iter().map(String::as_str));
    args.extend(example.scope);
    let mut command = operator(example.name, &args);
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.expect("it does not panic").expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    documents(&String::from_utf8(output.stdout).expect("UTF-8"))
}

/// Returns the environment variables of the printed container.
fn variables(objects: &[Value]) -> Vec<(String, String)> {
    let deployment = objects.iter().find(|it| it["kind"] == "Deployment").expect("a Deployment");
    let variables = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    variables.into_iter().flatten().map(|it| (text(&it["name"]), text(&it["value"]))).collect()
}

impl Example<'_> {
    fn command(&self, kubeconfig: &str, variables: &[(String, String)]) -> Command {
        let args = [&["--kubeconfig", kubeconfig, "--standalone"], self.scope].concat();
        let mut command = operator(self.name, &args);
        // The port of the printed Service may be in use.
        command.envs(variables.iter().cloned()).env("KOPF_RS_ADMISSION_LISTEN", "127.0.0.1:0");
        command
    }

    /// Runs the example with the printed permissions, and without each of them.
    async fn needs_what_it_prints(self, cluster: TestCluster) {
        let objects = printed(&cluster, &self).await;
        for definition in objects.iter().filter(|it| it["kind"] == "CustomResourceDefinition") {
            cluster.apply(&definition.to_string()).await;
        }
        let (rules, variables) = (rules_of(&objects), variables(&objects));
        cluster.apply(&read(&cluster, self.name, self.objects)).await;
        if self.name == "cronjob" {
            // Makes a start due at once.
            let missed = json!({"status": {"lastScheduleTime": "2026-01-01T00:00:00Z"}});
            cluster.patch("cronjobs.batch.example.com", "hello/status", &missed).await;
        }
        if let Some(line) = self.line {
            self.works(&cluster, &rules, line).await;
        }
        let command = |kubeconfig: &str| self.command(kubeconfig, &variables);
        let (tried, not_named) = rules_not_named(&cluster, &rules, command).await;
        let named = tried - not_named.len();
        say(&format!("{}: rules tried / named: {tried} / {named}", self.name));
        assert!(tried > 2, "{rules:?}");
        assert_eq!(not_named, [] as [Value; 0]);
    }

    /// Waits until the operator has handled the example's object.
    async fn works(&self, cluster: &TestCluster, rules: &[Rule], line: &str) {
        let local = [("KOPF_RS_ADMISSION_SERVER".to_owned(), "local".to_owned())];
        let command = |kubeconfig: &str| self.command(kubeconfig, &local);
        let mut program = run_with_only(cluster, rules, command).await;
        let written = |it: &str| it.contains(line);
        program.lines().until("the example works", written).await;
        program.signal("TERM").await;
        assert_eq!(program.ended().await.code(), Some(0));
        // Namespaces that are given by name need not be watched.
        let is_needless = |line: &str| line.contains("to watch namespaces");
        // A real server learns a new kind only after some seconds.
        let is_early = |line: &str| line.contains("cannot find RESTMapping");
        let is_refusal = |line: &&String| {
            !is_needless(line)
                && !is_early(line)
                && (line.contains("To permit it") || line.contains("orbidden"))
        };
        let lines = program.lines().all();
        assert_eq!(lines.iter().filter(is_refusal).collect::<Vec<_>>(), [] as [&String; 0]);
    }
}

async fn configmonitor(cluster: TestCluster) {
    let namespace = cluster.namespace().to_owned();
    let example = Example {
        name: "configmonitor",
        objects: "example-monitor.yaml",
        // `it configmonitor::` has the rest.
        line: None,
        scope: &["-n", &namespace],
    };
    example.needs_what_it_prints(cluster).await;
}

async fn cronjob(cluster: TestCluster) {
    let namespace = cluster.namespace().to_owned();
    let example = Example {
        name: "cronjob",
        objects: "example-cronjob.yaml",
        line: Some("Job `hello-"),
        scope: &["-n", &namespace],
    };
    example.needs_what_it_prints(cluster).await;
}

async fn mysqlcluster(cluster: TestCluster) {
    let namespace = cluster.namespace().to_owned();
    let example = Example {
        name: "mysqlcluster",
        objects: "example-cluster.yaml",
        line: Some("StatefulSet `example-cluster` is created"),
        scope: &["-n", &namespace],
    };
    example.needs_what_it_prints(cluster).await;
}

async fn myingress(cluster: TestCluster) {
    let namespace = cluster.namespace().to_owned();
    let example = Example {
        name: "myingress",
        objects: "example-ingress.yaml",
        // It writes to a cloud: `it myingress::` has a fake of that.
        line: None,
        scope: &["-n", &namespace],
    };
    example.needs_what_it_prints(cluster).await;
}

async fn replicator(cluster: TestCluster) {
    let example = Example {
        name: "replicator",
        objects: "example-secret.yaml",
        line: Some("Secret `registry` is created"),
        scope: &[],
    };
    example.needs_what_it_prints(cluster).await;
}

async fn voteconfig(cluster: TestCluster) {
    let namespace = cluster.namespace().to_owned();
    let example = Example {
        name: "voteconfig",
        objects: "example-vote.yaml",
        line: Some("ConfigMap `example-vote-config` is created"),
        scope: &["-n", &namespace],
    };
    example.needs_what_it_prints(cluster).await;
}

async fn webapp(cluster: TestCluster) {
    let namespace = cluster.namespace().to_owned();
    let example = Example {
        name: "webapp",
        objects: "example-webapp.yaml",
        line: Some("Deployment `example-webapp` is created"),
        // It publishes Services in that namespace.
        scope: &["-n", &namespace, "-n", "published"],
    };
    example.needs_what_it_prints(cluster).await;
}
