//! Explains the state of an object from the evidence, without calling handlers or writing.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::cluster::error::ClusterError;
use crate::cluster::{Client, Cluster};
use crate::engine::invoke::guarded;
use crate::handler::definition::Handler;
use crate::health::responder::status_at;
use crate::object::body::Body;
use crate::object::event::EventType;
use crate::object::resource::Resource;
use crate::object::selector::Selector;
use crate::operator::matching::{ServedResource, match_handlers};
use crate::operator::run::asking::ask;
use crate::operator::run::{CheckedOperator, Operator, OperatorError, refused};
use crate::operator::scope::Scope;
use crate::operator::settings::Settings;
use crate::reaction::explain::{Explained, explain};
use crate::reaction::input::{Input, Policy};
use crate::reaction::memory::ObjectMemory;
use crate::reaction::peering::{Peers, is_peering};
use crate::state::Persistence;
use crate::state::naming;
use crate::why::events::recent;
use crate::why::explanation::Explanation;
use crate::why::judgement::{Evidence, judge, unknown};
use crate::why::question::WhyQuestion;
use crate::why::writers::last_write;

impl Operator {
    /// Explains why an object is as it is: the last handled change and its time, its pending work and what will wake it, the filter that excludes
    /// it, and the handlers that a given change would call. Calls the functions in filters, but no handler, and writes nothing. The operator
    /// itself may be running elsewhere, or not at all.
    ///
    /// # Errors
    /// Returns an error if something is wrong with the operator, or the cluster refuses discovery. Problems of the object are an
    /// [`Explanation`].
    pub async fn why(self, client: Client, question: WhyQuestion) -> Result<Explanation, OperatorError> {
        let name = self.check()?;
        CheckedOperator::new(self, name, client)?.why(&question).await
    }
}

/// A resource, and the handlers for it.
struct Found {
    resource: Arc<Resource>,
    handlers: Vec<Arc<Handler>>,
    withheld: Vec<Arc<Handler>>,
}

impl CheckedOperator {
    pub(super) async fn why(&self, question: &WhyQuestion) -> Result<Explanation, OperatorError> {
        let settings = self.settings.get();
        let cluster = self.cluster(&settings);
        let resources = cluster.discover().await.map_err(|error| refused(&error))?;
        let title = title(question);
        let found = match self.find(question, &resources, &cluster) {
            Ok(found) => found,
            Err((word, summary)) => return Ok(unknown(title, word, summary)),
        };
        let namespace = found.resource.namespaced.then(|| {
            let namespace = question.namespace.as_deref();
            namespace.unwrap_or(self.client.default_namespace())
        });
        let whole = cluster.get_whole(&found.resource, namespace, &question.name).await;
        let mut whole = match whole.map_err(|error| unreadable(&error)) {
            Ok(whole) => whole,
            Err((word, summary)) => return Ok(unknown(title, word, summary)),
        };
        // Objects that handlers see have no managed fields.
        let managed = whole["metadata"]["managedFields"].take();
        let body = Arc::new(Body::new(whole));
        let explained = self.explained(&settings, &found, &body);
        let explained = match explained {
            Ok(explained) => explained,
            Err(panic) => {
                let summary = format!("a filter has panicked: {panic}");
                return Ok(unknown(title, "panicked", summary));
            }
        };
        let changed = (!question.changes.is_empty()).then(|| {
            let changed = Arc::new(Body::new(question.changed(&body)));
            let explained = self.explained(&settings, &found, &changed).ok()?;
            Some((explained, changed))
        });
        let persistence = self.persistence(&settings);
        Ok(judge(&Evidence {
            resource: &found.resource,
            body: &body,
            explained,
            changed: changed.flatten(),
            handlers: &found.handlers,
            last_write: last_write(&managed, &self.name),
            finalizer: &persistence.finalizer,
            is_in_scope: match (&self.scope, body.namespace()) {
                (Scope::Some(patterns), Some(namespace)) => patterns.matches(namespace),
                _ => true,
            },
            peers: self.peers(&settings, &cluster, &resources, body.namespace()).await,
            running: self.running(question, &body).await,
            events: events(&cluster, &body).await,
            is_kopf: persistence.prefix() != Some(&*naming::prefix(&self.name)),
            now: self.clock.now(),
        }))
    }

    fn persistence(&self, settings: &Settings) -> Persistence {
        let chosen = settings.persistence.clone();
        chosen.unwrap_or_else(|| Persistence::named(&self.name))
    }

    /// Finds the resource of the question: of several, one that has handlers.
    fn find(
        &self,
        question: &WhyQuestion,
        resources: &[Resource],
        cluster: &Cluster,
    ) -> Result<Found, (&'static str, String)> {
        let kind = &question.kind;
        let selector = Selector::positional(&[kind]);
        let selector = selector.map_err(|error| ("unknown-kind", error.to_string()))?;
        let means = |resource: &Resource| selector.matches(resource);
        let matched = match_handlers(&self.handlers, resources, &cluster.unknown_versions());
        // The word names the preferred version; handlers may be for another version of the same kind.
        let is_meant = |resource: &Resource| {
            let is_same = |it: &Resource| it.group == resource.group && it.plural == resource.plural;
            resources.iter().any(|it| means(it) && is_same(it))
        };
        let mut served = matched.resources.into_iter();
        if let Some(served) = served.find(|served| is_meant(&served.resource)) {
            let ServedResource { resource, handlers, withheld } = served;
            return Ok(Found { resource: Arc::new(resource), handlers, withheld });
        }
        let others = resources.iter().filter(|it| means(it) && it.preferred);
        let [one] = others.collect::<Vec<_>>()[..] else {
            let summary = if resources.iter().any(means) {
                format!("several kinds are called `{kind}`: name its group, as in `{kind}.GROUP`")
            } else {
                format!("the cluster serves no kind `{kind}`")
            };
            return Err(("unknown-kind", summary));
        };
        Ok(Found { resource: Arc::new(one.clone()), handlers: Vec::new(), withheld: Vec::new() })
    }

    fn explained(&self, settings: &Settings, found: &Found, body: &Arc<Body>) -> Result<Explained, String> {
        guarded(|| {
            explain(&Input {
                handlers: &found.handlers,
                persistence: &self.persistence(settings),
                policy: &Policy::default(),
                resource: &found.resource,
                body,
                event: None,
                // Seen as handled since the operator began, because it would be resumed otherwise.
                seen: &ObjectMemory::first(EventType::Added),
                background: None,
                background_is_over: true,
                surroundings: &self.context,
                finalizer_is_contested: false,
                withheld: &found.withheld,
                suspended: &[],
                ask_pause: |_, _| Ok(Duration::ZERO),
                now: self.clock.now(),
                wall_ahead: SignedDuration::ZERO,
                random: 0.0,
            })
        })
    }

    /// Returns the report of the running operator about the object: the one at the endpoint of the question, or this one.
    async fn running(&self, question: &WhyQuestion, body: &Body) -> Option<Result<Value, String>> {
        match &question.endpoint {
            Some(endpoint) => Some(ask(endpoint, body.uid()).await),
            None => status_at(self.board.as_ref()?, body.uid()).map(Ok),
        }
    }

    /// Returns the operators for which one of this priority is paused.
    async fn peers(
        &self,
        settings: &Settings,
        cluster: &Cluster,
        resources: &[Resource],
        namespace: Option<&str>,
    ) -> Result<Vec<String>, String> {
        let Some(mut own) = self.peer(settings) else {
            return Ok(Vec::new());
        };
        // Peers of the same priority must not count, because the operator in question may itself be one of them: it is another process than
        // this one.
        own.started = Timestamp::MIN;
        let is_clusterwide = matches!(self.scope, Scope::All);
        let namespace = namespace.filter(|_| !is_clusterwide);
        let mut paused_for = Vec::new();
        let is_peering = |it: &&Resource| is_peering(it, is_clusterwide);
        for resource in resources.iter().filter(is_peering) {
            match cluster.get(resource, namespace, &settings.peering.name).await {
                Ok(raw) => {
                    let body = raw.body().map_err(|error| error.to_string())?;
                    let mut peers = Peers::default();
                    peers.take_in(body.status(), Duration::ZERO, self.clock.now());
                    paused_for.extend(peers.judge(&own, Duration::ZERO).in_favour_of);
                }
                Err(ClusterError::NotFound(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(paused_for)
    }
}

async fn events(cluster: &Cluster, body: &Body) -> Result<Vec<String>, String> {
    let events = cluster.events_about(body.namespace(), body.uid()).await;
    let events = events.map_err(|error| error.to_string())?;
    Ok(recent(&events))
}

fn title(question: &WhyQuestion) -> String {
    let WhyQuestion { kind, name, namespace, .. } = question;
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

fn unreadable(error: &ClusterError) -> (&'static str, String) {
    match error {
        ClusterError::NotFound(_) => ("not-found", "there is no such object".to_owned()),
        ClusterError::Denied { message, rule } => {
            let summary = format!("it must not be read: {message}");
            let grant = format!("\nTo grant it, add {rule}");
            let grant = if rule.is_empty() { "" } else { &*grant };
            ("forbidden", summary + grant)
        }
        error => ("unreadable", error.to_string()),
    }
}
