//! Leader election among the instances of an operator: the leader is the instance that holds a Lease.
//!
//! Objects and responses go in, requests and the own term come out; the caller provides the clocks. A waiting instance measures with its own
//! clocks how long the record has not changed, and never evaluates times in it, so differing clocks do no harm. A term starts just before the
//! request was sent that has granted it, and is extended only by evidence: a response, or the record as that request has written it. Every
//! write replaces the version that was read, so if two instances try, one is refused. Guarantees that another instance's record ends the own
//! term at once. Must not know the purpose of a term.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::object::lease::{LARGEST, LeaseRecord, LeaseTimes, Moment, Term};

/// The label that names the operator to which a Lease belongs.
const OPERATOR: &str = "kopf.rs/operator";

/// The first and the longest pause after failures.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));

/// The interval of attempts without the required permission.
const UNPERMITTED: Duration = Duration::from_secs(30);

/// The maximum number of remembered requests without a response.
const UNANSWERED: usize = 32;

/// This instance.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Unique, even among former processes of the same Pod.
    pub(crate) identity: String,
    /// The operator that it is an instance of.
    pub(crate) operator: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) times: LeaseTimes,
    /// The additional delay before it takes a free Lease.
    pub(crate) delay: Duration,
}

/// The state of this instance in the election.
#[derive(Debug)]
pub(crate) struct Election {
    own: Candidate,
    view: View,
    mine: Option<Mine>,
    terms: u64,
    /// Records that were sent and may have been stored.
    unanswered: Vec<Written>,
    /// The time of the next request, by the first clock.
    next: Duration,
    /// True if the view may be outdated.
    must_read: bool,
    failures: u32,
    is_refused: bool,
    is_leaving: bool,
    last_written: Timestamp,
}

/// The last observed state of the Lease.
#[derive(Debug)]
enum View {
    Unknown,
    Absent {
        since: Moment,
        /// The time for which its last holder may continue; `None` if the Lease was never seen.
        wait: Option<Duration>,
    },
    There(Box<Seen>),
}

#[derive(Debug)]
struct Seen {
    lease: Value,
    record: LeaseRecord,
    /// The time for which a holder may continue after the change to this record.
    wait: Duration,
    /// The time when this record was first seen.
    changed: Moment,
    /// The time of the last read, as opposed to a watch event.
    read: Option<Moment>,
    /// The time of the last information.
    told: Moment,
}

/// The term of this instance. It is kept after its end until another instance has held the Lease.
#[derive(Debug)]
struct Mine {
    number: u64,
    acquired: String,
    stamp: Moment,
    /// Set if the Lease was created without knowledge of an older one, whose holder may learn of the new one only now.
    created: Option<Moment>,
}

/// A record that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    acquired: String,
    renewed: String,
    /// The time just before sending.
    at: Moment,
    is_first: bool,
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wish {
    Read,
    Create(Value),
    /// Bound to the version that was read.
    Replace(Value),
}

/// A sent request, to be passed back with its response.
#[derive(Debug)]
pub(crate) struct Sent {
    at: Moment,
    written: Option<Written>,
    is_release: bool,
}

impl Sent {
    /// Returns the time just before sending.
    pub(crate) fn at(&self) -> Moment {
        self.at
    }

    /// Returns true if the request acquires or renews the Lease.
    pub(crate) fn is_renewal(&self) -> bool {
        self.written.is_some()
    }
}

/// The response of the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Lease(Value),
    Absent,
    /// The Lease has another version, or already exists.
    Conflict,
    /// The permission is missing or the request is invalid, so repeating it soon is pointless.
    Refused,
    /// No response, or the server asks to retry later.
    Failed {
        retry_after: Option<Duration>,
    },
}

/// The standing of this instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The Lease is unknown.
    Unknown,
    /// This instance is the leader.
    Holds,
    /// It has the Lease, and waits until a former holder must know.
    Begins,
    /// It got no response for so long that other instances may have taken the Lease.
    Lapsed,
    /// Another instance holds the Lease.
    HeldBy { holder: String },
    /// The Lease has no holder.
    Free,
    /// The Lease does not exist.
    Absent,
    /// The Lease belongs to another operator.
    OfOther { operator: String },
    /// An external coordinator assigns the holder.
    Given,
    /// This instance has released the Lease.
    Left,
}

impl Election {
    pub(crate) fn new(own: Candidate) -> Self {
        Self {
            own,
            view: View::Unknown,
            mine: None,
            terms: 0,
            unanswered: Vec::new(),
            next: Duration::ZERO,
            must_read: false,
            failures: 0,
            is_refused: false,
            is_leaving: false,
            last_written: Timestamp::MIN,
        }
    }

    /// Returns the term if this instance has one.
    pub(crate) fn term(&self) -> Option<Term> {
        self.held().filter(|_| !self.is_leaving)
    }

    /// Returns the term even while the Lease is being released.
    fn held(&self) -> Option<Term> {
        let mine = self.mine.as_ref().filter(|it| it.created.is_none())?;
        Some(Term { number: mine.number, stamp: mine.stamp, times: self.own.times })
    }

    pub(crate) fn standing(&self, now: &Moment) -> Standing {
        if self.has_left() {
            return Standing::Left;
        }
        if let Some(mine) = &self.mine {
            return match self.held() {
                _ if mine.created.is_some() => Standing::Begins,
                Some(term) if term.may_begin(now) => Standing::Holds,
                _ => Standing::Lapsed,
            };
        }
        match &self.view {
            View::Unknown => Standing::Unknown,
            View::Absent { .. } => Standing::Absent,
            View::There(seen) => {
                let holder = seen.record.holder.clone();
                match self.other_operator(&seen.lease) {
                    Some(operator) => Standing::OfOther { operator },
                    None if seen.record.is_given => Standing::Given,
                    None if holder.is_empty() => Standing::Free,
                    None => Standing::HeldBy { holder },
                }
            }
        }
    }

    /// Returns the number of changes of the holder, according to the Lease.
    pub(crate) fn transitions(&self) -> u64 {
        self.seen().map_or(0, |it| it.record.transitions)
    }

    fn seen(&self) -> Option<&Seen> {
        match &self.view {
            View::There(seen) => Some(seen),
            View::Unknown | View::Absent { .. } => None,
        }
    }

    /// Returns the number of terms that this instance has held.
    pub(crate) fn terms(&self) -> u64 {
        self.terms
    }

    /// Returns the time of the next request, by the first clock.
    pub(crate) fn due(&self) -> Duration {
        self.next
    }

    /// Starts to release the Lease.
    pub(crate) fn leave(&mut self) {
        self.is_leaving = true;
        // A known own record is replaced in its version or not at all.
        self.must_read |= self.mine.is_none();
        self.next = Duration::ZERO;
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Returns true if the Lease is released or belongs to another instance.
    pub(crate) fn has_left(&self) -> bool {
        self.is_leaving && self.mine.is_none() && self.unanswered.is_empty()
    }

    /// Returns the request to send now. Pass its response to [`Election::answered`].
    pub(crate) fn wish(&mut self, now: &Moment) -> (Wish, Sent) {
        match &self.view {
            _ if self.must_read => Self::read(now),
            View::Unknown => Self::read(now),
            View::Absent { since, wait } => {
                let is_over = wait.is_none_or(|wait| now.surely_since(since) >= wait);
                let is_first = wait.is_none();
                if is_over && !self.is_leaving { self.write(None, now, is_first) } else { Self::read(now) }
            }
            View::There(seen) => match &self.mine {
                Some(_) if self.is_leaving => Self::release(seen, now),
                None if self.is_leaving => Self::read(now),
                None if !self.may_take(seen) => Self::read(now),
                mine => {
                    let lease = seen.lease.clone();
                    // A former holder is as unknown as without a Lease.
                    let is_first = mine.is_none() && seen.record.is_blank() && seen.wait.is_zero();
                    self.write(Some(lease), now, is_first)
                }
            },
        }
    }

    /// Handles the response to a request.
    pub(crate) fn answered(&mut self, sent: &Sent, answer: Answer, now: &Moment) {
        let is_failed = matches!(answer, Answer::Failed { .. });
        if !is_failed {
            self.failures = 0;
            self.is_refused = false;
        }
        let is_done = matches!(answer, Answer::Lease(_));
        if let (Some(written), false, false) = (&sent.written, is_done, is_failed) {
            // The server has refused the request.
            self.unanswered.retain(|it| it != written);
        }
        match answer {
            Answer::Lease(lease) if self.is_overtaken(sent, &lease) => {
                self.must_read = true;
                self.next = now.mono + PAUSES.0;
            }
            Answer::Lease(lease) if sent.is_release => {
                self.unanswered.clear();
                self.look_at(lease, now, false);
            }
            Answer::Lease(lease) => {
                let is_read = sent.written.is_none();
                self.must_read &= !is_read;
                self.look_at(lease, now, is_read);
                if is_read && self.is_leaving && self.mine.is_none() {
                    self.unanswered.clear();
                }
                self.schedule(now);
            }
            Answer::Absent => {
                self.must_read = false;
                self.is_gone(now);
                if self.is_leaving {
                    self.unanswered.clear();
                }
            }
            Answer::Conflict => self.read_soon(now),
            Answer::Refused => {
                self.is_refused = true;
                let pause = if self.mine.is_some() { self.own.times.retry } else { UNPERMITTED };
                self.next = now.mono + pause;
            }
            Answer::Failed { retry_after } => {
                let pause = PAUSES.0 * 2_u32.pow(self.failures.min(4));
                self.failures += 1;
                let asked = retry_after.unwrap_or_default();
                let most = self.term().map_or(UNPERMITTED, |it| it.left(now) / 2);
                self.next = now.mono + pause.min(PAUSES.1).max(asked.min(most));
            }
        }
    }

    /// Handles a watch event.
    pub(crate) fn watched(&mut self, lease: Value, now: &Moment) {
        if self.is_older(&lease) {
            return;
        }
        self.look_at(lease, now, false);
        // Refused or failed requests keep their pause.
        if self.failures == 0 && !self.is_refused && !self.must_read {
            self.schedule(now);
        }
    }

    /// Handles a watch event of a deletion, with the last state.
    pub(crate) fn deleted(&mut self, lease: &Value, now: &Moment) {
        if !self.is_older(lease) {
            self.is_gone(now);
        }
    }

    /// Handles a listing without the Lease, which may be older than the known state.
    pub(crate) fn unlisted(&mut self, now: &Moment) {
        self.read_soon(now);
    }

    fn read_soon(&mut self, now: &Moment) {
        self.must_read = true;
        self.next = now.mono;
    }

    /// Returns true if newer information has arrived since the request was sent. An older state in a response to a later request is valid:
    /// the server was restored from a backup.
    fn is_overtaken(&self, sent: &Sent, lease: &Value) -> bool {
        self.seen().is_some_and(|it| it.told.mono > sent.at.mono) && self.is_older(lease)
    }

    fn is_older(&self, lease: &Value) -> bool {
        let number = |of: &Value| of["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok();
        let known = self.seen().and_then(|it| number(&it.lease));
        number(lease).zip(known).is_some_and(|(new, known)| new < known)
    }

    fn look_at(&mut self, lease: Value, now: &Moment, is_read: bool) {
        let record = LeaseRecord::of(&lease);
        let same = self.seen().filter(|it| it.lease["spec"] == lease["spec"]);
        let changed = same.map_or(*now, |it| it.changed);
        let wait = same.map_or_else(|| self.wait_after(&record), |it| it.wait);
        let read = if is_read { Some(*now) } else { same.and_then(|it| it.read) };
        self.claim(&record);
        self.view = View::There(Box::new(Seen { lease, record, wait, changed, read, told: *now }));
    }

    /// Evaluates whether the record is this instance's own, and which of its requests it proves.
    fn claim(&mut self, record: &LeaseRecord) {
        let is_own = record.holder == self.own.identity;
        let mut mine = self.mine.take().filter(|it| it.acquired == record.acquired);
        if !is_own {
            self.unanswered.retain(|it| it.is_first);
            return;
        }
        let is_same = |it: &&Written| it.acquired == record.acquired && it.renewed == record.renewed;
        let evidence = self.unanswered.iter().find(is_same).cloned();
        if let Some(evidence) = evidence {
            let later = |it: &Written| it.at.since(&evidence.at) > Duration::ZERO;
            self.unanswered.retain(later);
            let mine = mine.get_or_insert_with(|| {
                self.terms += 1;
                Mine {
                    number: self.terms,
                    acquired: evidence.acquired.clone(),
                    stamp: evidence.at,
                    created: evidence.is_first.then_some(evidence.at),
                }
            });
            if evidence.at.since(&mine.stamp) > Duration::ZERO {
                mine.stamp = evidence.at;
            }
            let wait = self.own.times.retry * 2;
            mine.created.take_if(|it| evidence.at.surely_since(it) >= wait);
        }
        self.mine = mine;
    }

    fn is_gone(&mut self, now: &Moment) {
        self.mine = None;
        let wait = match &self.view {
            View::Absent { wait, .. } => *wait,
            View::Unknown => None,
            View::There(seen) => Some(seen.wait),
        };
        if !matches!(self.view, View::Absent { .. }) {
            self.view = View::Absent { since: *now, wait };
        }
        self.schedule(now);
    }

    /// Returns the time for which a holder may continue after the change to this record: the duration in the record, unless its holder has
    /// released it. If other clients have emptied the record, its former holder may not know that yet.
    fn wait_after(&self, record: &LeaseRecord) -> Duration {
        let known = record.duration.unwrap_or(self.own.times.duration);
        match &self.view {
            _ if record.is_given_back() => Duration::ZERO,
            _ if !record.is_blank() => known,
            View::Unknown | View::Absent { wait: None, .. } => Duration::ZERO,
            View::Absent { wait: Some(wait), .. } => known.max(*wait),
            View::There(former) => known.max(former.wait),
        }
    }

    fn other_operator(&self, lease: &Value) -> Option<String> {
        let named = lease["metadata"]["labels"][OPERATOR].as_str()?;
        (named != self.own.operator).then(|| named.to_owned())
    }

    /// Returns true if the Lease was released, or was read after its holder's time had expired. If another client has merely removed the
    /// holder or the whole record, that holder may still write until its time expires.
    fn may_take(&self, seen: &Seen) -> bool {
        if seen.record.is_given || self.other_operator(&seen.lease).is_some() {
            return false;
        }
        let is_over = |read: Moment| read.surely_since(&seen.changed) >= seen.wait;
        seen.wait.is_zero() || seen.read.is_some_and(is_over)
    }

    fn schedule(&mut self, now: &Moment) {
        if self.is_leaving {
            self.next = now.mono;
            return;
        }
        let (retry, delay) = (self.own.times.retry, self.own.delay);
        let poll = now.mono + retry + delay;
        self.next = match (&self.mine, &self.view) {
            (Some(mine), _) => mine.stamp.mono + retry,
            (None, View::There(seen)) if self.may_take(seen) => now.mono + delay,
            (None, View::There(seen)) => {
                let end = seen.changed.mono + seen.wait + delay;
                if end > now.mono { poll.min(end) } else { poll }
            }
            (None, View::Absent { since, wait }) => {
                let end = since.mono + wait.unwrap_or_default() + delay;
                if end > now.mono { poll.min(end) } else { now.mono + delay }
            }
            (None, View::Unknown) => now.mono,
        };
    }

    // === requests ===

    fn read(now: &Moment) -> (Wish, Sent) {
        (Wish::Read, Sent { at: *now, written: None, is_release: false })
    }

    /// Builds a request that acquires or renews the Lease.
    fn write(&mut self, lease: Option<Value>, now: &Moment, is_first: bool) -> (Wish, Sent) {
        let renewed = self.stamp_to_write(now);
        let acquired = self.mine.as_ref().map_or_else(|| renewed.clone(), |it| it.acquired.clone());
        let written = Written { acquired: acquired.clone(), renewed: renewed.clone(), at: *now, is_first };
        if self.unanswered.len() >= UNANSWERED {
            self.unanswered.remove(0);
        }
        self.unanswered.push(written.clone());
        let wish = if lease.is_some() { Wish::Replace } else { Wish::Create };
        let former = lease.as_ref().map(LeaseRecord::of);
        let transitions = former.map_or(0, |it| it.transitions + u64::from(it.holder != self.own.identity));
        let new = || json!({"metadata": {"name": self.own.name, "namespace": self.own.namespace}});
        let mut lease = lease.unwrap_or_else(new);
        complete(&mut lease);
        let spec = &mut lease["spec"];
        spec["holderIdentity"] = json!(self.own.identity);
        spec["leaseDurationSeconds"] = json!(self.own.times.duration.as_secs());
        spec["acquireTime"] = json!(acquired);
        spec["renewTime"] = json!(renewed);
        spec["leaseTransitions"] = json!(transitions.min(LARGEST));
        // A Lease without an owner belongs to this operator from now on.
        let labels = &mut lease["metadata"]["labels"];
        make_object(labels);
        labels[OPERATOR] = json!(self.own.operator);
        (wish(lease), Sent { at: *now, written: Some(written), is_release: false })
    }

    /// Returns the time for a record. Times never repeat.
    fn stamp_to_write(&mut self, now: &Moment) -> String {
        let later = self.last_written.checked_add(SignedDuration::from_micros(1)).unwrap_or(now.wall);
        let at = now.wall.max(later);
        // A clock that was set back far is accepted, because the record would otherwise show a future time forever.
        let is_far = at.duration_since(now.wall) > SignedDuration::from_secs(60);
        let at = if is_far { now.wall } else { at };
        self.last_written = at;
        written(at)
    }

    fn release(seen: &Seen, now: &Moment) -> (Wish, Sent) {
        let mut lease = seen.lease.clone();
        complete(&mut lease);
        lease["spec"]["holderIdentity"] = json!("");
        // client-go treats a duration of zero as missing, so releases use one second.
        lease["spec"]["leaseDurationSeconds"] = json!(1);
        lease["spec"]["renewTime"] = json!(written(now.wall));
        (Wish::Replace(lease), Sent { at: *now, written: None, is_release: true })
    }
}

/// Completes the object for sending: objects from listings lack their kind, and invalid stanzas become empty objects.
fn complete(lease: &mut Value) {
    make_object(lease);
    for stanza in ["metadata", "spec"] {
        make_object(&mut lease[stanza]);
    }
    lease["apiVersion"] = json!("coordination.k8s.io/v1");
    lease["kind"] = json!("Lease");
    if let Some(metadata) = lease["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
}

fn make_object(value: &mut Value) {
    if !value.is_object() {
        *value = json!({});
    }
}

/// Formats a time like a `MicroTime` in Go.
fn written(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests;
