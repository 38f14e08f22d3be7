//! The checks behind `/livez`, `/readyz` and `/readyz/webhooks`, in the format of Kubernetes' own endpoints.
//!
//! Pure functions of facts and the time. Liveness means that a restart would not help: an unreachable server or a missing permission affects
//! only the readiness.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::calls_in_flight::CallInFlight;
use crate::engine::indexing::objects::facts::{IndexFacts, IndexLack};
use crate::engine::queue::facts::{QueueFacts, Waiting};
use crate::health::board::{
    LeaseFacts, Listing, OperatorFacts, Phase, Reviews, WatchCounts, WatchFacts, reason,
};

/// All facts at one time.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) operator: OperatorFacts,
    pub(crate) watches: Vec<WatchFacts>,
    /// The counts of all watches by resource.
    pub(crate) counts: BTreeMap<String, WatchCounts>,
    pub(crate) indices: Vec<IndexFacts>,
    pub(crate) queue: QueueFacts,
    pub(crate) calls: Vec<CallInFlight>,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) name: String,
    /// The problem, if any.
    pub(crate) trouble: Option<String>,
}

/// The query parameters of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    verbose: bool,
    exclude: Vec<String>,
    uid: Option<String>,
}

/// The response of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) is_well: bool,
    pub(crate) text: String,
}

/// The maximum pause of the Lease's task, which checks its clocks every second.
const BEAT: Duration = Duration::from_secs(10);

impl Check {
    pub(crate) fn new(name: impl Into<String>, trouble: Option<String>) -> Self {
        Self { name: name.into(), trouble }
    }
}

impl Facts {
    /// Returns the checks for liveness.
    pub(crate) fn live(&self, now: Instant) -> Vec<Check> {
        let mut checks = vec![
            Check::new("watches", self.stale_watch(now)),
            Check::new(
                "queue",
                self.waits_beyond(self.queue.stuck.as_ref(), self.operator.bounds.stuck, now),
            ),
        ];
        if let Some(lease) = &self.operator.lease {
            checks.push(Check::new("lease", idle_lease(lease, now)));
        }
        checks
    }

    /// Returns the checks for readiness.
    pub(crate) fn ready(&self, now: Instant) -> Vec<Check> {
        let unless = |is_well: bool, trouble: &str| (!is_well).then(|| trouble.to_owned());
        let is_starting = self.operator.phase == Phase::Starting;
        let mut checks = vec![
            Check::new("startup", unless(!is_starting, "startup handlers are called")),
            Check::new("shutdown", unless(self.operator.phase != Phase::Stopping, "the operator stops")),
        ];
        if self.operator.phase != Phase::Serving {
            return checks;
        }
        if let Some(lease) = &self.operator.lease {
            let lacks = lease.lacks.as_ref();
            let lacks = lacks.map(|why| format!("handlers cannot be called: {why}"));
            checks.push(Check::new("lease", lacks));
        }
        let discovery = unless(self.operator.discovered, "the cluster has not listed its resources yet");
        checks.push(Check::new("discovery", discovery));
        if self.operator.discovered {
            let namespaces = unless(self.operator.knows_namespaces, "namespaces are listed");
            checks.push(Check::new("namespaces", namespaces));
        }
        checks.extend(self.kinds());
        if let Some(rules) = &self.operator.rules {
            let trouble = rules.as_ref().err();
            let trouble = trouble.map(|why| format!("validation rules are not enforced: {why}"));
            checks.push(Check::new("rules", trouble));
        }
        let indices = self.indices.iter().map(check_of_index);
        checks.extend(indices);
        let late = self.waits_beyond(self.queue.oldest.as_ref(), self.operator.bounds.late, now);
        checks.push(Check::new("queue", late));
        checks
    }

    /// Returns the check for the Service's endpoint. It must depend on nothing else: to list objects of a converted kind, the API server
    /// calls this endpoint, so an endpoint that waits for the listing would deadlock.
    pub(crate) fn webhooks(&self) -> Vec<Check> {
        let trouble = match self.operator.phase {
            _ if self.operator.reviews == Reviews::Answered => None,
            Phase::Stopping => Some("the operator stops, and other instances should be asked"),
            Phase::Starting | Phase::Serving => Some("the endpoint does not listen yet"),
        };
        vec![Check::new("webhooks", trouble.map(str::to_owned))]
    }

    /// Returns one check for each watched resource, and for those that are not served.
    fn kinds(&self) -> Vec<Check> {
        let mut kinds: BTreeMap<String, (usize, Vec<&str>)> = BTreeMap::new();
        for watch in &self.watches {
            let kind = watch.collection.resource.to_string();
            let (all, troubles) = kinds.entry(kind).or_default();
            *all += 1;
            troubles.extend(unready(watch));
        }
        let mut checks: Vec<_> = kinds
            .into_iter()
            .map(|(kind, (all, troubles))| {
                let trouble = troubles.first().map(|first| match (all, troubles.len()) {
                    (1, _) => (*first).to_owned(),
                    (all, bad) => format!("{first} ({bad} of {all} namespaces)"),
                });
                Check::new(format!("kind/{kind}"), trouble)
            })
            .collect();
        for (kind, why) in &self.operator.unserved {
            checks.push(Check::new(format!("kind/{kind}"), Some((*why).to_owned())));
        }
        checks
    }

    /// Returns the longest-silent watch if its silence is too long.
    fn stale_watch(&self, now: Instant) -> Option<String> {
        let stale = self.watches.iter().filter(|watch| is_stale(watch, now));
        let watch = stale.min_by_key(|watch| watch.heard)?;
        Some(format!(
            "nothing has come from the watch of {} for {}, and a stream ends after {} of silence",
            watch.collection.resource,
            seconds(now.saturating_duration_since(watch.heard)),
            seconds(watch.deadline)
        ))
    }

    /// Returns the longest-waiting object if it waits longer than `bound`.
    fn waits_beyond(&self, longest: Option<&Waiting>, bound: Duration, now: Instant) -> Option<String> {
        let Waiting { uid, since, object, is_held_up } = longest?;
        let waits = now.saturating_duration_since(*since);
        if waits <= bound {
            return None;
        }
        let mut calls = self.calls.iter();
        let call = calls.find(|call| call.uid == *uid);
        let reason = match call {
            Some(call) => format!(
                "its handler '{}' has been running for {}",
                call.handler,
                seconds(now.saturating_duration_since(call.since))
            ),
            None if *is_held_up => "the server refuses the operator's writes".to_owned(),
            None => format!("{} objects wait", self.queue.waiting),
        };
        Some(format!(
            "a change of an object of {} has waited for {}: {reason}",
            object.resource,
            seconds(waits)
        ))
    }
}

/// Returns the problem if the Lease's task does not run although this instance takes part. A Lease held by another instance or an
/// unreachable server is not this instance's fault.
fn idle_lease(lease: &LeaseFacts, now: Instant) -> Option<String> {
    let silence = now.saturating_duration_since(lease.beat?);
    (silence >= BEAT).then(|| {
        format!("the task that renews the Lease {} has not run for {}", lease.lease, seconds(silence))
    })
}

fn check_of_index(index: &IndexFacts) -> Check {
    let lack = index.lack.as_ref().map(|lack| {
        let because = match lack {
            IndexLack::Unwatched => "nothing is watched yet".to_owned(),
            IndexLack::Unserved => "none of the resources that feed it is served".to_owned(),
            IndexLack::Listing(resource) => format!("{resource} is being listed"),
            IndexLack::Unlisted(resource, error) => {
                format!("{resource} cannot be listed: {}", reason(error))
            }
            IndexLack::Unindexed(resource, objects) => {
                format!("its function has still to return for {objects} of the objects of {resource}")
            }
        };
        format!("not filled yet, because {because}")
    });
    Check::new(format!("index/{}", index.index), lack)
}

/// Returns true if the watch is silent for two deadlines without a known failure. Without bookmarks a silence proves nothing: streams
/// that a proxy or `watching.client_timeout` cuts may all end before the first bookmark.
fn is_stale(watch: &WatchFacts, now: Instant) -> bool {
    let silence = now.saturating_duration_since(watch.heard);
    watch.trouble.is_none() && watch.has_bookmarks && silence > watch.deadline.saturating_mul(2)
}

/// Returns why the objects of a watch are not known completely; `None` if they are.
pub(super) fn unready(watch: &WatchFacts) -> Option<&str> {
    match (&watch.trouble, watch.is_silent, watch.listing) {
        (Some(trouble), _, _) => Some(&trouble.reason),
        (None, true, _) => Some("silent"),
        (None, false, Listing::Incomplete) => Some("listing"),
        (None, false, Listing::Complete) => None,
    }
}

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let mut asked = Self::default();
        for part in query.split('&') {
            match part.split_once('=').unwrap_or((part, "")) {
                ("verbose", _) => asked.verbose = true,
                ("exclude", name) => asked.exclude.push(name.to_owned()),
                ("uid", uid) => asked.uid = Some(uid.to_owned()),
                _ => {}
            }
        }
        asked
    }

    /// Returns the requested object.
    pub(crate) fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }
}

/// Returns the response of an endpoint: one word if all checks pass and the client wants no details.
pub(crate) fn answer(endpoint: &str, checks: &[Check], asked: &Query) -> Answer {
    let mut is_well = true;
    let mut lines = Vec::new();
    for Check { name, trouble } in checks {
        lines.push(match trouble {
            _ if asked.exclude.contains(name) => format!("[+]{name} excluded: ok"),
            None => format!("[+]{name} ok"),
            Some(trouble) => {
                is_well = false;
                format!("[-]{name} failed: {trouble}")
            }
        });
    }
    if is_well && !asked.verbose {
        return Answer { is_well, text: "ok".to_owned() };
    }
    let end = if is_well { "passed" } else { "failed" };
    lines.push(format!("{endpoint} check {end}"));
    let text = lines.join("\n") + "\n";
    Answer { is_well, text }
}

pub(crate) fn seconds(time: Duration) -> String {
    match time.as_secs() {
        1 => "1 second".to_owned(),
        seconds => format!("{seconds} seconds"),
    }
}

#[cfg(test)]
mod tests;
