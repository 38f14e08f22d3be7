//! Admission: webhooks, whoever wants to change or to refuse what is written, and is asked over HTTPS; and policies, which are evaluated here.
//!
//! Verbs run under the store's lock and cannot wait. So a verb that needs a webhook's answer gives up, leaves the question
//! behind, and runs again from its start when the answer is there; an answer counts as long as the question is the same.
//! Promise: nothing is written before all answers are there, and no answer is asked for twice. Without webhooks this costs a
//! look at two empty lists. Must not know transports or verbs.

pub(crate) mod chance;
pub(crate) mod check;
pub(crate) mod client;
mod condition;
mod hook;
pub(crate) mod place;
mod policy;
mod question;
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

/// The group of webhook configurations.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

const CONFIGURATIONS: [&str; 2] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
];

const POLICIES: [&str; 2] = [
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// The webhooks, and what they have been asked.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    places: Vec<CollectionId>,
    stale: bool,
    mutating: Arc<[Hook]>,
    validating: Arc<[Hook]>,
    /// Those that are bound.
    policies: Arc<[BoundPolicy]>,
    /// Where services are, by namespace and name: the server has no network of its own.
    services: BTreeMap<(String, String), SocketAddr>,
    /// What the request that is being answered has asked so far.
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

    /// Something was written there.
    pub(crate) fn touch(&mut self, id: CollectionId) {
        self.stale |= self.places.contains(&id);
    }

    /// Where a service is reached from now on.
    pub(crate) fn place_service(&mut self, namespace: &str, name: &str, at: SocketAddr) {
        self.services
            .insert((namespace.to_owned(), name.to_owned()), at);
    }
}

/// Bring the webhooks and the policies up to date.
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

/// Whether any webhook or policy may want to know of writes to this kind.
pub(crate) fn is_due(store: &mut Store, kind: &Kind) -> bool {
    if store.admission.round.is_none() || kind.group == GROUP {
        return false;
    }
    refresh(store);
    let admission = &store.admission;
    !admission.mutating.is_empty()
        || !admission.validating.is_empty()
        || !admission.policies.is_empty()
}
