//! Computes the permissions that an operator needs, and compares them with those of its account at the start.
//!
//! The comparison delays nothing, and its failure has no consequences, because each refused request is reported anyway. Must not know how
//! the permissions are printed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::admission::configuration::Found;
use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::engine::report::report_of_operator;
use crate::handler::definition::Handler;
use crate::handler::subject::Activity;
use crate::happening::serving::Serving;
use crate::object::granted::{Granted, GrantedRule, Question};
use crate::object::resource::Resource;
use crate::object::rights::Rights;
use crate::operator::matching::{ServedResource, match_handlers};
use crate::operator::observe::new_kinds_matter;
use crate::operator::rights::{RightsSource, SharedLease, rights, rights_for, rights_of_requests};
use crate::operator::run::CheckedOperator;
#[cfg(feature = "cli")]
use crate::operator::run::Operator;
use crate::operator::scope::{Patterns, Scope};
use crate::operator::settings::Settings;
use crate::operator::validation::bounded;
use crate::reaction::peering::{GROUPS, is_peering};
use crate::rt::task;

/// The time limit for the whole comparison.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time that a start usually takes at most.
const USUAL_START: Duration = Duration::from_secs(5);

/// The number of concurrent requests, so that the comparison of many namespaces does not delay other requests.
const AT_ONCE: usize = 4;

#[cfg(feature = "cli")]
impl Operator {
    /// Returns the permissions for the requests that handlers declare, regardless of namespaces.
    pub(crate) fn declared_rights(&self) -> Rights {
        let mut rights = Rights::default();
        for requests in self.registry.handlers().iter().flat_map(|it| &it.requires) {
            let verbs: Vec<&str> = requests.verbs.iter().map(String::as_str).collect();
            for requested in &requests.resources {
                rights.permit(None, &requested.group, &[&requested.name()], &verbs);
            }
        }
        rights
    }
}

impl CheckedOperator {
    /// Returns the permissions that handlers need in this scope; of the two lists, the second has the resources with handlers. The operator
    /// takes part in the peerings of these groups.
    pub(super) fn rights_of_handlers(
        &self,
        settings: &Settings,
        (resources, served): (&[Resource], &[ServedResource]),
        scope: &Scope,
        peering_groups: &[&'static str],
    ) -> Rights {
        let all: Vec<Arc<Handler>> = self.handlers.iter().chain(&self.admission_handlers).cloned().collect();
        let detects = !settings.scanning.disabled;
        rights(RightsSource {
            handlers: &all,
            served,
            resources,
            scope,
            posts_events: settings.posting.enabled,
            peering: (!settings.peering.standalone).then_some((&settings.peering.name, peering_groups)),
            lists_namespaces: detects
                && matches!(&self.scope, Scope::Some(patterns) if !patterns.are_names()),
            reviews_tokens: settings.metrics.authentication,
            scans: detects && new_kinds_matter(all.iter().map(|it| &**it), resources),
        })
    }

    /// Reports the permissions that the operator's account lacks, as soon as the resources and namespaces are known. If they are not known in
    /// time, maybe because a missing permission delays the webhooks, first compares those of the resources that the server has now.
    pub(super) fn compare_rights(
        self: &Arc<Self>,
        settings: Settings,
        cluster: Cluster,
        mut found: watch::Receiver<Option<Found>>,
    ) -> AbortOnDropHandle<()> {
        let operator = Arc::clone(self);
        AbortOnDropHandle::new(task::spawn(async move {
            let mut compared = Rights::default();
            if timeout(USUAL_START, found.wait_for(Option::is_some)).await.is_err()
                && let Some(found) = operator.discovered(&cluster).await
            {
                let needed = operator.rights_at_present(&settings, &cluster, &found);
                if report_missing(&cluster, &needed).await {
                    compared = needed;
                }
            }
            let known = found.wait_for(Option::is_some).await.ok().and_then(|it| (*it).clone());
            drop(found);
            if let Some(found) = known {
                let needed = operator.rights_at_present(&settings, &cluster, &found);
                report_missing(&cluster, &needed.without(&compared)).await;
            }
        }))
    }

    /// Returns the resources and the namespaces that the server has now. Reports a failure.
    async fn discovered(&self, cluster: &Cluster) -> Option<Found> {
        let namespaces = match &self.scope {
            Scope::All => None,
            Scope::Some(patterns) => {
                let kind = Resource::built_in("", "Namespace", false);
                let all = if patterns.are_names() { None } else { cluster.list_kept(&kind, "").await.ok() };
                let names = all.iter().flatten().filter_map(|it| it["metadata"]["name"].as_str());
                let matching = names.filter(|it| patterns.matches(it)).map(str::to_owned).collect();
                let literals = || patterns.literals().map(str::to_owned).collect();
                Some(if all.is_some() { matching } else { literals() })
            }
        };
        match cluster.discover().await {
            Ok(resources) => Some(Found { resources, namespaces, namespace_expression: None }),
            Err(error) => {
                report_of_operator(&Serving::RightsUnknown { error: error.to_string() });
                None
            }
        }
    }

    /// Reports the permissions that startup handlers declare and the operator's account lacks: without them, these handlers fail again and
    /// again, so that the comparison after the startup would never begin.
    pub(super) fn compare_rights_at_startup(self: &Arc<Self>) -> Option<AbortOnDropHandle<()>> {
        let handlers = self.group_of(Activity::Startup).handlers;
        handlers.iter().any(|it| !it.requires.is_empty()).then(|| {
            let operator = Arc::clone(self);
            AbortOnDropHandle::new(task::spawn(async move {
                let cluster = operator.cluster(&bounded(operator.settings.get()));
                if let Some(found) = operator.discovered(&cluster).await {
                    let declared = rights_of_requests(&handlers, &found.resources, &scope_of(&found));
                    report_missing(&cluster, &declared).await;
                }
            }))
        })
    }

    /// Returns the permissions that the operator needs in the namespaces that exist at present.
    fn rights_at_present(&self, settings: &Settings, cluster: &Cluster, found: &Found) -> Rights {
        let scope = scope_of(found);
        let unused = watch::Sender::new(None).subscribe();
        let setup = self.setup_of_webhooks(settings, cluster, unused);
        let matched = match_handlers(&self.handlers, &found.resources, &BTreeSet::new());
        let mut needed = setup.needed_rights(&self.rules, found, false);
        let is_of_peerings = |it: &&Resource| is_peering(it, matches!(scope, Scope::All));
        let peerings = found.resources.iter().filter(is_of_peerings);
        let groups = GROUPS.into_iter().filter(|group| peerings.clone().any(|it| it.group == *group));
        let (resources, groups) = ((&*found.resources, &*matched.resources), groups.collect::<Vec<_>>());
        needed.absorb(self.rights_of_handlers(settings, resources, &scope, &groups));
        if settings.lease.enabled {
            let (namespace, name) = self.lease(settings, cluster);
            needed.absorb(rights_for(SharedLease { namespace: &namespace, name: &name }));
        }
        needed
    }
}

/// Returns the namespaces that exist.
fn scope_of(found: &Found) -> Scope {
    match &found.namespaces {
        None => Scope::All,
        // Fails without namespaces, in which nothing is needed.
        Some(names) => Scope::Some(Patterns::parse(names).unwrap_or_default()),
    }
}

/// The permissions of the operator's account, as far as they were reviewed.
#[derive(Default)]
struct Reviewed {
    granted: Granted,
    /// The places where the server does not know all rules.
    unsure: BTreeSet<Option<String>>,
}

impl Reviewed {
    /// Asks once for each place.
    async fn ask(&mut self, cluster: &Cluster, places: Vec<Option<String>>) -> Result<(), ClusterError> {
        let review = |place: Option<String>| {
            let reviewing = async move {
                let reviewed = cluster.reviewed_rules(place.as_deref()).await;
                reviewed.map(|it| (place, it))
            };
            reviewing.boxed()
        };
        let reviews: Vec<_> = places.into_iter().map(review).collect();
        let mut reviews = stream::iter(reviews).buffer_unordered(AT_ONCE);
        while let Some(review) = reviews.next().await {
            let (place, reviewed) = review?;
            self.granted.add(place.as_deref(), reviewed.rules);
            self.unsure.extend((!reviewed.are_complete).then_some(place));
        }
        Ok(())
    }

    /// Asks for each single request that is not granted by a known rule, where the server does not know all rules.
    async fn ask_singly(&mut self, cluster: &Cluster, missing: &Rights) -> Result<(), ClusterError> {
        let is_unsure = |it: &Question<'_>| self.unsure.contains(&it.namespace.map(str::to_owned));
        let mut answers = Vec::new();
        for question in missing.questions().filter(is_unsure) {
            let answer = async move {
                let is_granted = cluster.is_granted(&question).await;
                is_granted.map(|is_granted| (question, is_granted))
            };
            answers.push(answer.boxed());
        }
        let mut answers = stream::iter(answers).buffer_unordered(AT_ONCE);
        while let Some(answer) = answers.next().await {
            let (question, is_granted) = answer?;
            self.granted.add(question.namespace, is_granted.then(|| GrantedRule::only(&question)));
        }
        Ok(())
    }
}

/// Reports which of these permissions the operator's account lacks. Returns false if the server does not tell.
async fn report_missing(cluster: &Cluster, needed: &Rights) -> bool {
    let compared = timeout(PATIENCE, missing(cluster, needed)).await;
    let compared = compared
        .map_err(|_| format!("no answers within {} seconds", PATIENCE.as_secs()))
        .and_then(|it| it.map_err(|error| error.to_string()));
    let is_compared = compared.is_ok();
    match compared {
        Err(error) => report_of_operator(&Serving::RightsUnknown { error }),
        Ok(missing) if missing.is_empty() => {}
        Ok(missing) => {
            let account = cluster.account().await.unwrap_or_default();
            let rules = missing.to_add("it");
            report_of_operator(&Serving::RightsMissing { account, rules });
        }
    }
    is_compared
}

/// Returns the part of the permissions that the operator's account lacks. Asks once for the whole cluster, and once for each namespace in
/// which the rules of the whole cluster are not enough.
async fn missing(cluster: &Cluster, needed: &Rights) -> Result<Rights, ClusterError> {
    let mut reviewed = Reviewed::default();
    if needed.is_empty() {
        return Ok(Rights::default());
    }
    reviewed.ask(cluster, vec![None]).await?;
    let missing = needed.missing(&reviewed.granted);
    let namespaces = missing.places().flatten().map(|it| Some(it.to_owned()));
    reviewed.ask(cluster, namespaces.collect()).await?;
    let missing = needed.missing(&reviewed.granted);
    reviewed.ask_singly(cluster, &missing).await?;
    Ok(needed.missing(&reviewed.granted))
}
