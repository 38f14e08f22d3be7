//! Decides what an installation, an upgrade and a removal of an operator do: which objects belong to it, in which order they are removed,
//! which permissions the caller needs, and whether the Pods have started.
//!
//! Pure. Guarantees that only objects with the label of this operator are removed, and definitions and namespaces never without a request.
//! Must not know how requests are sent.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::admission::instances::annotation;
use crate::object::resource::Resource;
use crate::state::naming;

/// The field manager of all objects of installations.
pub(crate) const MANAGER: &str = "kopf-rs-install";

/// The kinds that belong to installations, by group, in the order of their removal. Webhook configurations come first, because they refuse
/// other requests as soon as the operator is gone. The account comes last, because it shows that an interrupted removal is not complete.
const KINDS: [(&str, &str); 21] = [
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("policy", "PodDisruptionBudget"),
    ("apps", "Deployment"),
    ("monitoring.coreos.com", "PodMonitor"),
    ("monitoring.coreos.com", "ServiceMonitor"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("cert-manager.io", "Certificate"),
    ("cert-manager.io", "Issuer"),
    ("", "Service"),
    ("", "ConfigMap"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("", "ServiceAccount"),
    (NAMESPACE.0, NAMESPACE.1),
    (DEFINITION.0, DEFINITION.1),
];
const NAMESPACE: (&str, &str) = ("", "Namespace");
const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// The suffix of the label that marks an installation of any operator.
const INSTALLED: &str = "/installed-in";

/// The annotation of the account of an installation whose Pods have started once.
const COMPLETE: &str = "complete";

/// The conditions of a Deployment that explain why its Pods do not start.
const PROBLEMS: [(&str, &str); 2] = [("ReplicaFailure", "True"), ("Progressing", "False")];

/// States of a waiting container that pass by themselves.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// One installation: an operator in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Installation {
    pub(crate) operator: String,
    pub(crate) namespace: String,
}

/// An object of an installation, and its address.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: Resource,
    pub(crate) object: Value,
}

/// One permission that the caller needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    /// `None` for all objects.
    pub(crate) name: Option<String>,
}

// === impl Installation ===

impl Installation {
    /// Returns the installation that these objects make: their account is in the namespace of the operator.
    pub(crate) fn of(operator: &str, objects: &[Value]) -> Option<Self> {
        let account = objects.iter().find(|it| it["kind"] == "ServiceAccount")?;
        let namespace = account["metadata"]["namespace"].as_str()?;
        Some(Self { operator: operator.to_owned(), namespace: namespace.to_owned() })
    }

    /// Returns all installations of an operator that these objects belong to. Definitions and namespaces do not count, because a removal may
    /// keep them.
    pub(crate) fn among(operator: &str, objects: &[Target]) -> Vec<Self> {
        let key = label(operator);
        let removed = objects.iter().filter(|it| !it.is_kept_by_default());
        let namespaces = removed.filter_map(|it| it.object["metadata"]["labels"][&key].as_str());
        let namespaces: BTreeSet<&str> = namespaces.collect();
        let all = namespaces.into_iter();
        all.map(|it| Self { operator: operator.to_owned(), namespace: it.to_owned() }).collect()
    }

    /// Adds the label of the installation.
    pub(crate) fn mark(&self, object: &mut Value) {
        object["metadata"]["labels"][label(&self.operator)] = self.namespace.as_str().into();
    }

    /// Returns whether the object has the label of the installation.
    pub(crate) fn has(&self, object: &Value) -> bool {
        object["metadata"]["labels"][label(&self.operator)] == self.namespace.as_str()
    }

    /// Returns the objects with the wanted addresses that exist but do not belong to the installation; with `adopts`, only those that belong to
    /// another one. Definitions and namespaces may be shared.
    pub(crate) fn foreign<'a>(
        &self,
        wanted: &'a [Target],
        live: &[Option<Value>],
        adopts: bool,
    ) -> Vec<&'a Target> {
        let is_free = |it: &Value| self.has(it) || adopts && labels(it).next().is_none();
        let pairs = wanted.iter().zip(live).filter(|(target, _)| !target.is_kept_by_default());
        pairs.filter(|(_, live)| live.as_ref().is_some_and(|it| !is_free(it))).map(|(it, _)| it).collect()
    }

    /// Returns whether the object is the account of an installation that was once complete.
    pub(crate) fn is_complete(&self, objects: &[Target]) -> bool {
        let key = completed(&self.operator);
        let account = objects.iter().find(|it| it.is_account(self));
        account.is_some_and(|it| it.object["metadata"]["annotations"][&key] == COMPLETE)
    }

    /// Returns the merge patch that marks the account of a complete installation.
    pub(crate) fn completion(&self) -> Value {
        json!({"metadata": {"annotations": {completed(&self.operator): COMPLETE}}})
    }
}

/// Returns the label of all objects of an operator's installation. Its value is the namespace.
pub(crate) fn label(operator: &str) -> String {
    naming::prefix(operator) + INSTALLED
}

/// Returns the labels of an object that belong to installations of any operator.
pub(crate) fn labels(object: &Value) -> impl Iterator<Item = &str> {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    labels.map(|(key, _)| &**key).filter(|it| it.ends_with(INSTALLED))
}

/// Returns the annotation of the account of a complete installation.
fn completed(operator: &str) -> String {
    format!("{}/installation", naming::prefix(operator))
}

// === impl Target ===

impl Target {
    /// Describes an object that the server has returned.
    pub(crate) fn found(resource: &Resource, mut object: Value) -> Self {
        // Items of a list have no `apiVersion` and `kind`.
        object["apiVersion"] = resource.api_version().into();
        object["kind"] = resource.kind.clone().into();
        Self::of(resource, object)
    }

    pub(crate) fn of(resource: &Resource, object: Value) -> Self {
        Self { resource: resource.clone(), object }
    }

    pub(crate) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.object["metadata"]["namespace"].as_str().filter(|_| self.resource.namespaced)
    }

    fn is(&self, (group, kind): (&str, &str)) -> bool {
        self.resource.group == group && self.resource.kind == kind
    }

    pub(crate) fn is_definition(&self) -> bool {
        self.is(DEFINITION)
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.is(NAMESPACE)
    }

    pub(crate) fn is_service(&self) -> bool {
        self.is(("", "Service"))
    }

    pub(crate) fn is_deployment(&self) -> bool {
        self.is(("apps", "Deployment"))
    }

    pub(crate) fn is_account(&self, of: &Installation) -> bool {
        self.is(("", "ServiceAccount")) && self.namespace() == Some(&*of.namespace)
    }

    pub(crate) fn is_role(&self) -> bool {
        matches!(&*self.resource.kind, "Role" | "ClusterRole")
    }

    pub(crate) fn is_webhook_configuration(&self) -> bool {
        self.is(KINDS[0]) || self.is(KINDS[1])
    }

    /// Returns whether its removal would also remove objects that are not part of the installation.
    pub(crate) fn is_kept_by_default(&self) -> bool {
        self.is_definition() || self.is_namespace()
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.resource.identity() == other.resource.identity()
            && (self.namespace(), self.name()) == (other.namespace(), other.name())
    }

    /// Returns the uid of an object that exists.
    pub(crate) fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// Returns `kind.group/name`, as in the output of kubectl, with the namespace if it is not that of the installation.
    pub(crate) fn shown(&self, home: &str) -> String {
        let resource = &self.resource;
        let dot = if resource.group.is_empty() { "" } else { "." };
        let kind = resource.kind.to_lowercase();
        let place = self.namespace().filter(|it| *it != home);
        let place = place.map(|it| format!(" (namespace {it})")).unwrap_or_default();
        format!("{kind}{dot}{}/{}{place}", resource.group, self.name())
    }

    /// Returns the permissions for requests with these verbs.
    pub(crate) fn needs(&self, verbs: &[&'static str]) -> Vec<Need> {
        let need = |verb: &&'static str| {
            let mut need = Need::of(verb, &self.resource, self.namespace());
            // RBAC cannot restrict `create` by name.
            need.name = Some(self.name().to_owned()).filter(|_| *verb != "create");
            need
        };
        verbs.iter().map(need).collect()
    }
}

// === impl Need ===

impl Need {
    /// Returns the permission for all objects of a resource, in all namespaces if none is given.
    pub(crate) fn of(verb: &'static str, resource: &Resource, namespace: Option<&str>) -> Self {
        Self {
            verb,
            group: resource.group.clone(),
            plural: resource.plural.clone(),
            namespace: namespace.filter(|_| resource.namespaced).map(str::to_owned),
            name: None,
        }
    }

    /// Returns the review that asks the server about it.
    pub(crate) fn review(&self) -> Value {
        let mut attributes = json!({"verb": self.verb, "group": self.group, "resource": self.plural});
        if let Some(namespace) = &self.namespace {
            attributes["namespace"] = namespace.as_str().into();
        }
        if let Some(name) = &self.name {
            attributes["name"] = name.as_str().into();
        }
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        })
    }

    /// Returns the permission in words, such as `create roles.rbac.authorization.k8s.io in the namespace team`.
    pub(crate) fn shown(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        let name = self.name.as_ref().map(|it| format!(" \"{it}\"")).unwrap_or_default();
        let place = self.namespace.as_ref().map(|it| format!(" in the namespace {it}")).unwrap_or_default();
        format!("{} {}{dot}{}{name}{place}", self.verb, self.plural, self.group)
    }
}

// === kinds ===

/// Returns the served resources of all kinds that installations may have, and of the wanted objects, in the order of removal.
pub(crate) fn kinds(resources: &[Resource], wanted: &[Target]) -> Vec<Resource> {
    let mut kinds: Vec<Resource> = Vec::new();
    let known = KINDS.iter().filter_map(|(group, kind)| served(resources, group, kind));
    for resource in known.chain(wanted.iter().map(|it| &it.resource)) {
        if !kinds.iter().any(|it| it.identity() == resource.identity()) {
            kinds.push(resource.clone());
        }
    }
    kinds.sort_by_key(|it| rank(&it.group, &it.kind));
    kinds
}

fn served<'a>(resources: &'a [Resource], group: &str, kind: &str) -> Option<&'a Resource> {
    resources.iter().find(|it| it.group == group && it.kind == kind && it.preferred)
}

/// Returns the position of a kind in the order of removal. An unknown kind follows the Deployment, which may use it.
fn rank(group: &str, kind: &str) -> usize {
    let position = |kind: (&str, &str)| KINDS.iter().position(|it| *it == kind);
    position((group, kind)).or_else(|| position(("apps", "Deployment"))).unwrap_or_default()
}

/// Returns the objects of an earlier version that this version does not have: those to remove, and those to keep.
pub(crate) fn surplus(found: &[Target], wanted: &[Target]) -> (Vec<Target>, Vec<Target>) {
    let lacking = found.iter().filter(|it| !wanted.iter().any(|other| other.is_same(it)));
    lacking.cloned().partition(|it| !it.is_kept_by_default())
}

/// Returns the namespace and the name of the Service that converts the objects of the definition.
pub(crate) fn converter(definition: &Value) -> Option<(&str, &str)> {
    let conversion = &definition["spec"]["conversion"];
    let asked = &conversion["webhook"]["clientConfig"]["service"];
    let asked = asked["namespace"].as_str().zip(asked["name"].as_str());
    asked.filter(|_| conversion["strategy"] == "Webhook")
}

/// Returns the merge patch that ends the conversion of objects by instances of this operator, none of which runs any more.
pub(crate) fn unconverted(operator: &str) -> Value {
    let instances = annotation(&naming::prefix(operator));
    json!({
        "metadata": {"annotations": {instances: null}},
        "spec": {"conversion": {"strategy": "None", "webhook": null}},
    })
}

/// Returns an object without the fields that only the server sets, for a comparison.
pub(crate) fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in
            ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"]
        {
            metadata.remove(field);
        }
    }
    object
}

// === Pods ===

/// Returns what the Deployment waits for before all Pods of its present version have started, or `None` if they have.
pub(crate) fn unfinished(deployment: &Value) -> Option<String> {
    let number = |at: &Value| at.as_u64().unwrap_or_default();
    let (metadata, status) = (&deployment["metadata"], &deployment["status"]);
    // Until then, the status describes an earlier version.
    if number(&status["observedGeneration"]) < number(&metadata["generation"]) {
        return Some(
            "the kube-controller-manager, which creates its Pods, has not seen the change yet".to_owned(),
        );
    }
    let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
    let [all, updated, available] =
        ["replicas", "updatedReplicas", "availableReplicas"].map(|it| number(&status[it]));
    if updated >= wanted && all <= updated && available >= wanted {
        return None;
    }
    let old = all.saturating_sub(updated);
    let old = if old > 0 { format!(", {old} old Pods remain") } else { String::new() };
    let is_problem =
        |it: &&Value| PROBLEMS.iter().any(|(kind, value)| it["type"] == *kind && it["status"] == *value);
    let problems = status["conditions"].as_array().into_iter().flatten().filter(is_problem);
    let problems: Vec<String> = problems.map(|it| format!("; {}", words(it))).collect();
    Some(format!("{available} of {wanted} Pods are available{old}{}", problems.concat()))
}

fn words(condition: &Value) -> String {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    let both = [text("reason"), text("message")].into_iter().filter(|it| !it.is_empty());
    both.collect::<Vec<_>>().join(": ")
}

/// Returns one line for each Pod that does not start, with the reason.
pub(crate) fn troubles(pods: &[Value]) -> Vec<String> {
    let trouble = |pod: &Value| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        Some(format!("pod/{name}: {}", trouble_of(&pod["status"])?))
    };
    pods.iter().filter_map(trouble).collect()
}

fn trouble_of(status: &Value) -> Option<String> {
    let list = |field: &str| status[field].as_array().into_iter().flatten();
    let containers = list("initContainerStatuses").chain(list("containerStatuses"));
    for container in containers {
        let name = container["name"].as_str().unwrap_or_default();
        let waiting = &container["state"]["waiting"];
        let reason = waiting["reason"].as_str().filter(|it| !STARTING.contains(it));
        let ended = [&container["state"]["terminated"], &container["lastState"]["terminated"]];
        let ended = ended.into_iter().find(|it| it.is_object());
        let ended =
            ended.map(|it| format!("the last run ended with exit code {}: {}", it["exitCode"], words(it)));
        if reason.is_some() || ended.is_some() && container["ready"] != true {
            let waiting = reason.map(|_| words(waiting));
            let both: Vec<String> = waiting.into_iter().chain(ended).collect();
            return Some(format!("container {name}: {}", both.join("; ")));
        }
    }
    let unscheduled = list("conditions").find(|it| it["type"] == "PodScheduled" && it["status"] == "False");
    if let Some(condition) = unscheduled {
        return Some(words(condition));
    }
    (status["phase"] == "Failed").then(|| words(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(group: &str, kind: &str, name: &str) -> Target {
        let resource = Resource::built_in(group, kind, kind == "Role" || kind == "Deployment");
        Target::found(&resource, json!({"metadata": {"name": name, "namespace": "team"}}))
    }

    #[test]
    fn an_upgrade_removes_what_is_missing_but_no_definition() {
        let [role, other, definition] = [
            target("rbac.authorization.k8s.io", "Role", "a"),
            target("rbac.authorization.k8s.io", "Role", "b"),
            target(DEFINITION.0, DEFINITION.1, "demos.example.com"),
        ];
        let found = [role.clone(), other, definition];
        let (removed, kept) = surplus(&found, &[role]);
        let names = |all: &[Target]| all.iter().map(|it| it.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&removed), ["b"]);
        assert_eq!(names(&kept), ["demos.example.com"]);
    }

    #[test]
    fn only_labelled_objects_belong_to_an_installation() {
        let installation = Installation { operator: "op".to_owned(), namespace: "team".to_owned() };
        let wanted = target("apps", "Deployment", "op");
        let mut live = wanted.object.clone();
        let is_foreign = |live: Option<&Value>, adopts: bool| {
            let foreign = installation.foreign(std::slice::from_ref(&wanted), &[live.cloned()], adopts);
            !foreign.is_empty()
        };
        assert!(is_foreign(Some(&live), false) && !is_foreign(Some(&live), true) && !is_foreign(None, false));
        installation.mark(&mut live);
        assert_eq!(live["metadata"]["labels"], json!({"op.kopf.rs/installed-in": "team"}));
        assert!(!is_foreign(Some(&live), false));
        let found = [Target::found(&wanted.resource, live)];
        assert_eq!(Installation::among("op", &found), [installation]);
        assert_eq!(Installation::among("other", &found), []);
    }

    #[test]
    fn the_service_of_a_conversion_is_found() {
        let client = json!({"service": {"namespace": "team", "name": "op"}});
        let of = |strategy: &str| json!({"spec": {"conversion": {"strategy": strategy, "webhook": {"clientConfig": client}}}});
        assert_eq!(converter(&of("Webhook")), Some(("team", "op")));
        assert_eq!(converter(&of("None")), None);
        assert_eq!(converter(&json!({"spec": {}})), None);
        assert!(unconverted("op")["metadata"]["annotations"]["op.kopf.rs/instances"].is_null());
    }

    #[test]
    fn permissions_are_named_as_in_rbac() {
        let role = target("rbac.authorization.k8s.io", "Role", "op");
        let shown: Vec<_> = role.needs(&["create", "patch"]).iter().map(Need::shown).collect();
        let expected = [
            "create roles.rbac.authorization.k8s.io in the namespace team",
            "patch roles.rbac.authorization.k8s.io \"op\" in the namespace team",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_rollout_is_complete_when_all_pods_of_the_new_version_are_available() {
        let deployment =
            |status: Value| json!({"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status});
        let waiting = |status: Value| unfinished(&deployment(status)).unwrap_or_default();
        let gave_up = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "m"}]);
        let stale = json!({"observedGeneration": 1, "conditions": gave_up.clone()});
        assert_eq!(
            waiting(stale),
            "the kube-controller-manager, which creates its Pods, has not seen the change yet"
        );
        assert_eq!(
            waiting(
                json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2})
            ),
            "2 of 2 Pods are available, 2 old Pods remain"
        );
        let complete =
            json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
        assert_eq!(unfinished(&deployment(complete)), None);
        let gave_up = waiting(json!({"observedGeneration": 2, "conditions": gave_up}));
        assert_eq!(gave_up, "0 of 2 Pods are available; ProgressDeadlineExceeded: m");
        let refused = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}]);
        let refused = waiting(json!({"observedGeneration": 2, "conditions": refused}));
        assert_eq!(refused, "0 of 2 Pods are available; FailedCreate: quota");
    }

    #[test]
    fn a_pod_that_does_not_start_says_why() {
        let pod = |status: Value| json!({"metadata": {"name": "p"}, "status": status});
        let waiting = |reason: &str| json!({"waiting": {"reason": reason, "message": "m"}});
        let starting = json!({"containerStatuses": [{"name": "c", "state": waiting("ContainerCreating")}]});
        let missing = json!({"containerStatuses": [{"name": "c", "state": waiting("ErrImagePull")}]});
        let ended = json!({"terminated": {"exitCode": 2, "reason": "Error"}});
        let crashing = json!({"containerStatuses": [
            {"name": "c", "ready": false, "state": waiting("CrashLoopBackOff"), "lastState": ended},
        ]});
        let unscheduled = json!({"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"},
        ]});
        let pods: Vec<Value> = [starting, missing, crashing, unscheduled].map(pod).into();
        assert_eq!(
            troubles(&pods),
            [
                "pod/p: container c: ErrImagePull: m",
                "pod/p: container c: CrashLoopBackOff: m; the last run ended with exit code 2: Error",
                "pod/p: Unschedulable: no node",
            ]
        );
    }
}
