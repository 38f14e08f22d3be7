//! One child that requests are about, and the errors of these requests.
//!
//! Must not know the order of the requests.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use crate::cluster::Cluster;
use crate::cluster::error::{ClusterError, rule_for_deletion, rule_for_finalizers};
use crate::cluster::request::ObjectPath;
use crate::engine::children::refusal;
use crate::engine::report::report;
use crate::handler::child_requests::{ChildError, ChildWish};
use crate::handler::logger::Logger;
use crate::happening::working::ChildHappening;
use crate::object::child::{ChildName, ChildSight};
use crate::object::hierarchy::OwnerFacts;
use crate::object::resource::Resource;
use crate::reaction::children::{AppliedFacts, Author};
use crate::rt::backoff::Backoff;

pub(super) mod stability;

/// The maximum number of requests for one child before the handler gets an error.
pub(super) const TRIES: u32 = 8;
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// The longest `Retry-After` that is waited for. For longer ones, the handler gets an error.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(10);

/// The object that requests address.
pub(super) struct Target<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) resource: Resource,
    pub(super) child: ChildName,
    pub(super) logger: &'a Logger,
}

/// One child that a handler asks for.
pub(super) struct Task<'a> {
    pub(super) target: Target<'a>,
    pub(super) owner: OwnerFacts,
    /// The object as the handler wants it.
    pub(super) body: Value,
    /// The `managedFields` of the object before the apply.
    pub(super) managers: Option<Value>,
    /// The version in which the object was found, if nothing was known of it before.
    pub(super) version: Option<String>,
    pub(super) wish: &'a ChildWish,
}

/// The identity of what a handler wants: a digest of the content, and its author.
pub(super) struct Wanted {
    pub(super) digest: String,
    pub(super) author: Author,
}

/// The reason why a request has failed.
pub(super) enum Trouble {
    /// The request may be repeated; `landed` says that it may have been executed.
    Repeat {
        error: ClusterError,
        landed: bool,
    },
    Final(ChildError),
}

// === impl ===

/// Returns the back-off between requests for one child.
pub(super) fn pauses() -> Backoff {
    Backoff::new(PAUSES.0, PAUSES.1)
}

impl Wanted {
    pub(super) fn applied_as(self, sight: &ChildSight) -> AppliedFacts {
        AppliedFacts {
            uid: sight.uid.clone(),
            resource_version: sight.version.clone(),
            state: sight.state.clone(),
            noted: sight.noted.clone(),
            is_sure: true,
            digest: self.digest,
            author: self.author,
        }
    }
}

impl Task<'_> {
    /// Adds the missing RBAC rule to an error. The server accepts an owner reference only from clients with further permissions on the owner
    /// or the child.
    pub(super) fn with_rule(&self, error: ChildError) -> ChildError {
        let ChildError::RefusedForNow { child, error: text } = error else {
            return error;
        };
        let Target { cluster, resource, .. } = &self.target;
        let rule = if text.contains("cannot set blockOwnerDeletion") {
            let of_owner = cluster.discovered_kind(&self.owner.api_version, &self.owner.kind);
            let namespace = self.owner.namespace.as_deref();
            of_owner.map(|it| rule_for_finalizers(&it, namespace))
        } else if text.contains("cannot set an ownerRef on a resource you can't delete") {
            let namespace = child.namespace.as_deref();
            Some(rule_for_deletion(resource, namespace))
        } else {
            None
        };
        let error = match rule {
            Some(rule) => format!("{text}\nTo grant it, add {rule}"),
            None => text,
        };
        ChildError::RefusedForNow { child, error }
    }
}

impl Target<'_> {
    pub(super) fn path(&self) -> ObjectPath<'_> {
        ObjectPath {
            resource: &self.resource,
            namespace: self.child.namespace.as_deref(),
            name: &self.child.name,
        }
    }

    pub(super) fn tell(&self, happening: &ChildHappening) {
        report(self.logger, happening);
    }

    /// Waits before the request is repeated. Returns `false` if the server asks for a longer pause than is acceptable.
    pub(super) async fn pause(&self, pauses: &mut Backoff, error: &ClusterError) -> bool {
        let asked_for = error.retry_after().unwrap_or_default();
        let is_bearable = asked_for <= LONGEST_RETRY_AFTER;
        if is_bearable {
            sleep(pauses.next_pause_after(asked_for, self.cluster.rng())).await;
        }
        is_bearable
    }

    pub(super) fn not_ours(&self, why: String) -> ChildError {
        let child = self.child.clone();
        ChildError::NotOurs { child, why }
    }

    pub(super) fn unclaimed(&self, why: String) -> ChildError {
        let child = self.child.clone();
        ChildError::Unclaimed { child, why }
    }

    pub(super) fn not_now(&self, error: String) -> ChildError {
        let child = self.child.clone();
        ChildError::NotNow { child, error }
    }

    pub(super) fn trouble(&self, error: ClusterError) -> Trouble {
        let is_for_good = refusal::is_for_good(&error);
        let is_outdated = matches!(error, ClusterError::Conflict(_));
        if !is_for_good && (error.is_transient() || is_outdated) {
            let landed = error.may_have_landed();
            Trouble::Repeat { error, landed }
        } else {
            Trouble::Final(refusal::refused(&self.child, &error))
        }
    }
}
