//! What the facts mean: the checks behind `/livez` and `/readyz`, and how they are worded, as Kubernetes words its own.
//!
//! Functions of facts and the time. To live means that a new start would mend nothing: a server that is away, or a right that is missing, is
//! a matter of readiness.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::calls_in_flight::CallInFlight;
use crate::engine::indexing::objects::facts::{IndexFacts, IndexLack};
use crate::engine::queue::facts::{QueueFacts, Waiting};
use crate::health::board::{Bounds, LeaseFacts, Listing, Phase, WatchCounts, WatchFacts, reason};

/// All that is known at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) bounds: Bounds,
    pub(crate) phase: Phase,
    pub(crate) is_paused: bool,
    pub(crate) lease: Option<LeaseFacts>,
    pub(crate) discovered: bool,
    pub(crate) knows_namespaces: bool,
    pub(crate) unserved: Vec<(String, &'static str)>,
    pub(crate) watches: Vec<WatchFacts>,
    /// What watches have told so far, by resource.
    pub(crate) counts: BTreeMap<String, WatchCounts>,
    pub(crate) indices: Vec<IndexFacts>,
    pub(crate) queue: QueueFacts,
    pub(crate) calls: Vec<CallInFlight>,
}

/// One thing that is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) name: String,
    /// What is wrong with it.
    pub(crate) trouble: Option<String>,
}

/// What is asked of an endpoint beside its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    verbose: bool,
    exclude: Vec<String>,
    uid: Option<String>,
}

/// What an endpoint answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) is_well: bool,
    pub(crate) text: String,
}

/// The task of the Lease looks at its clocks each second.
const BEAT: Duration = Duration::from_secs(10);

impl Check {
    pub(crate) fn new(name: impl Into<String>, trouble: Option<String>) -> Self {
        Self {
            name: name.into(),
            trouble,
        }
    }
}

impl Facts {
    /// Whether the operator lives.
    pub(crate) fn live(&self, now: Instant) -> Vec<Check> {
        let mut checks = vec![
            Check::new("watches", self.stale_watch(now)),
            Check::new(
                "queue",
                self.waits_beyond(self.queue.stuck.as_ref(), self.bounds.stuck, now),
            ),
        ];
        if let Some(lease) = &self.lease {
            checks.push(Check::new("lease", lease.is_left_alone(now)));
        }
        checks
    }

    /// Whether it does its work.
    pub(crate) fn ready(&self, now: Instant) -> Vec<Check> {
        let unless = |is_well: bool, trouble: &str| (!is_well).then(|| trouble.to_owned());
        let is_starting = self.phase == Phase::Starting;
        let mut checks = vec![
            Check::new(
                "startup",
                unless(!is_starting, "startup handlers are called"),
            ),
            Check::new(
                "shutdown",
                unless(self.phase != Phase::Stopping, "the operator stops"),
            ),
        ];
        if self.phase != Phase::Serving {
            return checks;
        }
        if let Some(lease) = &self.lease {
            let lacks = lease.lacks.as_ref();
            let lacks = lacks.map(|why| format!("handlers cannot be called: {why}"));
            checks.push(Check::new("lease", lacks));
        }
        let discovery = unless(self.discovered, "the cluster has not said what it serves");
        checks.push(Check::new("discovery", discovery));
        if self.discovered {
            let namespaces = unless(self.knows_namespaces, "namespaces are listed");
            checks.push(Check::new("namespaces", namespaces));
        }
        checks.extend(self.kinds());
        let indices = self.indices.iter().map(IndexFacts::check);
        checks.extend(indices);
        let late = self.waits_beyond(self.queue.oldest.as_ref(), self.bounds.late, now);
        checks.push(Check::new("queue", late));
        checks
    }

    /// One check for each resource, wherever it is watched, and for what is not served.
    fn kinds(&self) -> Vec<Check> {
        let mut kinds: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
        for watch in &self.watches {
            let kind = watch.collection.resource.to_string();
            let (all, troubles) = kinds.entry(kind).or_default();
            *all += 1;
            troubles.extend(watch.unready());
        }
        let mut checks: Vec<_> = kinds
            .into_iter()
            .map(|(kind, (all, troubles))| {
                let first = troubles.first().cloned();
                let trouble = first.map(|first| match (all, troubles.len()) {
                    (1, _) => first,
                    (all, bad) => format!("{first} ({bad} of {all} namespaces)"),
                });
                Check::new(format!("kind/{kind}"), trouble)
            })
            .collect();
        for (kind, why) in &self.unserved {
            checks.push(Check::new(format!("kind/{kind}"), Some((*why).to_owned())));
        }
        checks
    }

    /// The watch that has heard nothing for longest, where that is too long.
    fn stale_watch(&self, now: Instant) -> Option<String> {
        let stale = self.watches.iter().filter(|watch| watch.is_stale(now));
        let watch = stale.min_by_key(|watch| watch.heard)?;
        Some(format!(
            "nothing has come from the watch of {} for {}, and a stream ends after {} of silence",
            watch.collection.resource,
            seconds(now.saturating_duration_since(watch.heard)),
            seconds(watch.deadline)
        ))
    }

    /// The object that waits for longest, where that is longer than `bound`.
    fn waits_beyond(
        &self,
        longest: Option<&Waiting>,
        bound: Duration,
        now: Instant,
    ) -> Option<String> {
        let Waiting {
            uid,
            since,
            object,
            is_held_up,
        } = longest?;
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
            None if *is_held_up => "the server does not take what is written to it".to_owned(),
            None => format!("{} objects wait", self.queue.waiting),
        };
        Some(format!(
            "a change of an object of {} has waited for {}: {reason}",
            object.resource,
            seconds(waits)
        ))
    }
}

impl LeaseFacts {
    /// Nobody looks after it, though this instance takes part. To have no Lease, or no answer, is a matter of the others.
    fn is_left_alone(&self, now: Instant) -> Option<String> {
        let silence = now.saturating_duration_since(self.beat?);
        (silence >= BEAT).then(|| {
            format!(
                "the task that keeps the Lease {} has done nothing for {}",
                self.lease,
                seconds(silence)
            )
        })
    }
}

impl IndexFacts {
    fn check(&self) -> Check {
        let lack = self.lack.as_ref().map(|lack| {
            let because = match lack {
                IndexLack::Unwatched => "nothing is watched yet".to_owned(),
                IndexLack::Unserved => {
                    "none of the resources that it is made of is served".to_owned()
                }
                IndexLack::Listing(resource) => format!("{resource} is being listed"),
                IndexLack::Unlisted(resource, error) => {
                    format!("{resource} cannot be listed: {}", reason(error))
                }
                IndexLack::Unindexed(resource, objects) => format!(
                    "its function has still to return for {objects} of the objects of {resource}"
                ),
            };
            format!("not filled yet, because {because}")
        });
        Check::new(format!("index/{}", self.index), lack)
    }
}

impl WatchFacts {
    /// Silent for two deadlines, and not in a trouble that is known. Without bookmarks a silence says nothing: streams that a proxy cuts,
    /// or `watching.client_timeout`, may all end before the first one.
    fn is_stale(&self, now: Instant) -> bool {
        let silence = now.saturating_duration_since(self.heard);
        self.trouble.is_none() && self.has_bookmarks && silence > self.deadline.saturating_mul(2)
    }

    fn unready(&self) -> Option<String> {
        if let Some(trouble) = &self.trouble {
            return Some(trouble.reason.clone());
        }
        if self.is_silent {
            return Some("silent".to_owned());
        }
        (self.listing == Listing::Incomplete).then(|| "listing".to_owned())
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

    /// The object that is asked about.
    pub(crate) fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }
}

/// What the endpoint of that name answers: one word where all is well and nobody wants to know more.
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
        return Answer {
            is_well,
            text: "ok".to_owned(),
        };
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
