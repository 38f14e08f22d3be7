//! The permissions that the handlers, the Lease and the Events of an operator need.
//!
//! Pure. Must not know how the permissions are printed.

use std::sync::Arc;

#[cfg(any(feature = "cli", test))]
use serde_json::{Value, json};

use crate::handler::definition::Handler;
use crate::object::resource::Resource;
#[cfg(any(feature = "cli", test))]
use crate::object::rights::Account;
use crate::object::rights::{FOLLOW, Rights};
use crate::operator::matching::ServedResource;
use crate::operator::scope::Scope;
use crate::reaction::peering::plural;

/// What the permissions depend on.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a reason of its own for permissions")]
pub(crate) struct RightsSource<'a> {
    /// All handlers, among them those without objects.
    pub(crate) handlers: &'a [Arc<Handler>],
    /// The resources that have handlers.
    pub(crate) served: &'a [ServedResource],
    /// All resources, among them those of children.
    pub(crate) resources: &'a [Resource],
    pub(crate) scope: &'a Scope,
    /// The name of the operator's peerings, if it takes part in any, and the groups that may have them.
    pub(crate) peering: Option<(&'a str, &'a [&'static str])>,
    /// True if handlers post Events.
    pub(crate) posts_events: bool,
    /// True if the operator must list namespaces, because patterns select them.
    pub(crate) lists_namespaces: bool,
    /// True if the operator detects new and removed kinds.
    pub(crate) scans: bool,
    /// True if the operator asks the API server about the clients of its metrics.
    pub(crate) reviews_tokens: bool,
}

/// The Lease of several instances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedLease<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

const LOOK: [&str; 3] = ["get", "list", "watch"];
/// The verbs for children: created, changed and removed by name.
const KEEP: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];
/// The verbs for children of former versions, which are only removed.
const REMOVE: [&str; 4] = ["get", "list", "watch", "delete"];

/// Returns the permissions of handlers.
pub(crate) fn rights(source: RightsSource<'_>) -> Rights {
    let mut rights = Rights::default();
    let places = Places(source.scope);
    for served in source.served {
        places.permit(&mut rights, &served.resource, None, &LOOK);
        if served.handlers.iter().any(|it| it.is_for_changes() || it.is_background()) {
            places.permit(&mut rights, &served.resource, None, &["patch"]);
            if served.resource.has_status_subresource() {
                places.permit(&mut rights, &served.resource, Some("status"), &["patch"]);
            }
        }
        for handler in &served.handlers {
            of_others(&mut rights, source, (places, served), handler);
        }
    }
    rights.absorb(rights_of_requests(source.handlers, source.resources, source.scope));
    if let Some((name, groups)) = source.peering {
        places.permit_peering(&mut rights, name, groups);
    }
    if source.posts_events && !source.served.is_empty() {
        let events = Resource::built_in("events.k8s.io", "Event", true);
        places.permit(&mut rights, &events, None, &["create", "patch"]);
        if source.served.iter().any(|it| !it.resource.namespaced) && !places.are_all() {
            rights.permit(Some("default"), &events.group, &[&events.plural], &["create", "patch"]);
        }
    }
    if source.scans {
        rights.permit(None, "apiextensions.k8s.io", &["customresourcedefinitions"], &["list", "watch"]);
    }
    if source.reviews_tokens {
        rights.permit(None, "authentication.k8s.io", &["tokenreviews"], &["create"]);
        rights.permit(None, "authorization.k8s.io", &["subjectaccessreviews"], &["create"]);
    }
    if source.lists_namespaces {
        rights.permit(None, "", &["namespaces"], &["list", "watch"]);
    }
    rights
}

/// Returns the permissions for the requests that handlers declare themselves.
pub(crate) fn rights_of_requests(handlers: &[Arc<Handler>], resources: &[Resource], scope: &Scope) -> Rights {
    let mut rights = Rights::default();
    for requests in handlers.iter().flat_map(|it| &it.requires) {
        let verbs: Vec<&str> = requests.verbs.iter().map(String::as_str).collect();
        for requested in &requests.resources {
            let is_it = |it: &&Resource| it.group == requested.group && it.plural == requested.plural;
            let is_namespaced = resources.iter().find(is_it).is_none_or(|it| it.namespaced);
            let name = requested.name();
            Places(scope).permit_in(&mut rights, is_namespaced, (&requested.group, &name), &verbs);
        }
    }
    rights
}

/// Adds the permissions for the children of a handler, and for objects that it refers to.
fn of_others(
    rights: &mut Rights,
    source: RightsSource<'_>,
    (places, served): (Places<'_>, &ServedResource),
    handler: &Handler,
) {
    let owns = handler.owns.iter().map(|it| (&it.selector, &KEEP[..]));
    let formerly = handler.formerly_owns.iter().map(|it| (it, &REMOVE[..]));
    let watches = handler.watches.iter().map(|it| (&it.selector, &LOOK[..]));
    for (selector, verbs) in owns.chain(formerly).chain(watches) {
        if let Some(resource) = selector.select_one(source.resources) {
            places.permit(rights, resource, None, verbs);
        }
    }
    if !handler.owns.is_empty() {
        // The admission plugin OwnerReferencesPermissionEnforcement demands it for `blockOwnerDeletion`.
        places.permit(rights, &served.resource, Some("finalizers"), &["update"]);
    }
}

/// Where an operator needs permissions for objects in namespaces.
#[derive(Clone, Copy)]
struct Places<'a>(&'a Scope);

impl Places<'_> {
    /// Returns true if the permissions are for all namespaces, because those that match a pattern may be created later.
    fn are_all(self) -> bool {
        match self.0 {
            Scope::All => true,
            Scope::Some(patterns) => !patterns.are_names(),
        }
    }

    fn permit(self, rights: &mut Rights, resource: &Resource, subresource: Option<&str>, verbs: &[&str]) {
        let plural = match subresource {
            None => resource.plural.clone(),
            Some(subresource) => format!("{}/{subresource}", resource.plural),
        };
        self.permit_in(rights, resource.namespaced, (&resource.group, &plural), verbs);
    }

    /// Permits to follow the peering of this name, and to write the operator's record to it.
    fn permit_peering(self, rights: &mut Rights, name: &str, groups: &[&str]) {
        let kind = plural(matches!(self.0, Scope::All));
        let status = format!("{kind}/status");
        for group in groups {
            self.each(true, |namespace| {
                rights.permit_named(namespace, (group, &[kind]), &[name], &FOLLOW);
                rights.permit_named(namespace, (group, &[&status]), &[name], &["patch"]);
            });
        }
    }

    fn permit_in(
        self,
        rights: &mut Rights,
        is_namespaced: bool,
        (group, plural): (&str, &str),
        verbs: &[&str],
    ) {
        self.each(is_namespaced, |namespace| rights.permit(namespace, group, &[plural], verbs));
    }

    /// Calls `permit` with each namespace, or with `None` for the whole cluster.
    fn each(self, is_namespaced: bool, mut permit: impl FnMut(Option<&str>)) {
        match self.0 {
            Scope::Some(patterns) if is_namespaced && patterns.are_names() => {
                patterns.literals().for_each(|namespace| permit(Some(namespace)));
            }
            _ => permit(None),
        }
    }
}

/// Returns the permissions that instances with a shared Lease need.
pub(crate) fn rights_for(lease: SharedLease<'_>) -> Rights {
    let leases = ("coordination.k8s.io", &["leases"][..]);
    let mut rights = Rights::default();
    rights.permit_named(Some(lease.namespace), leases, &[lease.name], &["get", "list", "watch", "update"]);
    rights.permit(Some(lease.namespace), leases.0, leases.1, &["create"]);
    rights
}

/// Returns a separate flow schema: with a queue of their own in the API server, renewals do not wait behind the operator's writes.
#[cfg(any(feature = "cli", test))]
pub(crate) fn flow_schema(account: Account<'_>, lease: SharedLease<'_>) -> Value {
    let subject = json!({"name": account.name, "namespace": account.namespace});
    let asked = json!({
        "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": [lease.namespace],
        "verbs": ["get", "create", "update"],
    });
    let name = format!("{}-{}-lease", lease.namespace, lease.name);
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": name},
        "spec": {
            "priorityLevelConfiguration": {"name": "leader-election"},
            "matchingPrecedence": 900,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [{"kind": "ServiceAccount", "serviceAccount": subject}],
                "resourceRules": [asked],
            }],
        },
    })
}
