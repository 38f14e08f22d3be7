//! The webhooks of a `ValidatingWebhookConfiguration` or a `MutatingWebhookConfiguration`, generated from admission handlers.
//!
//! This module guarantees that the same handlers and resources yield the same webhooks, including all fields that the
//! server would otherwise default, so that they can be compared with the existing ones. It must not depend on the
//! component that writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::admission::conditions::{MOST, conditions, namespace_condition};
use crate::admission::route::{hook_name, path};
use crate::handler::definition::Handler;
use crate::handler::filter::Criterion;
use crate::handler::operation::Operation;
use crate::handler::webhook::AdmissionKind;
use crate::object::resource::Resource;

/// The address at which the API server reaches the handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientConfig {
    /// `https://HOST:PORT/PATH`; the paths of handlers are appended.
    Url(String),
    /// The same, through a tunnel whose certificate the API server's machine trusts.
    Tunnel(String),
    /// A Service in the cluster.
    Service { namespace: String, name: String, port: u16 },
}

/// The served resources, and the namespaces of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The resources in all their versions.
    pub(crate) resources: Vec<Resource>,
    /// `None` for all namespaces.
    pub(crate) namespaces: Option<BTreeSet<String>>,
    /// A CEL expression that holds for the namespaces, if they cannot be listed.
    pub(crate) namespace_expression: Option<String>,
}

/// The input for generating webhooks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) handlers: &'a [Arc<Handler>],
    pub(crate) found: &'a Found,
    pub(crate) client: &'a ClientConfig,
    /// The trusted certificates in PEM. If empty, those of the API server's machine.
    pub(crate) bundle: &'a str,
    /// The suffix of webhook names.
    pub(crate) domain: &'a str,
    /// The namespace in which the operator runs.
    pub(crate) own_namespace: Option<&'a str>,
    /// Leave out webhooks that are removed when the operator ends.
    pub(crate) only_persistent: bool,
}

/// Resources for which the API server never calls webhooks.
const NEVER_ASKED: [&str; 7] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    "selfsubjectreviews",
];

/// The namespaces of Kubernetes itself.
pub(crate) const SYSTEM: [&str; 2] = ["kube-node-lease", "kube-system"];

/// The label with the namespace's name that every namespace has.
const NAME_OF_NAMESPACE: &str = "kubernetes.io/metadata.name";

/// All handlers of a kind with the same id, which share a path and a webhook.
pub(crate) struct Hook<'a> {
    pub(crate) id: &'a str,
    pub(crate) handlers: Vec<&'a Handler>,
}

impl<'a> Hook<'a> {
    /// Returns the handler if it is the only one. Only then may its filters narrow the webhook, because another handler could need the
    /// objects that it filters out.
    pub(crate) fn alone(&self) -> Option<&'a Handler> {
        match self.handlers.as_slice() {
            [alone] => Some(*alone),
            _ => None,
        }
    }

    /// Returns true if a failed call of the webhook refuses the request.
    pub(crate) fn refuses_when_failing(&self, client: &ClientConfig) -> bool {
        let mut handlers = self.handlers.iter();
        handlers.any(|it| refuses_when_failing(it, client))
    }
}

/// Returns the webhooks of this kind in the order of their handlers. A handler without served resources has none.
pub(crate) fn webhooks(kind: AdmissionKind, source: Source<'_>) -> Vec<Value> {
    let hooks = hooks(kind, source.handlers).into_iter();
    let hooks =
        hooks.filter(|it| !source.only_persistent || it.handlers.iter().any(|it| it.webhook.persistent));
    hooks.filter_map(|hook| webhook(kind, &hook, source)).collect()
}

/// Groups the handlers of this kind into webhooks, including those whose resources are not served.
pub(crate) fn hooks(kind: AdmissionKind, handlers: &[Arc<Handler>]) -> Vec<Hook<'_>> {
    let mut hooks: Vec<Hook<'_>> = Vec::new();
    for handler in handlers {
        if handler.admission() != Some(kind) {
            continue;
        }
        let id = &*handler.id;
        match hooks.iter_mut().find(|it| it.id == id) {
            Some(hook) => hook.handlers.push(handler),
            None => hooks.push(Hook { id, handlers: vec![&**handler] }),
        }
    }
    hooks
}

/// Returns the complete configuration object.
#[cfg(any(feature = "cli", test))]
pub(crate) fn configuration(kind: AdmissionKind, name: &str, webhooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": match kind {
            AdmissionKind::Validate => "ValidatingWebhookConfiguration",
            AdmissionKind::Mutate => "MutatingWebhookConfiguration",
        },
        "metadata": {"name": name},
        "webhooks": webhooks,
    })
}

/// Returns an error for handlers with different ids but the same path, which the API server could not distinguish.
pub(crate) fn shared_path(handlers: &[Arc<Handler>]) -> Option<String> {
    let mut known: BTreeMap<String, &str> = BTreeMap::new();
    for handler in handlers {
        let Some(kind) = handler.admission() else {
            continue;
        };
        let path = path(kind, &handler.id);
        let id = &*handler.id;
        let other = *known.entry(path.clone()).or_insert(id);
        if other != id {
            return Some(format!(
                "the webhooks of the handlers `{other}` and `{id}` would have the same path {path}: give one of them another id"
            ));
        }
    }
    None
}

/// Returns true if an existing configuration has the desired webhooks. All fields are explicit, so the server adds none.
pub(crate) fn is_as_wanted(found: &Value, webhooks: &[Value]) -> bool {
    let found = found["webhooks"].as_array();
    found.map_or(&[][..], Vec::as_slice) == webhooks
}

fn refuses_when_failing(admission: &Handler, client: &ClientConfig) -> bool {
    // A process outside of the cluster may end without removing its webhook, and no controller restarts it.
    let is_outside = !matches!(client, ClientConfig::Service { .. });
    let ignores = admission.webhook.ignore_failures;
    !ignores.unwrap_or(is_outside && !admission.webhook.persistent)
}

/// Returns the resources of a handler, in one version each.
pub(crate) fn resources_of<'a>(admission: &Handler, resources: &'a [Resource]) -> Vec<&'a Resource> {
    let mut found: Vec<&Resource> = Vec::new();
    let is_asked = |it: &&Resource| !NEVER_ASKED.contains(&it.plural.as_str());
    let selected = admission.selector().map(|it| it.select(resources));
    for resource in selected.into_iter().flatten().filter(is_asked) {
        if !found.iter().any(|it| it.identity() == resource.identity()) {
            found.push(resource);
        }
    }
    found
}

fn webhook(kind: AdmissionKind, hook: &Hook<'_>, source: Source<'_>) -> Option<Value> {
    let mut rules: Vec<Value> = Vec::new();
    let mut all = Vec::new();
    for admission in &hook.handlers {
        let resources = resources_of(admission, &source.found.resources);
        for resource in &resources {
            let rule = rule(admission, resource);
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        all.extend(resources);
    }
    if rules.is_empty() {
        return None;
    }
    let any = |is: &dyn Fn(&Handler) -> bool| hook.handlers.iter().any(|it| is(it));
    let refuses = hook.refuses_when_failing(source.client);
    let validates = kind == AdmissionKind::Validate;
    let alone = hook.alone();
    let labels = alone.map_or(&[][..], |it| &it.filters.labels);
    let timeouts = hook.handlers.iter().map(|it| it.webhook.timeout);
    let timeout = timeouts.max();
    let mut webhook = json!({
        "name": hook_name(hook.id, source.domain),
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config(source.client, &path(kind, hook.id), source.bundle),
        "failurePolicy": if refuses { "Fail" } else { "Ignore" },
        "matchPolicy": "Equivalent",
        "namespaceSelector": namespace_selector(&all, source),
        "objectSelector": object_selector(labels),
        "rules": rules,
        "sideEffects": if any(&|it| it.webhook.side_effects) { "NoneOnDryRun" } else { "None" },
        "timeoutSeconds": timeout.map_or(0, |it| it.as_secs()),
    });
    let mut conditions =
        alone.map_or_else(Vec::new, |it| conditions(&it.filters, it.field(), !it.webhook.is_for_dying));
    if let Some(expression) = &source.found.namespace_expression {
        conditions.insert(0, namespace_condition(expression));
        conditions.truncate(MOST);
    }
    if !conditions.is_empty() {
        webhook["matchConditions"] = conditions.into();
    }
    if !validates {
        webhook["reinvocationPolicy"] = "IfNeeded".into();
    }
    Some(webhook)
}

fn rule(admission: &Handler, resource: &Resource) -> Value {
    let plural = &resource.plural;
    let resources = match admission.webhook.subresource.as_deref() {
        None => plural.clone(),
        Some(subresource) => format!("{plural}/{subresource}"),
    };
    json!({
        "apiGroups": [resource.group], "apiVersions": [resource.version],
        "operations": operations(admission), "resources": [resources], "scope": "*",
    })
}

/// Returns the operations for which the API server calls the webhook.
pub(crate) fn operations(admission: &Handler) -> Vec<&'static str> {
    let wanted = &admission.webhook.operations;
    let all = [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];
    if all.iter().all(|it| wanted.contains(it)) {
        return vec!["*"];
    }
    wanted.iter().map(|it| it.as_str()).collect()
}

/// Returns the `clientConfig` for a path, with the trusted certificates in PEM; an empty bundle trusts those of the API server's machine.
pub(crate) fn client_config(client: &ClientConfig, path: &str, bundle: &str) -> Value {
    let mut config = match client {
        ClientConfig::Url(url) | ClientConfig::Tunnel(url) => {
            let url = url.trim_end_matches('/');
            json!({"url": format!("{url}{path}")})
        }
        ClientConfig::Service { namespace, name, port } => {
            json!({"service": {"namespace": namespace, "name": name, "path": path, "port": port}})
        }
    };
    let is_trusted = matches!(client, ClientConfig::Tunnel(_));
    if !bundle.is_empty() && !is_trusted {
        config["caBundle"] = STANDARD.encode(bundle).into();
    }
    config
}

/// Selects the operator's namespaces. For built-in kinds without explicit namespaces, excludes the operator's own namespace and those of
/// Kubernetes.
fn namespace_selector(resources: &[&Resource], source: Source<'_>) -> Value {
    let mut expressions = Vec::new();
    if let Some(names) = &source.found.namespaces {
        expressions.push(json!({"key": NAME_OF_NAMESPACE, "operator": "In", "values": in_or_none(names)}));
    } else if resources.iter().any(|it| !it.is_custom()) {
        let own = source.own_namespace.into_iter();
        let excluded: BTreeSet<_> = own.chain(SYSTEM).collect();
        expressions.push(json!({"key": NAME_OF_NAMESPACE, "operator": "NotIn", "values": excluded}));
    }
    expressions_or_all(&expressions)
}

/// Selects only these namespaces.
pub(crate) fn in_namespaces(names: &BTreeSet<String>) -> Value {
    let only = json!({"key": NAME_OF_NAMESPACE, "operator": "In", "values": in_or_none(names)});
    expressions_or_all(&[only])
}

/// Returns the names, or a name that no namespace has, because `In` requires a value.
fn in_or_none(names: &BTreeSet<String>) -> Value {
    if names.is_empty() { json!(["no.namespace"]) } else { json!(names) }
}

fn object_selector(labels: &[(String, Criterion)]) -> Value {
    let expressions = labels.iter().filter_map(|(key, criterion)| {
        Some(match criterion {
            Criterion::Present => json!({"key": key, "operator": "Exists"}),
            Criterion::Absent => json!({"key": key, "operator": "DoesNotExist"}),
            Criterion::Equals(Value::String(value)) => {
                json!({"key": key, "operator": "In", "values": [value]})
            }
            Criterion::Equals(_) | Criterion::Matches(_) => return None,
        })
    });
    expressions_or_all(&expressions.collect::<Vec<_>>())
}

fn expressions_or_all(expressions: &[Value]) -> Value {
    if expressions.is_empty() { json!({}) } else { json!({"matchExpressions": expressions}) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::options::Callback;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler_blocking;

    fn resource(group: &str, plural: &str) -> Resource {
        Resource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            namespaced: true,
            preferred: true,
            ..Resource::default()
        }
    }

    fn named(id: &str) -> Callback {
        handler_blocking(id, |_, _| Ok(()))
    }

    fn told(registry: &Registry, change: impl FnOnce(&mut Source<'_>)) -> [Vec<Value>; 2] {
        let resources = vec![resource("example.com", "apps"), resource("", "pods")];
        let found = Found { resources, ..Found::default() };
        let client = ClientConfig::Url("https://host:1/root/".to_owned());
        let mut source = Source {
            handlers: registry.handlers(),
            found: &found,
            client: &client,
            bundle: "PEM",
            domain: "auto.kopf.dev",
            own_namespace: Some("ops"),
            only_persistent: false,
        };
        change(&mut source);
        [AdmissionKind::Mutate, AdmissionKind::Validate].map(|kind| webhooks(kind, source))
    }

    #[test]
    fn the_certificate_of_a_tunnel_is_trusted_already() {
        let tunnel = ClientConfig::Tunnel("https://hooks.example.com/".to_owned());
        let expected = json!({"url": "https://hooks.example.com/convert/a"});
        assert_eq!(client_config(&tunnel, "/convert/a", "PEM"), expected);
        assert_eq!(client_config(&tunnel, "/convert/a", ""), expected);
    }

    #[test]
    fn each_id_is_one_webhook_and_its_handlers_are_joined() {
        let registry = Registry::new()
            .on_validate("apps", named("Check").label("a", "b").annotation("x", "y"))
            .on_validate("pods", named("Check").persistent().side_effects().timeout(9))
            .on_validate("nothing", named("unserved"))
            .on_mutate("apps", named("fill"));
        let [mutating, validating] = told(&registry, |_| {});
        assert_eq!((mutating.len(), validating.len()), (1, 1));
        let hook = &validating[0];
        assert_eq!(hook["name"], "check-d4cb.auto.kopf.dev");
        assert_eq!(hook["clientConfig"]["url"], "https://host:1/root/validate/check-d4cb");
        assert_eq!(hook["clientConfig"]["caBundle"], "UEVN");
        assert_eq!(hook["failurePolicy"], "Fail");
        assert_eq!(hook["sideEffects"], "NoneOnDryRun");
        assert_eq!(hook["timeoutSeconds"], 9);
        assert_eq!(hook["objectSelector"], json!({}));
        assert!(hook["matchConditions"].is_null(), "{hook}");
        assert_eq!(hook["rules"][0]["resources"], json!(["apps"]));
        assert_eq!(hook["rules"][0]["operations"], json!(["*"]));
        assert_eq!(hook["rules"][1]["resources"], json!(["pods"]));
        let excluded = json!(["kube-node-lease", "kube-system", "ops"]);
        assert_eq!(hook["namespaceSelector"]["matchExpressions"][0]["values"], excluded);
        assert_eq!(mutating[0]["namespaceSelector"], json!({}));
        assert_eq!(mutating[0]["failurePolicy"], "Ignore");
        let [mutating, validating] = told(&registry, |source| source.only_persistent = true);
        assert_eq!((mutating.len(), validating.len()), (0, 1));
        let whole = configuration(AdmissionKind::Validate, "n", &validating);
        assert!(is_as_wanted(&whole, &validating) && !is_as_wanted(&whole, &[]));
    }

    #[test]
    fn filters_of_one_handler_become_conditions() {
        let alone = named("one").label("a", "b").label("c", crate::ABSENT);
        let alone = alone.annotation("x", "y").subresource("*");
        let registry = Registry::new().on_validate("apps", alone);
        let [_, validating] = told(&registry, |_| {});
        let labels = json!([
            {"key": "a", "operator": "In", "values": ["b"]},
            {"key": "c", "operator": "DoesNotExist"},
        ]);
        assert_eq!(validating[0]["objectSelector"]["matchExpressions"], labels);
        let conditions = validating[0]["matchConditions"].as_array().unwrap();
        let names: Vec<_> = conditions.iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["not-being-deleted", "annotation-0"]);
        assert_eq!(validating[0]["rules"][0]["resources"], json!(["apps/*"]));
    }

    #[test]
    fn through_a_service_failures_refuse() {
        let registry = Registry::new().on_validate("apps", named("one"));
        let client =
            ClientConfig::Service { namespace: "ops".to_owned(), name: "hooks".to_owned(), port: 443 };
        let found = Found {
            resources: vec![resource("example.com", "apps")],
            namespaces: Some(BTreeSet::new()),
            namespace_expression: None,
        };
        let source = Source {
            handlers: registry.handlers(),
            found: &found,
            client: &client,
            bundle: "",
            domain: "n",
            own_namespace: None,
            only_persistent: false,
        };
        let hook = &webhooks(AdmissionKind::Validate, source)[0];
        assert_eq!(hook["failurePolicy"], "Fail");
        let service =
            json!({"service": {"namespace": "ops", "name": "hooks", "path": "/validate/one", "port": 443}});
        assert_eq!(hook["clientConfig"], service);
        let nowhere = &hook["namespaceSelector"]["matchExpressions"][0];
        assert_eq!(nowhere["values"], json!(["no.namespace"]));
    }

    #[test]
    fn ids_that_look_alike_are_refused() {
        let alike =
            Registry::new().on_validate("apps", named("my_check")).on_validate("apps", named("my-check"));
        let why = shared_path(alike.handlers()).unwrap();
        assert!(why.contains("`my_check` and `my-check`"), "{why}");
        let others = Registry::new()
            .on_validate("apps", named("one"))
            .on_validate("pods", named("one"))
            .on_mutate("apps", named("one"));
        assert_eq!(shared_path(others.handlers()), None);
    }
}
