//! Decides which of several operators handles the objects, from their records in a peering object.
//!
//! Kopf keeps one record per operator in the object's status: `{priority, lifetime, lastseen}`. This operator adds `engine` and `started`,
//! which Kopf ignores. A peer is dead once its record has not changed for its lifetime as measured here, so that clock differences of minutes
//! neither end a peer nor keep it alive. The caller provides times as the operator's uptime. Must not know where the object is stored.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::object::resource::Resource;

/// Kopf's group, and its former group.
pub(crate) const GROUPS: [&str; 2] = ["kopf.dev", "zalando.org"];

/// The value of `engine` in the records of this framework.
const ENGINE: &str = "kopf-rs";

/// A record that is older than its lifetime by more than this is dead at first sight, because clocks do not differ by that much.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The maximum lifetime, some hundred years, because clocks cannot represent arbitrary sums of times.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);

/// The lifetime of a shared record after its instance has ended: the next instance takes it over meanwhile.
const HAND_OVER: Duration = Duration::from_secs(5);

/// The record of this operator.
#[derive(Clone, Debug)]
pub(crate) struct OwnPeer {
    pub(crate) identity: String,
    pub(crate) priority: i64,
    pub(crate) lifetime: Duration,
    pub(crate) started: Timestamp,
    /// True if it handles only a part of the objects: peers of the same priority handle the other parts.
    pub(crate) is_sharded: bool,
    /// True if instances that share a Lease have one record.
    pub(crate) is_shared: bool,
}

/// The peers in one peering object.
#[derive(Debug, Default)]
pub(crate) struct Peers(BTreeMap<String, Sighting>);

#[derive(Debug)]
struct Sighting {
    written: Value,
    record: Record,
    dead_at: Duration,
    /// True if it was already dead when first seen, by its own times.
    is_old: bool,
}

/// The record of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    priority: i64,
    lifetime: Duration,
    lastseen: Option<Timestamp>,
    /// True if this framework has written it.
    is_of_this_engine: bool,
    /// The start time of the operator; absent in requests to pause.
    started: Option<Timestamp>,
    /// The reason for a requested pause, as a user wrote it.
    message: Option<String>,
}

/// A user's request that operators pause.
#[derive(Clone, Debug)]
#[cfg(feature = "cli")]
pub(crate) struct PauseRequest {
    pub(crate) priority: i64,
    pub(crate) lifetime: Duration,
    pub(crate) message: Option<String>,
}

/// The conclusions from the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The peers that this operator pauses for, in Kopf's format.
    pub(crate) in_favour_of: Vec<String>,
    /// Kopf operators of the same priority, which pause as soon as they see this one.
    pub(crate) rivals: Vec<String>,
    /// The identities of dead peers.
    pub(crate) dead: Vec<String>,
    /// The number of dead peers for which this operator has paused and whose death is concluded only from their silence. An operator that
    /// receives no updates would observe the same silence.
    pub(crate) silent: usize,
    /// The time when the first peer that this operator pauses for is dead, if its record does not change.
    pub(crate) until: Option<Duration>,
    /// True if the object lacks the record of this operator.
    pub(crate) lacks_own: bool,
}

// === impl OwnPeer ===

impl OwnPeer {
    /// Returns the keep-alive change.
    pub(crate) fn keep_alive(&self, now: Timestamp) -> Value {
        let record = json!({
            "priority": self.priority,
            "lifetime": self.lifetime.as_secs(),
            "lastseen": now.to_string(),
            "engine": ENGINE,
            "started": self.started.to_string(),
        });
        change(&self.identity, record)
    }

    /// Returns the change that removes the record. A shared record, which the next instance takes over, instead gets a short lifetime.
    pub(crate) fn farewell(&self, now: Timestamp) -> Value {
        if !self.is_shared {
            return farewell(&self.identity);
        }
        let mut soon = self.clone();
        soon.lifetime = HAND_OVER.min(self.lifetime);
        soon.keep_alive(now)
    }

    /// Returns true if this operator pauses for a live peer.
    fn yields_to(&self, identity: &str, peer: &Record) -> bool {
        if peer.priority != self.priority {
            return peer.priority > self.priority;
        }
        if self.is_sharded || !peer.is_of_this_engine {
            return false;
        }
        match peer.started {
            // The operator that has run longer continues.
            Some(started) => (started, identity) < (self.started, &self.identity),
            None => true,
        }
    }
}

// === impl PauseRequest ===

#[cfg(feature = "cli")]
impl PauseRequest {
    /// Returns the change that requests a pause under this name. It has no start time, so operators of the same priority pause, too.
    pub(crate) fn change(&self, identity: &str, now: Timestamp) -> Value {
        let mut record = json!({
            "priority": self.priority,
            "lifetime": self.lifetime.as_secs(),
            "lastseen": now.to_string(),
            "engine": ENGINE,
        });
        if let Some(message) = &self.message {
            record["message"] = json!(message);
        }
        change(identity, record)
    }
}

/// Returns the plural of the peering kind for the whole cluster or for some namespaces.
pub(crate) fn plural(is_clusterwide: bool) -> &'static str {
    if is_clusterwide { "clusterkopfpeerings" } else { "kopfpeerings" }
}

/// Returns true if the resource is that kind, in either group.
pub(crate) fn is_peering(resource: &Resource, is_clusterwide: bool) -> bool {
    resource.plural == plural(is_clusterwide)
        && resource.version == "v1"
        && GROUPS.contains(&&*resource.group)
}

/// Returns the change that removes the record of that name.
pub(crate) fn farewell(identity: &str) -> Value {
    change(identity, Value::Null)
}

fn change(identity: &str, record: Value) -> Value {
    let records = Map::from_iter([(identity.to_owned(), record)]);
    json!({"status": records})
}

/// Returns the change that removes the records of dead peers if the object is still in this version.
pub(crate) fn without(dead: &[String], resource_version: &str) -> Value {
    let records: Map<String, Value> = dead.iter().map(|it| (it.clone(), Value::Null)).collect();
    json!({"metadata": {"resourceVersion": resource_version}, "status": records})
}

// === impl Peers ===

impl Peers {
    /// Reads the object's status.
    pub(crate) fn take_in(&mut self, status: &Value, now: Duration, wall: Timestamp) {
        let mut former = std::mem::take(&mut self.0);
        for (identity, written) in status.as_object().into_iter().flatten() {
            let same = former.remove(identity).filter(|it| it.written == *written);
            let sighting = same.or_else(|| Sighting::of(written, now, wall));
            self.0.extend(sighting.map(|it| (identity.clone(), it)));
        }
    }

    /// Returns the conclusions for this operator.
    pub(crate) fn judge(&self, own: &OwnPeer, now: Duration) -> Verdict {
        let mut verdict = Verdict { lacks_own: !self.0.contains_key(&own.identity), ..Verdict::default() };
        for (identity, peer) in self.0.iter().filter(|(it, _)| **it != own.identity) {
            let shown = || Shown(identity, &peer.record).to_string();
            if peer.dead_at <= now {
                let is_missed = !peer.is_old && own.yields_to(identity, &peer.record);
                verdict.silent += usize::from(is_missed);
                verdict.dead.push(identity.clone());
            } else if own.yields_to(identity, &peer.record) {
                verdict.in_favour_of.push(shown());
                let until = verdict.until.get_or_insert(peer.dead_at);
                *until = peer.dead_at.min(*until);
            } else if peer.record.priority == own.priority && !own.is_sharded {
                let is_told = peer.record.is_of_this_engine;
                verdict.rivals.extend((!is_told).then(shown));
            }
        }
        verdict
    }
}

impl Sighting {
    /// Returns `None` if the value is not a record.
    fn of(written: &Value, now: Duration, wall: Timestamp) -> Option<Self> {
        let record = Record::read(written.as_object()?);
        let age = record.lastseen.map(|it| wall.duration_since(it));
        let lifetime = SignedDuration::try_from(record.lifetime).unwrap_or(SignedDuration::MAX);
        let is_old = age.is_some_and(|it| it > lifetime.saturating_add(SKEW));
        let left = if is_old { Duration::ZERO } else { record.lifetime };
        Some(Self { written: written.clone(), dead_at: now.saturating_add(left), is_old, record })
    }
}

impl Record {
    /// Reads a record; missing or invalid values get Kopf's defaults.
    fn read(written: &Map<String, Value>) -> Self {
        let number = |key: &str| {
            let value = written.get(key)?;
            let of_text = || value.as_str()?.trim().parse().ok();
            value.as_i64().or_else(of_text)
        };
        let time = |key: &str| written.get(key)?.as_str()?.parse().ok();
        let lifetime = number("lifetime").unwrap_or(60);
        let lifetime = Duration::from_secs(u64::try_from(lifetime).unwrap_or(0));
        Self {
            priority: number("priority").unwrap_or(0),
            lifetime: lifetime.min(LONGEST),
            lastseen: time("lastseen"),
            is_of_this_engine: written.get("engine").is_some_and(|it| it == ENGINE),
            started: time("started"),
            message: written.get("message").and_then(Value::as_str).map(str::to_owned),
        }
    }
}

/// A peer in Kopf's format.
struct Shown<'a>(&'a str, &'a Record);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(identity, record) = self;
        let (priority, lifetime) = (record.priority, record.lifetime.as_secs());
        write!(f, "<Peer {identity}: priority={priority}, lifetime={lifetime}")?;
        if let Some(lastseen) = record.lastseen {
            write!(f, ", lastseen='{lastseen}'")?;
        }
        if let Some(message) = &record.message {
            write!(f, ", message={message:?}")?;
        }
        f.write_str(">")
    }
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    fn wall() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn own(priority: i64) -> OwnPeer {
        OwnPeer {
            identity: "me".to_owned(),
            priority,
            lifetime: Duration::from_secs(60),
            started: wall(),
            is_sharded: false,
            is_shared: false,
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns the immediate conclusions of an operator of priority 5 from this record.
    fn at_once(record: &Value) -> Verdict {
        let mut peers = Peers::default();
        peers.take_in(&json!({"other": record}), seconds(100), wall());
        peers.judge(&own(5), seconds(100))
    }

    #[test]
    fn higher_priorities_go_first_and_lower_ones_do_not_matter() {
        let higher =
            at_once(&json!({"priority": 6, "lifetime": 10, "lastseen": "2026-01-01T12:00:00+00:00"}));
        let shown = "<Peer other: priority=6, lifetime=10, lastseen='2026-01-01T12:00:00Z'>";
        assert_eq!(higher.in_favour_of, [shown]);
        assert_eq!(higher.until, Some(seconds(110)));
        assert_eq!(at_once(&json!({"priority": "7"})).until, Some(seconds(160)));
        let lower = at_once(&json!({"priority": 4}));
        assert_eq!((lower.in_favour_of.len(), lower.rivals.len()), (0, 0));
        assert!(lower.lacks_own);
        for garbage in [json!(null), json!("text"), json!([])] {
            let lacks_own = true;
            let nothing = Verdict { lacks_own, ..Verdict::default() };
            assert_eq!(at_once(&garbage), nothing, "{garbage}");
        }
    }

    #[test]
    fn of_equal_operators_one_goes_on() {
        let equal = |more: Value| {
            let mut record = json!({"priority": 5, "lifetime": 10});
            record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let verdict = at_once(&record);
            (verdict.in_favour_of.len(), verdict.rivals.len())
        };
        // Kopf pauses by itself.
        assert_eq!(equal(json!({})), (0, 1));
        let engine = |started: &str| json!({"engine": "kopf-rs", "started": started});
        assert_eq!(equal(engine("2026-01-01T11:59:59Z")), (1, 0));
        assert_eq!(equal(engine("2026-01-01T12:00:01Z")), (0, 0));
        // Started at the same time: "me" comes before "other".
        assert_eq!(equal(engine("2026-01-01T12:00:00Z")), (0, 0));
        // A request to pause by a user.
        assert_eq!(equal(json!({"engine": "kopf-rs"})), (1, 0));
    }

    #[test]
    fn parts_of_the_objects_are_no_conflict() {
        let sharded = OwnPeer { is_sharded: true, ..own(5) };
        let mut peers = Peers::default();
        let started = "2026-01-01T11:00:00Z";
        let same = json!({"priority": 5, "engine": "kopf-rs", "started": started});
        peers.take_in(&json!({"a": same, "b": {"priority": 5}}), seconds(0), wall());
        let verdict = peers.judge(&sharded, seconds(0));
        assert_eq!((verdict.in_favour_of.len(), verdict.rivals.len()), (0, 0));
        peers.take_in(&json!({"c": {"priority": 6}}), seconds(0), wall());
        assert_eq!(peers.judge(&sharded, seconds(0)).in_favour_of.len(), 1);
    }

    #[test]
    fn a_peer_is_dead_once_it_has_been_silent_for_its_lifetime() {
        let record = |lastseen: &str| json!({"other": {"priority": 9, "lifetime": 20, "lastseen": lastseen}});
        let mut peers = Peers::default();
        // Its clock is three minutes behind.
        let first = record("2026-01-01T11:57:00Z");
        peers.take_in(&first, seconds(0), wall());
        peers.take_in(&first, seconds(15), wall());
        assert_eq!(peers.judge(&own(5), seconds(19)).until, Some(seconds(20)));
        let silent = peers.judge(&own(5), seconds(20));
        assert_eq!((silent.dead.len(), silent.silent), (1, 1));
        // A peer of lower priority does not matter.
        assert_eq!(peers.judge(&own(10), seconds(20)).silent, 0);
        peers.take_in(&record("2026-01-01T11:57:19Z"), seconds(19), wall());
        assert_eq!(peers.judge(&own(5), seconds(20)).until, Some(seconds(39)));
        // From the previous day.
        let mut peers = Peers::default();
        peers.take_in(&record("2025-12-31T12:00:00Z"), seconds(0), wall());
        let old = peers.judge(&own(5), seconds(0));
        assert_eq!((old.dead.len(), old.silent), (1, 0));
        // A peer without a lifetime.
        let mut peers = Peers::default();
        peers.take_in(&json!({"other": {"priority": 9, "lifetime": -1}}), seconds(0), wall());
        assert_eq!(peers.judge(&own(5), seconds(0)).dead, ["other"]);
    }

    #[test]
    #[cfg(feature = "cli")]
    fn a_request_to_pause_tells_why() {
        let request = PauseRequest {
            priority: 5,
            lifetime: Duration::from_secs(90),
            message: Some("the \"bank\" moves".to_owned()),
        };
        let asked = request.change("alice@laptop", wall());
        let mut peers = Peers::default();
        peers.take_in(&asked["status"], seconds(0), wall());
        let verdict = peers.judge(&own(5), seconds(0));
        let shown = "<Peer alice@laptop: priority=5, lifetime=90, lastseen='2026-01-01T12:00:00Z', message=\"the \\\"bank\\\" moves\">";
        assert_eq!(verdict.in_favour_of, [shown], "of the same priority, too");
        let taken_back = farewell("alice@laptop");
        assert_eq!(taken_back, json!({"status": {"alice@laptop": null}}));
    }

    #[test]
    fn records_have_what_kopf_reads() {
        let own = own(3);
        let alive = own.keep_alive("2026-01-01T12:00:30Z".parse().unwrap());
        let expected = json!({"status": {"me": {
            "priority": 3,
            "lifetime": 60,
            "lastseen": "2026-01-01T12:00:30Z",
            "engine": "kopf-rs",
            "started": "2026-01-01T12:00:00Z",
        }}});
        assert_eq!(alive, expected);
        let now = "2026-01-01T12:00:30Z".parse().unwrap();
        assert_eq!(own.farewell(now), json!({"status": {"me": null}}));
        let shared = OwnPeer { is_shared: true, ..own };
        assert_eq!(shared.farewell(now)["status"]["me"]["lifetime"], 5);
        let expected = json!({"metadata": {"resourceVersion": "7"}, "status": {"a": null}});
        assert_eq!(without(&["a".to_owned()], "7"), expected);
    }
}
