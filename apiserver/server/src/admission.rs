//! Admission control: webhooks, which the server calls over HTTPS, and validating admission policies, which it evaluates itself.
//!
//! Verbs run under the store's lock and cannot wait. A verb that needs a reply of a webhook therefore aborts, leaves the call pending,
//! and runs again from its start when the reply is there; the reply stays valid as long as the same call is needed.
//! Nothing is written before all replies are there, and each call is made once. Without webhooks and policies the cost is a look at two
//! empty lists. Independent of transports and verbs.

pub(crate) mod chance;
pub(crate) mod check;
pub(crate) mod client;
mod condition;
mod hook;
pub(crate) mod place;
mod policy;
mod question;
mod real_time;
mod round;
mod trust;
mod url;
pub(crate) mod writing;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::kind::{CollectionId, Kind, Kinds};
use crate::store::Store;
use hook::Hook;
use policy::BoundPolicy;
pub(crate) use round::Round;

/// The API group of webhook configurations.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

const CONFIGURATIONS: [&str; 2] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
];

const POLICIES: [&str; 2] = [
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// The webhooks and policies, and the calls of the current request.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    places: Vec<CollectionId>,
    stale: bool,
    mutating: Arc<[Hook]>,
    validating: Arc<[Hook]>,
    /// The policies that have a binding.
    policies: Arc<[BoundPolicy]>,
    /// The addresses of Services, by namespace and name, because the server has no cluster network.
    services: BTreeMap<(String, String), SocketAddr>,
    /// The pending and completed calls of the current request.
    pub(crate) round: Option<Round>,
}

// === impl Admission ===

impl Admission {
    pub(crate) fn new(kinds: &Kinds) -> Self {
        let place = |plural| kinds.kind(GROUP, "v1", plural).map(|kind| kind.collection);
        Self {
            places: CONFIGURATIONS
                .into_iter()
                .chain(POLICIES)
                .filter_map(place)
                .collect(),
            ..Self::default()
        }
    }

    /// Marks the cached hooks and policies as stale after a write to one of their collections.
    pub(crate) fn touch(&mut self, id: CollectionId) {
        self.stale |= self.places.contains(&id);
    }

    /// Sets the address under which a Service is reachable.
    pub(crate) fn place_service(&mut self, namespace: &str, name: &str, at: SocketAddr) {
        self.services
            .insert((namespace.to_owned(), name.to_owned()), at);
    }
}

/// Reloads webhooks and policies if they changed.
fn refresh(store: &mut Store) {
    if !std::mem::take(&mut store.admission.stale) {
        return;
    }
    let hooks = |plural: &str| -> Arc<[Hook]> {
        let Some(kind) = store.kinds.kind(GROUP, "v1", plural) else {
            return Arc::default();
        };
        let all = store.under(kind.collection, "");
        all.iter()
            .flat_map(|stored| Hook::all_of(&stored.body()))
            .collect()
    };
    let [mutating, validating] = CONFIGURATIONS;
    let (mutating, validating) = (hooks(mutating), hooks(validating));
    store.admission.mutating = mutating;
    store.admission.validating = validating;
    let bodies = |plural: &str| -> Vec<_> {
        let kind = store.kinds.kind(GROUP, "v1", plural);
        let all = kind.map(|kind| store.under(kind.collection, ""));
        all.into_iter()
            .flatten()
            .map(|stored| stored.body())
            .collect()
    };
    let [policies, bindings] = POLICIES.map(bodies);
    store.admission.policies = policy::bound(&policies, &bindings).into();
}

/// Returns true if a webhook or policy may apply to writes of this kind. In the group of admission itself, policies apply only to webhook
/// configurations, and webhooks to nothing, so that a broken configuration can always be repaired.
pub(crate) fn is_due(store: &mut Store, kind: &Kind) -> bool {
    let is_asked = !is_exempt(&kind.group);
    let is_judged = is_asked || CONFIGURATIONS.contains(&kind.plural.as_str());
    if store.admission.round.is_none() || !is_judged {
        return false;
    }
    refresh(store);
    let admission = &store.admission;
    let has_hooks = !admission.mutating.is_empty() || !admission.validating.is_empty();
    !admission.policies.is_empty() || is_asked && has_hooks
}

/// Returns true if webhooks never apply to a group.
fn is_exempt(group: &str) -> bool {
    group == GROUP
}
