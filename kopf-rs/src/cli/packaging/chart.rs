//! Turns the objects that install an operator into a Helm chart.
//!
//! The objects are printed for an operator in the namespace [`RELEASE`], once for all namespaces and once for the single namespace
//! [`WATCHED`]. The chart renders the former if no namespaces are given, and the latter for each given namespace. Pure: this module does not
//! know which objects an operator needs.

use serde_json::{Map, Value, json};

use crate::cli::packaging::values::Values;
use crate::cli::packaging::{File, Group, MARK};

/// The placeholder of the namespace of the release.
pub(in crate::cli) const RELEASE: &str = "kopf-rs-release-namespace";
/// The placeholder of a namespace that the operator serves.
pub(in crate::cli) const WATCHED: &str = "kopf-rs-watched-namespace";
/// The placeholder of the settings file's text.
pub(in crate::cli) const SETTINGS: &str = "kopf-rs-settings";

/// The parts of a chart.
#[derive(Debug)]
pub(in crate::cli) struct Chart<'a> {
    pub(in crate::cli) name: &'a str,
    /// The version of the program.
    pub(in crate::cli) version: &'a str,
    /// The objects of an operator of all namespaces, or of those that match patterns.
    pub(in crate::cli) everywhere: Vec<Value>,
    /// The objects of an operator of one namespace; `None` for patterns, because no role can be bound in the namespaces that match them.
    pub(in crate::cli) in_one: Option<Vec<Value>>,
    /// The arguments that select the namespaces.
    pub(in crate::cli) scope_args: Vec<String>,
    pub(in crate::cli) values: Values<'a>,
}

/// The facts that the Deployment of a chart depends on.
#[derive(Clone, Copy, Debug)]
struct Pods<'a> {
    scope_args: &'a [String],
    share_lease: bool,
}

/// When an object is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    Everywhere,
    InNamespaces,
    EachNamespace,
}

/// The replacement of a placeholder.
#[derive(Debug)]
enum Filling {
    /// A part of a line.
    Inline(String),
    /// A line that is rendered under a condition, or for each item of a list.
    Line { opening: &'static str, text: String, otherwise: Option<String> },
}

/// The placeholders in the objects. Each is a word that YAML needs not quote.
#[derive(Debug, Default)]
struct Placeholders(Vec<Filling>);

/// The maximum length of a label's value.
const LONGEST_LABEL: usize = 63;

const WITH_NAMESPACES: &str = "if .Values.namespaces";
const WITH_SETTINGS: &str = "if .Values.settings";
const SEVERAL_PODS: &str = "if gt (int .Values.replicas) 1";
const EACH_NAMESPACE: &str = "range .Values.namespaces";
const END: &str = "{{- end }}";

/// Returns the files of the chart.
pub(in crate::cli) fn files(chart: Chart<'_>) -> Result<Vec<File>, serde_saphyr::ser::Error> {
    let mut files = vec![File::new("Chart.yaml", &serde_saphyr::to_string(&about(&chart))?)];
    files.push(File::new("values.yaml", &chart.values.file()?));
    let schema = format!("{:#}\n", chart.values.schema(MARK));
    files.push(File { path: "values.schema.json".to_owned(), text: schema });
    let mut templates: Vec<(Group, String)> = Vec::new();
    let pods = Pods { scope_args: &chart.scope_args, share_lease: chart.values.shares_lease };
    let labels = labels(&chart);
    for (when, mut object) in cases(chart.everywhere, chart.in_one) {
        let group = Group::of(&object);
        for (label, value) in &labels {
            object["metadata"]["labels"][label] = value.as_str().into();
        }
        let text = template(when, object, pods)?;
        match templates.iter_mut().find(|(known, _)| *known == group) {
            Some((_, texts)) => {
                texts.push_str("---\n");
                texts.push_str(&text);
            }
            None => templates.push((group, text)),
        }
    }
    let templates = templates.into_iter();
    files
        .extend(templates.map(|(group, text)| File::new(&format!("templates/{}.yaml", group.name()), &text)));
    Ok(files)
}

/// Returns a template as YAML: without conditions and loops, and with a word in place of each value.
pub(in crate::cli) fn without_templates(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("{{-"));
    let mut plain = String::new();
    for line in lines {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("{{") {
            let (action, after) = after.split_once("}}").unwrap_or((after, ""));
            plain.push_str(before);
            plain.push_str(if action.trim() == "\"{{\"" { "{{" } else { "value" });
            rest = after;
        }
        plain.push_str(rest);
        plain.push('\n');
    }
    plain
}

fn about(chart: &Chart<'_>) -> Value {
    json!({
        "apiVersion": "v2",
        "name": chart.name,
        "description": format!("The operator {}", chart.name),
        "type": "application",
        "version": chart.version,
        "appVersion": chart.version,
    })
}

/// Returns the labels that the chart adds. They are literal, so that definitions in templates are plain YAML.
fn labels(chart: &Chart<'_>) -> [(&'static str, String); 2] {
    let name = format!("{}-{}", chart.name, chart.version.replace('+', "_"));
    let name: String = name.chars().take(LONGEST_LABEL).collect();
    let name = name.trim_end_matches(['-', '_', '.']).to_owned();
    [("app.kubernetes.io/managed-by", "Helm".to_owned()), ("helm.sh/chart", name)]
}

/// Returns the objects with the cases in which they are rendered: once if they do not depend on the namespaces.
fn cases(everywhere: Vec<Value>, in_one: Option<Vec<Value>>) -> Vec<(When, Value)> {
    // Helm creates the namespace of a release.
    let prepared = |objects: Vec<Value>| {
        let others = objects.into_iter().filter(|it| it["kind"] != "Namespace");
        others.map(renamed).collect::<Vec<_>>()
    };
    let everywhere = prepared(everywhere);
    let Some(in_one) = in_one.map(prepared) else {
        return everywhere.into_iter().map(|it| (When::Always, it)).collect();
    };
    let only_in_one: Vec<Value> = in_one.iter().filter(|it| !everywhere.contains(it)).cloned().collect();
    let case = |it: Value| (if in_one.contains(&it) { When::Always } else { When::Everywhere }, it);
    let mut cases: Vec<_> = everywhere.into_iter().map(case).collect();
    cases.extend(only_in_one.into_iter().map(|it| {
        let is_for_each = it["metadata"]["namespace"] == WATCHED;
        (if is_for_each { When::EachNamespace } else { When::InNamespaces }, it)
    }));
    cases
}

/// Renames roles of fixed namespaces: the values may name the same namespace, which then has two roles.
fn renamed(mut object: Value) -> Value {
    let is_role = object["kind"] == "Role" || object["kind"] == "RoleBinding";
    if is_role && object["metadata"]["namespace"] != WATCHED {
        let rename = |name: &mut Value| {
            if let Some(old) = name.as_str() {
                *name = format!("{old}-operator").into();
            }
        };
        rename(&mut object["metadata"]["name"]);
        if object["kind"] == "RoleBinding" {
            rename(&mut object["roleRef"]["name"]);
        }
    }
    object
}

/// Returns the template of an object.
fn template(when: When, mut object: Value, pods: Pods<'_>) -> Result<String, serde_saphyr::ser::Error> {
    let mut placeholders = Placeholders::default();
    let mut opening = match when {
        When::Always => None,
        When::Everywhere => Some("if not .Values.namespaces"),
        When::InNamespaces => Some(WITH_NAMESPACES),
        When::EachNamespace => Some(EACH_NAMESPACE),
    };
    let mut guard = "";
    match object["kind"].as_str().unwrap_or_default() {
        "CustomResourceDefinition" => {
            // Helm never upgrades definitions in the folder `crds`. As a template, a definition is upgraded, and this annotation keeps it,
            // and with it all objects of the kind, when the chart is uninstalled.
            object["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
            opening = Some("if .Values.crds.install");
        }
        "PodDisruptionBudget" => opening = Some(SEVERAL_PODS),
        "ConfigMap" => {
            opening = Some(WITH_SETTINGS);
            for text in object["data"].as_object_mut().into_iter().flat_map(Map::values_mut) {
                *text = placeholders.inline("{{ toYaml .Values.settings | quote }}".to_owned());
            }
        }
        "Deployment" => {
            placeholders.deployment(&mut object["spec"], pods.scope_args);
            if !pods.share_lease {
                guard = "{{- if gt (int .Values.replicas) 1 }}\n{{- fail \"replicas is more than 1, and several Pods would handle the same \
                         objects: expected at most 1, or a chart that is printed with --lease\" }}\n{{- end }}\n";
            }
        }
        _ => {}
    }
    placeholders.names(&mut object);
    let text = escaped(&serde_saphyr::to_string(&object)?);
    let text = placeholders.filled(&text);
    Ok(match opening {
        None => format!("{guard}{text}"),
        // Documents of a loop need a separator each.
        Some(EACH_NAMESPACE) => format!("{{{{- {EACH_NAMESPACE} }}}}\n---\n{text}{END}\n"),
        Some(opening) => format!("{guard}{{{{- {opening} }}}}\n{text}{END}\n"),
    })
}

/// Returns a text that Helm renders as it is.
fn escaped(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}

// === impl Placeholders ===

impl Placeholders {
    fn add(&mut self, filling: Filling) -> Value {
        self.0.push(filling);
        Self::name(self.0.len() - 1).into()
    }

    fn name(at: usize) -> String {
        format!("kopf-rs-placeholder-{at:03}")
    }

    fn inline(&mut self, text: String) -> Value {
        self.add(Filling::Inline(text))
    }

    /// Returns a placeholder of a line with this value, which is rendered under a condition.
    fn line(&mut self, opening: &'static str, value: &Value) -> Value {
        self.add(Filling::Line { opening, text: escaped(&value.to_string()), otherwise: None })
    }

    /// Replaces what the values of the chart decide in a Deployment.
    fn deployment(&mut self, spec: &mut Value, scope_args: &[String]) {
        spec["replicas"] = self.inline("{{ int .Values.replicas }}".to_owned());
        let strategy = r#"{{ ternary "RollingUpdate" "Recreate" (gt (int .Values.replicas) 1) }}"#;
        spec["strategy"]["type"] = self.inline(strategy.to_owned());
        let template = &mut spec["template"];
        if let Some(annotations) = template["metadata"].get_mut("annotations") {
            let digest = "{kopf.rs/settings: {{ toYaml .Values.settings | sha256sum | trunc 32 | quote }}}";
            *annotations =
                self.add(Filling::Line { opening: WITH_SETTINGS, text: digest.to_owned(), otherwise: None });
        }
        let pod = &mut template["spec"];
        if let Some(spread) = pod.get_mut("topologySpreadConstraints") {
            *spread = self.line(SEVERAL_PODS, spread);
        }
        self.for_settings(&mut pod["volumes"], |it| it["name"] == "settings");
        let container = &mut pod["containers"][0];
        container["image"] = self.inline("{{ .Values.image | quote }}".to_owned());
        container["resources"] = self.inline("{{ toJson .Values.resources }}".to_owned());
        self.for_settings(&mut container["volumeMounts"], |it| it["name"] == "settings");
        let is_of_settings = |it: &Value| it.as_str().is_some_and(|it| it.starts_with("--settings="));
        self.for_settings(&mut container["args"], is_of_settings);
        if let Some(args) = container["args"].as_array_mut() {
            args.splice(0..0, self.scope_args(scope_args));
        }
    }

    /// Returns the arguments for the namespaces that the operator serves.
    fn scope_args(&mut self, given: &[String]) -> Vec<Value> {
        if given.iter().any(|it| it.starts_with("--namespace=")) {
            return given.iter().map(|it| it.as_str().into()).collect();
        }
        let otherwise = given.first().cloned();
        let text = r#"{{ printf "--namespace=%s" . | quote }}"#.to_owned();
        vec![self.add(Filling::Line { opening: EACH_NAMESPACE, text, otherwise })]
    }

    /// Replaces the items of a list that exist only with settings.
    fn for_settings(&mut self, list: &mut Value, is_of_settings: impl Fn(&Value) -> bool) {
        let items = list.as_array_mut().into_iter().flatten();
        for item in items.filter(|it| is_of_settings(it)) {
            *item = self.line(WITH_SETTINGS, item);
        }
    }

    /// Replaces the names of namespaces.
    fn names(&mut self, value: &mut Value) {
        match value {
            Value::String(text) if text.contains(RELEASE) || text.contains(WATCHED) => {
                let text = escaped(&Value::from(text.as_str()).to_string());
                let text = text.replace(RELEASE, "{{ $.Release.Namespace }}").replace(WATCHED, "{{ . }}");
                *value = self.inline(text);
            }
            Value::Array(items) => {
                for item in items {
                    if item == WATCHED {
                        let text = "{{ . | quote }}".to_owned();
                        *item = self.add(Filling::Line { opening: EACH_NAMESPACE, text, otherwise: None });
                    } else {
                        self.names(item);
                    }
                }
            }
            Value::Object(fields) => fields.values_mut().for_each(|it| self.names(it)),
            _ => {}
        }
    }

    /// Returns the text with the fillings.
    fn filled(&self, text: &str) -> String {
        let mut filled = String::new();
        for line in text.lines() {
            let mut line = line.to_owned();
            for (at, filling) in self.0.iter().enumerate() {
                let name = Self::name(at);
                if !line.contains(&name) {
                    continue;
                }
                line = match filling {
                    Filling::Inline(text) => line.replace(&name, text),
                    Filling::Line { opening, text, otherwise } => {
                        let otherwise = otherwise.as_ref();
                        let otherwise =
                            otherwise.map(|text| format!("{{{{- else }}}}\n{}\n", line.replace(&name, text)));
                        let line = line.replace(&name, text);
                        format!("{{{{- {opening} }}}}\n{line}\n{}{END}", otherwise.unwrap_or_default())
                    }
                };
            }
            filled.push_str(&line);
            filled.push('\n');
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: Pods<'_> = Pods { scope_args: &[], share_lease: false };

    fn role(namespace: &str) -> Value {
        json!({"kind": "Role", "metadata": {"name": "op", "namespace": namespace}, "rules": []})
    }

    fn everywhere() -> Vec<Value> {
        vec![
            json!({"kind": "Namespace", "metadata": {"name": RELEASE}}),
            json!({"kind": "ClusterRole", "metadata": {"name": format!("{RELEASE}.op")}, "rules": ["all"]}),
            role(RELEASE),
        ]
    }

    #[test]
    fn objects_are_rendered_in_the_cases_that_need_them() {
        let in_one = vec![role(RELEASE), role(WATCHED), json!({"kind": "ClusterRole", "metadata": {}})];
        let cases = cases(everywhere(), Some(in_one));
        let short: Vec<_> = cases.iter().map(|(when, it)| (*when, it["kind"].as_str().unwrap())).collect();
        assert_eq!(
            short,
            [
                (When::Everywhere, "ClusterRole"),
                (When::Always, "Role"),
                (When::EachNamespace, "Role"),
                (When::InNamespaces, "ClusterRole"),
            ]
        );
        // Both roles may be in one namespace.
        assert_eq!(cases[1].1["metadata"]["name"], "op-operator");
        assert_eq!(cases[2].1["metadata"]["name"], "op");
    }

    #[test]
    fn labels_are_short_enough() {
        let values = Values {
            image: "",
            replicas: 1,
            shares_lease: false,
            resources: json!({}),
            namespaces: None,
            settings: json!({}),
        };
        let name = "a".repeat(60);
        let (version, everywhere, in_one, scope_args) = ("1.0.0+b", Vec::new(), None, Vec::new());
        let [_, (_, label)] = labels(&Chart { name: &name, version, everywhere, in_one, scope_args, values });
        assert_eq!(label, format!("{name}-1"));
    }

    #[test]
    fn braces_of_users_survive() {
        let definition = json!({
            "kind": "CustomResourceDefinition", "metadata": {"name": "a"},
            "spec": {"description": "such as {{- .name }} or {{{a}}}"},
        });
        let text = template(When::Always, definition.clone(), PODS).unwrap();
        assert!(text.contains(r#"such as {{ "{{" }}- .name }} or {{ "{{" }}{a}}}"#), "{text}");
        let plain: Value = serde_saphyr::from_str(&without_templates(&text)).unwrap();
        assert_eq!(plain["spec"], definition["spec"]);
        assert_eq!(plain["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    }

    #[test]
    fn placeholders_become_actions() {
        let hook =
            json!({"kind": "A", "namespace": RELEASE, "name": format!("{RELEASE}.op"), "values": [WATCHED]});
        let text = template(When::InNamespaces, hook, PODS).unwrap();
        let expected = r#"{{- if .Values.namespaces }}
kind: A
name: "{{ $.Release.Namespace }}.op"
namespace: "{{ $.Release.Namespace }}"
values:
{{- range .Values.namespaces }}
- {{ . | quote }}
{{- end }}
{{- end }}
"#;
        assert_eq!(text, expected);
        let text = template(When::EachNamespace, role(WATCHED), PODS).unwrap();
        assert!(text.contains("---\nkind: Role\n") && text.contains("namespace: \"{{ . }}\"\n"), "{text}");
    }
}
