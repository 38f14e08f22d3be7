//! Refuses webhooks that would block the operator itself, or the cluster, once the operator does not respond.
//!
//! This module does not know how webhooks are written.

use crate::admission::configuration::{Hook, SYSTEM, Source, hooks, operations, resources_of};
use crate::handler::definition::Handler;
use crate::handler::filter::Criterion;
use crate::handler::webhook::AdmissionKind;
use crate::object::resource::Resource;

/// Namespaced kinds that are needed to restart a Pod of the operator.
const NEEDED_TO_START: [(&str, &str); 11] = [
    ("", "pods"),
    ("", "services"),
    ("", "endpoints"),
    ("", "secrets"),
    ("", "configmaps"),
    ("", "serviceaccounts"),
    ("", "events"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("discovery.k8s.io", "endpointslices"),
];

/// Kinds that the cluster itself needs. An empty plural stands for the whole group.
const NEEDED_BY_CLUSTER: [(&str, &str); 9] = [
    ("coordination.k8s.io", "leases"),
    ("", "nodes"),
    ("", "namespaces"),
    ("certificates.k8s.io", ""),
    ("apiextensions.k8s.io", ""),
    ("apiregistration.k8s.io", ""),
    ("rbac.authorization.k8s.io", ""),
    ("authentication.k8s.io", ""),
    ("authorization.k8s.io", ""),
];

/// The domains of labels that objects needed by the cluster or the operator may have: those of Kubernetes and of deployment tools.
const LABELS_OF_ALL: [&str; 8] = [
    "kubernetes.io",
    "k8s.io",
    "helm.sh",
    "argoproj.io",
    "fluxcd.io",
    "openshift.io",
    "cattle.io",
    "tekton.dev",
];

/// Returns the reason and the remedy for the first webhook that would block the restart of the operator or the cluster.
pub(crate) fn blocking(source: Source<'_>) -> Option<String> {
    let kinds = [AdmissionKind::Mutate, AdmissionKind::Validate];
    let hooks = kinds.map(|kind| hooks(kind, source.handlers));
    let mut hooks = hooks.iter().flatten();
    hooks.find_map(|hook| refused(hook, source))
}

fn refused(hook: &Hook<'_>, source: Source<'_>) -> Option<String> {
    if !hook.refuses_when_failing(source.client) || hook.alone().is_some_and(is_narrowed) {
        return None;
    }
    let mut handlers = hook.handlers.iter();
    let (admission, (resource, why)) = handlers.find_map(|admission| {
        let resources = resources_of(admission, &source.found.resources);
        let mut resources = resources.into_iter();
        let harmful = resources.find_map(|it| Some((it, harm(it, source)?)));
        Some((admission, harmful?))
    })?;
    let id = hook.id;
    let operations = operations(admission).join(", ");
    let whose = if hook.alone().is_some() {
        format!("of the admission handler `{id}`")
    } else {
        format!(
            "that all admission handlers with the id `{id}` share, so that their filters do not narrow it,"
        )
    };
    Some(format!(
        "the webhook {whose} ({operations} of {resource}) would refuse requests whenever this operator does not \
         answer, and {why}. Let it pass then (`ignore_failures = true`), or narrow it by a label with a prefix of your own (such as \
         `example.com/checked`, which nothing has that the operator or the cluster needs), by other resources, or by namespaces (`--namespace`) \
         that are neither the operator's own nor those of Kubernetes"
    ))
}

/// Returns true if the webhook only receives objects with a label of the user. Objects that the operator and the cluster need have none.
fn is_narrowed(admission: &Handler) -> bool {
    let mut labels = admission.filters.labels.iter();
    labels.any(|(key, criterion)| match criterion {
        _ if !is_of_users(key) => false,
        Criterion::Present => true,
        Criterion::Equals(value) => value.is_string(),
        Criterion::Absent | Criterion::Matches(_) => false,
    })
}

/// Returns true if the label's prefix belongs to a user. A label without a prefix, such as `app`, may be on any object.
fn is_of_users(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else {
        return false;
    };
    let is_below = |all: &&str| {
        let rest = domain.strip_suffix(*all);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    !LABELS_OF_ALL.iter().any(is_below)
}

/// Returns the consequence of refusing all requests for this kind, if it is harmful.
fn harm(resource: &Resource, source: Source<'_>) -> Option<String> {
    let is_listed = |list: &[(&str, &str)]| {
        list.iter().any(|(group, plural)| {
            *group == resource.group && (plural.is_empty() || *plural == resource.plural)
        })
    };
    if is_listed(&NEEDED_BY_CLUSTER) {
        return Some("the cluster does not work without these".to_owned());
    }
    if !is_listed(&NEEDED_TO_START) {
        return None;
    }
    let own = source.own_namespace.into_iter();
    // Without explicit namespaces, the webhook excludes these.
    let given = source.found.namespaces.as_ref()?;
    let in_danger = own.chain(SYSTEM).find(|name| given.contains(*name))?;
    Some(format!("Pods in the namespace `{in_danger}` cannot be started again without these"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::configuration::{ClientConfig, Found};
    use crate::handler::filter::{ABSENT, PRESENT};
    use crate::handler::options::Callback;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler_blocking;

    /// Returns true if a webhook for nodes is refused.
    fn is_refused(label: impl FnOnce(Callback) -> Callback) -> bool {
        let hook = handler_blocking("hook", |_, _| Ok(()));
        let why = why(&Registry::new().on_validate("nodes", label(hook)));
        if let Some(why) = &why {
            assert!(why.contains("a label with a prefix of your own"), "{why}");
        }
        why.is_some()
    }

    fn why(registry: &Registry) -> Option<String> {
        let resources = ["Node", "Service"].map(|kind| Resource::built_in("", kind, false)).to_vec();
        let found = Found { resources, ..Found::default() };
        let client =
            ClientConfig::Service { namespace: "ops".to_owned(), name: "hooks".to_owned(), port: 443 };
        blocking(Source {
            handlers: registry.handlers(),
            found: &found,
            client: &client,
            bundle: "",
            domain: "n",
            own_namespace: Some("ops"),
            only_persistent: false,
        })
    }

    #[test]
    fn shared_webhooks_are_judged_as_a_whole() {
        let hook = || handler_blocking("hook", |_, _| Ok(()));
        let narrow = || hook().label("example.com/checked", PRESENT);
        let ignoring = || hook().ignore_failures(true);
        let registry = |nodes: Callback, services: Callback| {
            Registry::new().on_validate("nodes", nodes).on_validate("services", services)
        };
        // Both handlers share a webhook, so the label of one does not narrow it.
        let told = why(&registry(narrow(), narrow())).unwrap();
        assert!(told.contains("all admission handlers with the id `hook` share"), "{told}");
        // The webhook ignores failures only if both handlers do.
        assert!(why(&registry(ignoring(), hook())).is_some());
        assert!(why(&registry(ignoring(), ignoring())).is_none());
        // Handlers of different kinds have separate webhooks.
        let apart = Registry::new().on_mutate("nodes", narrow()).on_validate("services", narrow());
        assert!(why(&apart).is_none());
    }

    #[test]
    fn only_a_label_of_users_makes_a_webhook_narrow() {
        assert!(is_refused(|it| it));
        for label in [
            "app",
            "kubernetes.io/os",
            "node.kubernetes.io/instance-type",
            "app.kubernetes.io/name",
            "helm.sh/chart",
            "kustomize.toolkit.fluxcd.io/name",
        ] {
            assert!(is_refused(|it| it.label(label, PRESENT)), "{label}");
            assert!(is_refused(|it| it.label(label, "a")), "{label}");
        }
        assert!(!is_refused(|it| it.label("example.com/checked", PRESENT)));
        assert!(!is_refused(|it| it.label("my-k8s.io/checked", "yes")));
        assert!(!is_refused(|it| it.label("app", "a").label("example.com/checked", "a")));
        assert!(is_refused(|it| it.label("example.com/checked", ABSENT)));
    }
}
