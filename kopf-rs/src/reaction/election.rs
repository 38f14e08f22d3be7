//! Which of several instances of an operator is at work: the one that holds a Lease.
//!
//! Objects and answers go in, requests and the own term come out; the clocks are given by the caller. Who waits measures by its own clocks
//! how long the record has not changed, and never reads a time in it: clocks that are apart mean nothing. A term counts from the moment
//! before the request was sent that has given it, and is prolonged by evidence only: an answer, or the record as that request has written
//! it. Every write replaces the version that was read, so of two who try, one is refused. Promises that a record of somebody else ends the
//! own term at once. Must not know what a term is good for.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::object::lease::{LeaseRecord, LeaseTimes, Moment, Term};

/// The label that says whose Lease it is.
const OPERATOR: &str = "kopf.rs/operator";

/// After a failure, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));

/// Where a right is missing, it is asked for seldom.
const UNPERMITTED: Duration = Duration::from_secs(30);

/// So many requests without an answer are remembered.
const UNANSWERED: usize = 32;

/// This instance.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Nobody else's, not even that of a former process of the same Pod.
    pub(crate) identity: String,
    /// The operator that it is an instance of.
    pub(crate) operator: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) times: LeaseTimes,
    /// How much later than others it takes a Lease that is free.
    pub(crate) delay: Duration,
}

/// What this instance knows and does about the Lease.
#[derive(Debug)]
pub(crate) struct Election {
    own: Candidate,
    view: View,
    mine: Option<Mine>,
    terms: u64,
    /// What was sent and may have been carried out.
    unanswered: Vec<Written>,
    /// When to ask next, by the first clock.
    next: Duration,
    /// What is known may be old.
    must_read: bool,
    failures: u32,
    is_refused: bool,
    is_leaving: bool,
    last_written: Timestamp,
}

/// The Lease as it was seen last.
#[derive(Debug)]
enum View {
    Unknown,
    Absent {
        since: Moment,
        /// How long its last holder may go on; `None` where it was never seen.
        wait: Option<Duration>,
    },
    There(Box<Seen>),
}

#[derive(Debug)]
struct Seen {
    lease: Value,
    record: LeaseRecord,
    /// When the record was first seen like this.
    changed: Moment,
    /// When it was last read, and not only told of by a watch.
    read: Option<Moment>,
    /// When it was last heard of.
    told: Moment,
}

/// The term of this instance: over, too, as long as nobody else has had the Lease.
#[derive(Debug)]
struct Mine {
    number: u64,
    acquired: String,
    stamp: Moment,
    /// It was created without knowing of an older one, so a holder of that may learn of it only now.
    created: Option<Moment>,
}

/// A record that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    acquired: String,
    renewed: String,
    /// Just before.
    at: Moment,
    is_first: bool,
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wish {
    Read,
    Create(Value),
    /// Bound to the version that was seen.
    Replace(Value),
}

/// What was asked for, to be given back with the answer.
#[derive(Debug)]
pub(crate) struct Sent {
    at: Moment,
    written: Option<Written>,
    is_release: bool,
}

impl Sent {
    /// Just before.
    pub(crate) fn at(&self) -> Moment {
        self.at
    }

    /// It is to take the Lease, or to renew it.
    pub(crate) fn is_renewal(&self) -> bool {
        self.written.is_some()
    }
}

/// What the server has said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Lease(Value),
    Absent,
    /// It is in another version, or there already.
    Conflict,
    /// For want of a right, or because it makes no sense: the same again is pointless for a while.
    Refused,
    /// No answer, or not now.
    Failed {
        retry_after: Option<Duration>,
    },
}

/// How this instance stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing is known of the Lease.
    Unknown,
    /// At work.
    Holds,
    /// It has the Lease, and waits until a former holder knows.
    Begins,
    /// It has had no answer for so long that others may have taken it.
    Lapsed,
    /// Somebody else has it.
    HeldBy { holder: String },
    /// Nobody has it.
    Free,
    /// There is none.
    Absent,
    /// It belongs to another operator.
    OfOther { operator: String },
    /// Somebody else decides who has it.
    Given,
    /// It is given back.
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

    /// The term, where this instance has one.
    pub(crate) fn term(&self) -> Option<Term> {
        self.held().filter(|_| !self.is_leaving)
    }

    /// The same, though it may be about to be given back.
    fn held(&self) -> Option<Term> {
        let mine = self.mine.as_ref().filter(|it| it.created.is_none())?;
        Some(Term {
            number: mine.number,
            stamp: mine.stamp,
            times: self.own.times,
        })
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

    /// How often the Lease has changed hands, as it says itself.
    pub(crate) fn transitions(&self) -> u64 {
        match &self.view {
            View::There(seen) => seen.record.transitions,
            View::Unknown | View::Absent { .. } => 0,
        }
    }

    /// How many terms this instance has had.
    pub(crate) fn terms(&self) -> u64 {
        self.terms
    }

    /// When to ask next, by the first clock.
    pub(crate) fn due(&self) -> Duration {
        self.next
    }

    /// Give the Lease back from now on.
    pub(crate) fn leave(&mut self) {
        self.is_leaving = true;
        // What is known as the own record is replaced in that version, or not at all.
        self.must_read |= self.mine.is_none();
        self.next = Duration::ZERO;
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// It is given back, or another's.
    pub(crate) fn has_left(&self) -> bool {
        self.is_leaving && self.mine.is_none() && self.unanswered.is_empty()
    }

    /// What to ask now. The answer is to be given to [`Election::answered`].
    pub(crate) fn wish(&mut self, now: &Moment) -> (Wish, Sent) {
        match &self.view {
            _ if self.must_read => Self::read(now),
            View::Unknown => Self::read(now),
            View::Absent { since, wait } => {
                let is_over = wait.is_none_or(|wait| now.surely_since(since) >= wait);
                let is_first = wait.is_none();
                if is_over && !self.is_leaving {
                    self.write(None, now, is_first)
                } else {
                    Self::read(now)
                }
            }
            View::There(seen) => match &self.mine {
                Some(_) if self.is_leaving => Self::release(seen, now),
                None if self.is_leaving => Self::read(now),
                None if !self.may_take(seen) => Self::read(now),
                _ => {
                    let lease = seen.lease.clone();
                    self.write(Some(lease), now, false)
                }
            },
        }
    }

    /// Take in the answer to what was asked.
    pub(crate) fn answered(&mut self, sent: &Sent, answer: Answer, now: &Moment) {
        let is_failed = matches!(answer, Answer::Failed { .. });
        if !is_failed {
            self.failures = 0;
            self.is_refused = false;
        }
        let is_done = matches!(answer, Answer::Lease(_));
        if let (Some(written), false, false) = (&sent.written, is_done, is_failed) {
            // The server has said no.
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
                let pause = if self.mine.is_some() {
                    self.own.times.retry
                } else {
                    UNPERMITTED
                };
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

    /// A watch has told of it.
    pub(crate) fn watched(&mut self, lease: Value, now: &Moment) {
        if self.is_older(&lease) {
            return;
        }
        self.look_at(lease, now, false);
        // What a request was refused for, or has failed for, is asked again in its time.
        if self.failures == 0 && !self.is_refused && !self.must_read {
            self.schedule(now);
        }
    }

    /// A watch has told that it is deleted, in this last state.
    pub(crate) fn deleted(&mut self, lease: &Value, now: &Moment) {
        if !self.is_older(lease) {
            self.is_gone(now);
        }
    }

    /// A listing lacks it, which may be older than what is known.
    pub(crate) fn unlisted(&mut self, now: &Moment) {
        self.read_soon(now);
    }

    fn read_soon(&mut self, now: &Moment) {
        self.must_read = true;
        self.next = now.mono;
    }

    /// Whether something newer has been heard of since it was asked for. What is older and was asked for later is the truth: the server was
    /// restored.
    fn is_overtaken(&self, sent: &Sent, lease: &Value) -> bool {
        let View::There(seen) = &self.view else {
            return false;
        };
        seen.told.mono > sent.at.mono && self.is_older(lease)
    }

    fn is_older(&self, lease: &Value) -> bool {
        let View::There(seen) = &self.view else {
            return false;
        };
        let number = |of: &Value| of["metadata"]["resourceVersion"].as_str()?.parse().ok();
        let versions: [Option<u64>; 2] = [number(lease), number(&seen.lease)];
        matches!(versions, [Some(new), Some(known)] if new < known)
    }

    fn look_at(&mut self, lease: Value, now: &Moment, is_read: bool) {
        let record = LeaseRecord::of(&lease);
        let same = match &self.view {
            View::There(seen) if seen.lease["spec"] == lease["spec"] => Some(seen),
            _ => None,
        };
        let changed = same.map_or(*now, |it| it.changed);
        let former = same.and_then(|it| it.read);
        let read = is_read.then_some(*now).or(former);
        self.claim(&record);
        self.view = View::There(Box::new(Seen {
            lease,
            record,
            changed,
            read,
            told: *now,
        }));
    }

    /// Whether the record is the own one, and what it is evidence of.
    fn claim(&mut self, record: &LeaseRecord) {
        let is_own = record.holder == self.own.identity;
        let mut mine = self.mine.take().filter(|it| it.acquired == record.acquired);
        if !is_own {
            self.unanswered.retain(|it| it.is_first);
            return;
        }
        let is_same =
            |it: &&Written| it.acquired == record.acquired && it.renewed == record.renewed;
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
            mine.created
                .take_if(|it| evidence.at.surely_since(it) >= wait);
        }
        self.mine = mine;
    }

    fn is_gone(&mut self, now: &Moment) {
        self.mine = None;
        let wait = match &self.view {
            View::Absent { .. } => {
                self.schedule(now);
                return;
            }
            View::Unknown => None,
            View::There(seen) if seen.record.holder.is_empty() => Some(Duration::ZERO),
            View::There(seen) => Some(self.duration_of(&seen.record)),
        };
        self.view = View::Absent { since: *now, wait };
        self.schedule(now);
    }

    /// While another has it, its record counts.
    fn duration_of(&self, record: &LeaseRecord) -> Duration {
        record.duration.unwrap_or(self.own.times.duration)
    }

    fn other_operator(&self, lease: &Value) -> Option<String> {
        let named = lease["metadata"]["labels"][OPERATOR].as_str()?;
        (named != self.own.operator).then(|| named.to_owned())
    }

    /// Whether it is free, or has been read when its holder's time was over.
    fn may_take(&self, seen: &Seen) -> bool {
        if seen.record.is_given || self.other_operator(&seen.lease).is_some() {
            return false;
        }
        let duration = self.duration_of(&seen.record);
        let is_over = |read: Moment| read.surely_since(&seen.changed) >= duration;
        seen.record.holder.is_empty() || seen.read.is_some_and(is_over)
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
                let end = seen.changed.mono + self.duration_of(&seen.record) + delay;
                if end > now.mono { poll.min(end) } else { poll }
            }
            (None, View::Absent { since, wait }) => {
                let end = since.mono + wait.unwrap_or_default() + delay;
                if end > now.mono {
                    poll.min(end)
                } else {
                    now.mono + delay
                }
            }
            (None, View::Unknown) => now.mono,
        };
    }

    // === requests ===

    fn read(now: &Moment) -> (Wish, Sent) {
        let sent = Sent {
            at: *now,
            written: None,
            is_release: false,
        };
        (Wish::Read, sent)
    }

    /// Take it, or renew it.
    fn write(&mut self, lease: Option<Value>, now: &Moment, is_first: bool) -> (Wish, Sent) {
        let renewed = self.stamp_to_write(now);
        let acquired = match &self.mine {
            Some(mine) => mine.acquired.clone(),
            None => renewed.clone(),
        };
        let written = Written {
            acquired: acquired.clone(),
            renewed: renewed.clone(),
            at: *now,
            is_first,
        };
        if self.unanswered.len() >= UNANSWERED {
            self.unanswered.remove(0);
        }
        self.unanswered.push(written.clone());
        let former = lease.as_ref().map(LeaseRecord::of).unwrap_or_default();
        let is_another = lease.is_some() && former.holder != self.own.identity;
        let is_new = lease.is_none();
        let mut lease = lease.unwrap_or_else(|| self.new_lease());
        let spec = &mut lease["spec"];
        spec["holderIdentity"] = json!(self.own.identity);
        spec["leaseDurationSeconds"] = json!(self.own.times.duration.as_secs());
        spec["acquireTime"] = json!(acquired);
        spec["renewTime"] = json!(renewed);
        spec["leaseTransitions"] = json!(former.transitions + u64::from(is_another));
        self.label(&mut lease);
        let sent = Sent {
            at: *now,
            written: Some(written),
            is_release: false,
        };
        if is_new {
            (Wish::Create(lease), sent)
        } else {
            (Wish::Replace(lease), sent)
        }
    }

    /// The time, as it is written; each one once.
    fn stamp_to_write(&mut self, now: &Moment) -> String {
        let later = self
            .last_written
            .checked_add(SignedDuration::from_micros(1))
            .unwrap_or(now.wall);
        let at = now.wall.max(later);
        // A clock that was set back by much is believed, or the record would show the future for ever.
        let is_far = at.duration_since(now.wall) > SignedDuration::from_secs(60);
        let at = if is_far { now.wall } else { at };
        self.last_written = at;
        written(at)
    }

    fn new_lease(&self) -> Value {
        json!({
            "metadata": {"name": self.own.name, "namespace": self.own.namespace},
            "spec": {},
        })
    }

    /// A Lease that nobody has labelled yet is this operator's from now on.
    fn label(&self, lease: &mut Value) {
        complete(lease);
        let labels = &mut lease["metadata"]["labels"];
        labels[OPERATOR] = json!(self.own.operator);
    }

    fn release(seen: &Seen, now: &Moment) -> (Wish, Sent) {
        let mut lease = seen.lease.clone();
        complete(&mut lease);
        lease["spec"]["holderIdentity"] = json!("");
        // What others do with a second: client-go takes none for no time at all.
        lease["spec"]["leaseDurationSeconds"] = json!(1);
        lease["spec"]["renewTime"] = json!(written(now.wall));
        let sent = Sent {
            at: *now,
            written: None,
            is_release: true,
        };
        (Wish::Replace(lease), sent)
    }
}

/// As it is sent: what a listing has told of lacks its kind.
fn complete(lease: &mut Value) {
    lease["apiVersion"] = json!("coordination.k8s.io/v1");
    lease["kind"] = json!("Lease");
    if let Some(metadata) = lease["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
}

/// As Go writes a `MicroTime`.
fn written(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests;
