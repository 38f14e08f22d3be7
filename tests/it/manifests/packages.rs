//! `--format`, `-o` and `--check`: Helm, kubectl and kustomize read what is written, and make the same objects of it as plain `--manifests`
//! prints.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

use kopf_rs_tests::{TestCluster, Tool, ToolError, documents, scenarios, skipped, tool};
use serde_json::{Map, Value};

use crate::accounts::{EXAMPLES, definitions_of};
use crate::cli::{Folder, operator};

scenarios! {
    servers_accept_what_is_written [tcp real];
}

/// The kind, the namespace and the name of an object.
type Key = [String; 3];

/// Returns the path of a tool; `None` if Go is missing, which is then recorded.
fn tool_for(test: &str, name: Tool) -> Option<PathBuf> {
    match tool(name) {
        Ok(path) => Some(path),
        Err(ToolError::Missing(missing)) => {
            skipped(test, &missing);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn run(mut command: Command) -> (bool, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.success(), text(stdout), text(stderr))
}

/// Runs a command that succeeds, and returns its output.
#[track_caller]
fn output(command: Command) -> String {
    let shown = format!("{command:?}");
    let (succeeded, printed, said) = run(command);
    assert!(succeeded, "{shown}\n{printed}\n{said}");
    printed
}

/// Returns what `myapp` prints with these arguments.
fn manifests(args: &[&str]) -> Command {
    manifests_of("myapp", args)
}

fn manifests_of(example: &str, args: &[&str]) -> Command {
    let definitions = definitions_of(example);
    let definitions: Vec<&str> = definitions.iter().map(String::as_str).collect();
    operator(example, &[&["--manifests"], &definitions[..], args].concat())
}

fn command(program: &PathBuf, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env("HOME", Folder::new("home").path());
    command
}

/// Drops empty values, which Kubernetes takes for absent ones, and what a chart adds.
fn plain(value: Value) -> Value {
    let added = ["helm.sh/chart", "app.kubernetes.io/managed-by", "helm.sh/resource-policy"];
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(key, _)| !added.contains(&key.as_str()));
            let fields = fields.map(|(key, value)| (key, plain(value)));
            let is_empty = |value: &Value| {
                value.is_null()
                    || value.as_array().is_some_and(Vec::is_empty)
                    || value.as_object().is_some_and(Map::is_empty)
            };
            Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => items.into_iter().map(plain).collect(),
        other => other,
    }
}

fn by_key(objects: Vec<Value>) -> BTreeMap<Key, Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key =
        |it: &Value| [text(&it["kind"]), text(&it["metadata"]["namespace"]), text(&it["metadata"]["name"])];
    objects.into_iter().map(|it| (key(&it), plain(it))).collect()
}

/// Returns the objects as a chart has them: without the namespace, which Helm creates, and with other names for the roles of namespaces
/// that are no values.
fn as_in_a_chart(printed: &str, watched: &[&str]) -> BTreeMap<Key, Value> {
    let mut objects = documents(printed);
    objects.retain(|it| it["kind"] != "Namespace");
    for object in &mut objects {
        let kind = object["kind"].as_str().unwrap_or_default();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let is_role = ["Role", "RoleBinding"].contains(&kind);
        if is_role && !watched.contains(&namespace) {
            let is_binding = kind == "RoleBinding";
            object["metadata"]["name"] = "myapp-operator".into();
            if is_binding {
                object["roleRef"]["name"] = "myapp-operator".into();
            }
        }
    }
    by_key(objects)
}

#[test]
fn a_chart_renders_the_objects_that_are_printed() {
    let Some(helm) = tool_for("manifests::packages::a_chart_renders", Tool::Helm) else {
        return;
    };
    for (at, (args, watched)) in [
        (&[][..], &[][..]),
        (&["-A", "--image", "a:1", "--metrics", "0.0.0.0:9090"], &[]),
        (&["-n", "a", "-n", "b", "--lease", "--replicas", "3"], &["a", "b"]),
        (&["-n", "team-*", "--lease", "--replicas", "1"], &[]),
    ]
    .into_iter()
    .enumerate()
    {
        let chart = Folder::new(&format!("chart-{at}")).at("");
        let written = output(manifests(&[args, &["--format", "helm", "-o", &chart]].concat()));
        assert!(written.contains(&format!("helm upgrade --install myapp {chart}")), "{written}");
        output(command(&helm, &["lint", "--strict", &chart]));
        let rendered = output(command(&helm, &["template", "myapp", &chart, "--namespace", "myapp"]));
        let printed = output(manifests(args));
        assert_eq!(by_key(documents(&rendered)), as_in_a_chart(&printed, watched), "{args:?}");
    }
}

#[test]
fn values_of_a_chart_have_the_effect_of_flags() {
    let Some(helm) = tool_for("manifests::packages::values_of_a_chart", Tool::Helm) else {
        return;
    };
    let chart = Folder::new("chart-values").at("");
    output(manifests(&["--lease", "--format", "helm", "-o", &chart]));
    let values = "namespaces={x,myapp},image=b:2,replicas=3,settings.posting.enabled=true";
    let rendered = output(command(&helm, &["template", "myapp", &chart, "-n", "myapp", "--set", values]));
    let settings = Folder::new("chart-settings").file("settings.yaml", "posting:\n  enabled: true");
    let flags = ["-n", "x", "-n", "myapp", "--lease", "--image", "b:2", "--replicas", "3", "--settings"];
    let printed = output(manifests(&[&flags[..], &[&settings.at("settings.yaml")]].concat()));
    let mut rendered = by_key(documents(&rendered));
    let mut printed = as_in_a_chart(&printed, &["x", "myapp"]);
    // The operator's own namespace has two roles in the chart, and one role otherwise.
    let own = |name: &str| ["Role", "myapp", name].map(str::to_owned);
    let rules = |role: Option<Value>| {
        role.map_or(Vec::new(), |it| it["rules"].as_array().cloned().unwrap_or_default())
    };
    let both =
        [rules(rendered.remove(&own("myapp"))), rules(rendered.remove(&own("myapp-operator")))].concat();
    let one = rules(printed.remove(&own("myapp")));
    assert!(one.iter().all(|rule| both.contains(rule)) && one.len() == both.len(), "{one:?}\n{both:?}");
    rendered.remove(&["RoleBinding", "myapp", "myapp-operator"].map(str::to_owned));
    // The digests of the settings have other forms.
    for objects in [&mut rendered, &mut printed] {
        let deployment = ["Deployment", "myapp", "myapp"].map(str::to_owned);
        let template = &mut objects.get_mut(&deployment).expect("a Deployment")["spec"]["template"];
        assert!(template["metadata"]["annotations"]["kopf.rs/settings"].take().is_string());
    }
    assert_eq!(rendered, printed);
}

#[test]
fn invalid_values_are_refused() {
    let Some(helm) = tool_for("manifests::packages::invalid_values", Tool::Helm) else {
        return;
    };
    let chart = Folder::new("chart-invalid").at("");
    output(manifests(&["--format", "helm", "-o", &chart]));
    for (value, place, problem) in [
        ("replicas=two", "/replicas", "want integer"),
        ("replicas=2", "", "printed with --lease"),
        ("image=", "/image", "minLength"),
        ("namespaces={A_B}", "/namespaces/0", "pattern"),
        ("imag=a", "", "additional properties 'imag' not allowed"),
        ("settings.queueing.workr_limit=1", "/settings/queueing", "'workr_limit' not allowed"),
        ("settings.networking.request_timeout=soon", "/settings/networking/request_timeout", "pattern"),
        ("resources.request.cpu=1", "/resources", "'request' not allowed"),
    ] {
        let (succeeded, _, said) = run(command(&helm, &["template", "myapp", &chart, "--set", value]));
        assert!(!succeeded && said.contains(place) && said.contains(problem), "{value}: {said}");
    }
}

#[test]
fn files_and_definitions_are_checked() {
    let folder = Folder::new("checked");
    let at = folder.at("");
    // Files of an earlier run.
    std::fs::remove_dir_all(folder.path()).expect("it can be removed");
    let check = |args: &[&str]| run(manifests(&[args, &["-o", &at, "--check"]].concat()));
    let (succeeded, _, said) = check(&[]);
    assert!(!succeeded && said.contains("2-permissions.yaml is missing"), "{said}");
    for format in ["yaml", "kustomize", "helm"] {
        output(manifests(&["--format", format, "-o", &at]));
        let (succeeded, _, said) = check(&["--format", format]);
        assert!(succeeded, "{format}: {said}");
    }
    let (succeeded, _, said) = check(&[]);
    assert!(!succeeded && said.contains("values.schema.json is superfluous"), "{said}");
    assert!(said.contains("run the same command without --check"), "{said}");
    // A definition with a field that the present one lacks.
    let definition = "templates/crd-myapps.demo.rtfm.co.ua.yaml";
    let text = std::fs::read_to_string(folder.path().join(definition)).expect("it is written");
    let former = text.replace("banner:", "motto:");
    assert_ne!(former, text);
    // A template of the user, which is no YAML.
    let own = "{{ if .Values.own }}\nkind: CustomResourceDefinition\nspec: [\n{{ end }}\n";
    let folder = folder.file(definition, &former).file("templates/own.yaml", own);
    let (succeeded, _, said) = check(&["--format", "helm"]);
    let lost = "myapps.demo.rtfm.co.ua: spec.versions[v1].schema spec.motto: the field is removed";
    let (before, after) = said.split_once(&format!("{definition} differs")).expect("it differs");
    assert!(!succeeded && before.contains(lost) && !after.contains("run the same command"), "{said}");
    let (succeeded, _, said) = run(manifests(&["--format", "helm", "-o", &at]));
    assert!(succeeded && said.contains(&format!("warning: this breaks stored objects: {lost}")), "{said}");
    let folder = folder.file("Chart.yaml", "name: mine\n");
    let (succeeded, _, said) = run(manifests(&["--format", "helm", "-o", &at]));
    assert!(!succeeded && said.contains("would be overwritten: Chart.yaml"), "{said}");
    assert_eq!(
        std::fs::read_to_string(folder.path().join("Chart.yaml")).ok().as_deref(),
        Some("name: mine\n")
    );
}

#[test]
fn kustomize_builds_the_objects_that_are_printed() {
    let Some(kubectl) = tool_for("manifests::packages::kustomize_builds", Tool::Kubectl) else {
        return;
    };
    for (at, args) in [&["--image", "a.example:5000/a:1"][..], &["-n", "a", "--lease", "--image", "a"]]
        .into_iter()
        .enumerate()
    {
        let folder = Folder::new(&format!("kustomize-{at}")).at("");
        output(manifests(&[args, &["--format", "kustomize", "-o", &folder]].concat()));
        let built = output(command(&kubectl, &["kustomize", &folder]));
        let printed = output(manifests(args));
        assert_eq!(by_key(documents(&built)), by_key(documents(&printed)), "{args:?}");
    }
}

async fn servers_accept_what_is_written(cluster: TestCluster) {
    let namespace = cluster.namespace().to_owned();
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let write = move || {
        let test = "manifests::packages::servers_accept_what_is_written";
        let Some((kubectl, helm)) = tool_for(test, Tool::Kubectl).zip(tool_for(test, Tool::Helm)) else {
            return;
        };
        let server = ["--kubeconfig", &kubeconfig, "--dry-run=server"];
        let own = ["--install-namespace", namespace.as_str()];
        for (example, _) in EXAMPLES {
            let folder = |name: &str| Folder::new(&format!("{name}-{example}-{namespace}")).at("");
            let (kustomize, chart) = (folder("kustomize"), folder("chart"));
            output(manifests_of(example, &[&own[..], &["--format", "kustomize", "-o", &kustomize]].concat()));
            output(manifests_of(example, &["--format", "helm", "-o", &chart]));
            let applied = output(command(&kubectl, &[&["apply", "-k", &kustomize], &server[..]].concat()));
            let is_accepted =
                applied.contains(&format!("deployment.apps/{example} created (server dry run)"));
            assert!(is_accepted, "{applied}");
            output(command(&helm, &["lint", "--strict", &chart]));
            // Other tests have the same definitions on the shared server.
            let install = ["install", example, &chart, "--namespace", &namespace, "--take-ownership"];
            let installed = output(command(&helm, &[&install[..], &server].concat()));
            assert!(installed.contains("kind: Deployment"), "{installed}");
        }
    };
    tokio::task::spawn_blocking(write).await.expect("it does not panic");
}
