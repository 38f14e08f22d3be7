//! Webhooks that would block the operator itself, or the cluster, once the operator does not answer: refused before they are written.
//!
//! Must not know how webhooks are written.

use std::sync::Arc;

use crate::admission::configuration::{
    SYSTEM, Source, operations, refuses_when_failing, resources_of,
};
use crate::handler::definition::Handler;
use crate::handler::filter::Criterion;
use crate::handler::webhook::AdmissionHandler;
use crate::object::resource::Resource;

/// Kinds in namespaces without which a Pod of the operator cannot be started again.
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

/// Kinds without which the cluster itself does not go on. An empty plural: all of the group.
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

/// The first handler whose webhook would block what is needed to start the operator again: why, and what to do.
pub(crate) fn blocking(source: Source<'_>) -> Option<String> {
    let mut handlers = source.handlers.iter();
    handlers.find_map(|it| refused(it, source))
}

fn refused(handler: &Arc<Handler>, source: Source<'_>) -> Option<String> {
    let admission = handler.admission()?;
    if !refuses_when_failing(admission, source.client) || is_narrowed(admission) {
        return None;
    }
    let resources = resources_of(admission, source.resources);
    let mut resources = resources.into_iter();
    let (resource, why) = resources.find_map(|it| Some((it, harm(it, source)?)))?;
    let id = &handler.id;
    let operations = operations(admission).join(", ");
    Some(format!(
        "the webhook of the admission handler `{id}` ({operations} of {resource}) would refuse requests whenever this operator does not \
         answer, and {why}. Let it pass then (`ignore_failures = true`), or narrow it by `labels`, by other resources, or by namespaces \
         (`--namespace`) that are neither the operator's own nor those of Kubernetes"
    ))
}

/// Whether only objects with a certain label are asked about: what the operator needs has none.
fn is_narrowed(admission: &AdmissionHandler) -> bool {
    let mut labels = admission.filters.labels.iter();
    labels.any(|(_, criterion)| match criterion {
        Criterion::Present => true,
        Criterion::Equals(value) => value.is_string(),
        Criterion::Absent | Criterion::Matches(_) => false,
    })
}

/// What would come of it if all requests for this kind were refused.
fn harm(resource: &Resource, source: Source<'_>) -> Option<String> {
    let is_listed = |list: &[(&str, &str)]| {
        list.iter().any(|(group, plural)| {
            *group == resource.group && (plural.is_empty() || *plural == resource.plural)
        })
    };
    if is_listed(&NEEDED_BY_CLUSTER) {
        return Some("the cluster does not go on without these".to_owned());
    }
    if !is_listed(&NEEDED_TO_START) {
        return None;
    }
    let own = source.own_namespace.into_iter();
    // Where no namespaces are given, these are left out of the webhook.
    let given = source.namespaces?;
    let in_danger = own.chain(SYSTEM).find(|name| given.contains(*name))?;
    Some(format!(
        "what is in the namespace `{in_danger}` cannot be started again without these"
    ))
}
