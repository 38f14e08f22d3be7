//! Acquires and renews the Lease of an operator with several instances, in a task that no other work delays.
//!
//! Guarantees that the fence before all writes learns of a lost term first, that an unreachable server ends no task, and that the Lease is
//! released only after the fence is closed. Must not know the work of a term.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::fence::Fence;
use crate::cluster::lease::leases;
use crate::cluster::watch::{Selection, WatchEvent, WatchPace, Watched};
use crate::engine::report::report_of_operator;
use crate::happening::meter::SharedMeter;
use crate::happening::operating::Leasing;
use crate::health::board::{Board, HOLDS, LeaseFacts};
use crate::object::event::EventType;
use crate::operator::follow::follow_in_task;
use crate::reaction::election::{Answer, Candidate, Election, Sent, Standing, Wish};
use crate::rt::task;

/// The longest interval at which the holder of the Lease checks its clocks.
const PULSE: Duration = Duration::from_secs(1);

/// The role of this instance in the election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Another instance leads, or the leader is unknown.
    #[default]
    StandsBy,
    /// This instance leads, in the term of this number.
    Works(u64),
}

/// The parts that the election needs.
pub(crate) struct LeaseSetup {
    /// Without a fence, and with a time limit of its own.
    pub(crate) cluster: Cluster,
    pub(crate) fence: Fence,
    pub(crate) candidate: Candidate,
    pub(crate) pace: WatchPace,
    pub(crate) board: Option<Board>,
    pub(crate) meter: SharedMeter,
}

/// The task that takes part in the election. Dropping it ends it at once: the Lease stays until it expires.
pub(crate) struct LeaseTask {
    pub(crate) role: watch::Receiver<Role>,
    leaving: CancellationToken,
    task: AbortOnDropHandle<()>,
    patience: Duration,
    lease: String,
}

/// The only reader and writer of the Lease.
struct Keeper {
    setup: LeaseSetup,
    election: Election,
    role: watch::Sender<Role>,
    asking: Option<(Sent, BoxFuture<'static, Result<Value, ClusterError>>)>,
    standing: Standing,
    /// The refusal of requests that was last reported.
    refusal: Option<String>,
    /// When the Lease was last acquired or renewed.
    renewed: Option<Instant>,
}

// === impl LeaseTask ===

impl LeaseTask {
    /// Starts the task. Needs a tokio runtime.
    pub(crate) fn start(setup: LeaseSetup) -> Self {
        let (sender, role) = watch::channel(Role::StandsBy);
        let leaving = CancellationToken::new();
        let Candidate { namespace, name, times, .. } = &setup.candidate;
        let lease = format!("{namespace}/{name}");
        if let Some(meter) = &setup.meter {
            meter.leased(&lease);
        }
        let patience = times.renew_deadline / 2;
        let keeper = Keeper {
            election: Election::new(setup.candidate.clone()),
            role: sender,
            asking: None,
            standing: Standing::Unknown,
            refusal: None,
            renewed: None,
            setup,
        };
        let task = task::spawn(keeper.keep(leaving.clone()));
        Self { role, leaving, task: AbortOnDropHandle::new(task), patience, lease }
    }

    /// Releases the Lease; call it after the last write.
    pub(crate) async fn release(self) {
        self.leaving.cancel();
        if timeout(self.patience, self.task).await.is_err() {
            let (lease, after) = (self.lease, self.patience);
            report_of_operator(&Leasing::Kept { lease, after });
        }
    }
}

// === impl Keeper ===

impl Keeper {
    async fn keep(mut self, leaving: CancellationToken) {
        let (_watch, mut news) = self.watch();
        loop {
            self.publish();
            if self.election.has_left() {
                return;
            }
            let due = self.election.due();
            let due = due.saturating_sub(self.setup.fence.now().mono);
            let pulse = self.pulse();
            tokio::select! {
                biased;
                () = leaving.cancelled(), if !self.election.is_leaving() => self.leave(),
                Some(news) = news.recv() => self.take_in(news),
                answer = answer(&mut self.asking) => self.answered(answer),
                () = sleep(due), if self.asking.is_none() => self.ask(),
                () = sleep(pulse) => {}
            }
        }
    }

    /// Returns the time until the next check of the clocks: at the latest when the own term lapses, because daemons then have only a short
    /// time to end.
    fn pulse(&self) -> Duration {
        let now = self.setup.fence.now();
        let term = self.election.term();
        let left = term.map(|it| it.times.renew_deadline.saturating_sub(now.since(&it.stamp)));
        let left = left.filter(|it| !it.is_zero());
        left.map_or(PULSE, |left| left.min(PULSE))
    }

    fn watch(&self) -> (AbortOnDropHandle<()>, UnboundedReceiver<WatchEvent>) {
        let Candidate { name, namespace, .. } = &self.setup.candidate;
        let pace = self.setup.pace.clone();
        let watched = Watched::new(leases(), Some(namespace.clone()), pace);
        let watched = watched.selecting(Selection::named(name));
        let (sender, news) = unbounded_channel();
        let watch = follow_in_task(&self.setup.cluster, watched, move |event| {
            // Fails only if the keeper is gone, and then this watch is about to end.
            drop(sender.send(event));
        });
        (watch, news)
    }

    fn take_in(&mut self, event: WatchEvent) {
        let now = self.setup.fence.now();
        match event {
            WatchEvent::Object(event, raw) => {
                // The whole object, because entries of other writers must be preserved.
                let Ok(lease) = raw.body() else {
                    return;
                };
                match event {
                    EventType::Deleted => self.election.deleted(&lease, &now),
                    _ => self.election.watched((*lease).clone(), &now),
                }
            }
            WatchEvent::Synced(listed) if listed.is_empty() => self.election.unlisted(&now),
            _ => {}
        }
    }

    fn leave(&mut self) {
        if let Some((sent, _)) = self.asking.take() {
            // The request may still be executed.
            let now = self.setup.fence.now();
            let failed = Answer::Failed { retry_after: None };
            self.election.answered(&sent, failed, &now);
        }
        self.election.leave();
    }

    fn ask(&mut self) {
        let (wish, sent) = self.election.wish(&self.setup.fence.now());
        let cluster = self.setup.cluster.clone();
        let Candidate { name, namespace, .. } = self.setup.candidate.clone();
        let asking = async move {
            match wish {
                Wish::Read => cluster.lease(&namespace, &name).await,
                Wish::Create(lease) => match cluster.create_lease(&namespace, &lease).await {
                    // The namespace does not exist.
                    Err(ClusterError::NotFound(why)) => Err(ClusterError::Invalid(why.to_string())),
                    created => created,
                },
                Wish::Replace(lease) => cluster.replace_lease((&namespace, &name), &lease).await,
            }
        };
        self.asking = Some((sent, asking.boxed()));
    }

    fn answered(&mut self, (sent, answer): (Sent, Result<Value, ClusterError>)) {
        let now = self.setup.fence.now();
        let refusal = answer.as_ref().err().filter(|it| it.is_lasting());
        let refusal = refusal.filter(|it| !matches!(it, ClusterError::NotFound(_)));
        self.report_refusal(refusal, answer.is_err());
        if answer.is_ok() && sent.is_renewal() {
            self.is_renewed(now.since(&sent.at()));
        }
        let answer = match answer {
            Ok(lease) => Answer::Lease(lease),
            Err(ClusterError::NotFound(_)) => Answer::Absent,
            Err(
                ClusterError::Conflict(_) | ClusterError::FieldConflicts(_) | ClusterError::OtherObject(_),
            ) => Answer::Conflict,
            Err(ClusterError::Denied { .. } | ClusterError::Invalid(_)) => Answer::Refused,
            Err(error) => Answer::Failed { retry_after: error.retry_after() },
        };
        self.election.answered(&sent, answer, &now);
    }

    fn is_renewed(&mut self, took: Duration) {
        self.renewed = Some(Instant::now());
        if let Some(meter) = &self.setup.meter {
            meter.lease_renewed(&self.name(), took);
        }
    }

    // === reporting ===

    /// Updates the fence first, then the log, the status page and the receivers of the role.
    fn publish(&mut self) {
        let now = self.setup.fence.now();
        self.setup.fence.set(self.election.term());
        let standing = self.election.standing(&now);
        let role = match (&standing, self.election.term()) {
            (Standing::Holds, Some(term)) => Role::Works(term.number),
            _ => Role::StandsBy,
        };
        if standing != self.standing {
            self.report_standing(&standing);
            self.standing = standing;
        }
        self.publish_to_board();
        self.role.send_if_modified(|known| {
            let is_news = *known != role;
            *known = role;
            is_news
        });
    }

    fn report_standing(&self, standing: &Standing) {
        let lease = self.name();
        let times = &self.setup.candidate.times;
        let was_mine = matches!(self.standing, Standing::Holds | Standing::Lapsed | Standing::Begins);
        let happening = match standing.clone() {
            Standing::Holds => Leasing::Holds { lease },
            Standing::Begins => {
                let wait = times.retry * 2;
                Leasing::Begins { lease, wait }
            }
            Standing::Lapsed => {
                let after = times.renew_deadline;
                Leasing::Lapsed { lease, after }
            }
            Standing::HeldBy { holder } if was_mine => Leasing::Lost { lease, holder },
            Standing::HeldBy { holder } => Leasing::StandsBy { lease, holder },
            Standing::Absent if self.standing != Standing::Unknown => {
                let wait = times.duration;
                Leasing::Deleted { lease, wait }
            }
            Standing::OfOther { operator } => Leasing::OfOther { lease, operator },
            Standing::Given => Leasing::Given { lease },
            Standing::Left if was_mine => Leasing::Released { lease },
            Standing::Left | Standing::Unknown | Standing::Absent | Standing::Free => return,
        };
        report_of_operator(&happening);
    }

    /// Reports a refusal once, until an answer differs.
    fn report_refusal(&mut self, refusal: Option<&ClusterError>, is_error: bool) {
        let Some(error) = refusal else {
            self.refusal.take_if(|_| !is_error);
            return;
        };
        let text = error.to_string();
        if self.refusal.as_ref() == Some(&text) {
            return;
        }
        let rule = match error {
            ClusterError::Denied { rule, .. } => rule.clone(),
            _ => String::new(),
        };
        let (lease, error) = (self.name(), text.clone());
        report_of_operator(&Leasing::Refused { lease, error, rule });
        self.refusal = Some(text);
    }

    fn name(&self) -> String {
        let Candidate { name, namespace, .. } = &self.setup.candidate;
        format!("{namespace}/{name}")
    }

    fn publish_to_board(&self) {
        let Some(board) = &self.setup.board else {
            return;
        };
        let lacks = match &self.standing {
            _ if self.refusal.is_some() => Some("it cannot be read and written".to_owned()),
            Standing::Unknown => Some("it was not read yet".to_owned()),
            Standing::OfOther { operator } => Some(format!("it belongs to the operator '{operator}'")),
            Standing::Given => Some("it has a strategy".to_owned()),
            _ => None,
        };
        let holder = match &self.standing {
            Standing::Holds | Standing::Lapsed | Standing::Begins => {
                Some(self.setup.candidate.identity.clone())
            }
            Standing::HeldBy { holder } => Some(holder.clone()),
            _ => None,
        };
        board.leases(LeaseFacts {
            lease: self.name(),
            identity: self.setup.candidate.identity.clone(),
            state: word(&self.standing),
            holder,
            transitions: self.election.transitions(),
            terms: self.election.terms(),
            renewed: self.renewed,
            beat: (!self.election.has_left()).then(Instant::now),
            lacks,
        });
    }
}

/// Waits for the answer to the pending request, if there is one.
async fn answer(
    asking: &mut Option<(Sent, BoxFuture<'static, Result<Value, ClusterError>>)>,
) -> (Sent, Result<Value, ClusterError>) {
    let Some((_, answer)) = asking else {
        return std::future::pending().await;
    };
    let answer = answer.await;
    match asking.take() {
        Some((sent, _)) => (sent, answer),
        None => std::future::pending().await,
    }
}

/// Returns the standing of an instance as one word for programs.
fn word(standing: &Standing) -> &'static str {
    match standing {
        Standing::Unknown => "unknown",
        Standing::Holds => HOLDS,
        Standing::Begins => "begins",
        Standing::Lapsed => "lapsed",
        Standing::HeldBy { .. } => "standby",
        Standing::Free => "free",
        Standing::Absent => "absent",
        Standing::OfOther { .. } | Standing::Given => "refused",
        Standing::Left => "released",
    }
}

/// Waits until the role changes: for ever without an election. After the end of an election, the role is standby.
pub(crate) async fn changed(role: &mut Option<watch::Receiver<Role>>) -> Role {
    let Some(receiver) = role else {
        return std::future::pending().await;
    };
    if receiver.changed().await.is_err() {
        *role = None;
        return Role::StandsBy;
    }
    *receiver.borrow_and_update()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::fake::Fake;
    use crate::object::key::{Key, KeySet};
    use crate::object::lease::LeaseTimes;
    use crate::object::raw::Raw;
    use crate::rt::clock::Clock;

    #[tokio::test(start_paused = true)]
    async fn the_lease_is_read_once_a_listing_lacks_it() {
        let [duration, renew_deadline, retry] = [15, 10, 2].map(Duration::from_secs);
        let candidate = Candidate {
            identity: "me".to_owned(),
            operator: "op".to_owned(),
            name: "op".to_owned(),
            namespace: "ns".to_owned(),
            times: LeaseTimes { duration, renew_deadline, retry },
            delay: Duration::ZERO,
        };
        let mut keeper = Keeper {
            election: Election::new(candidate.clone()),
            role: watch::Sender::new(Role::StandsBy),
            asking: None,
            standing: Standing::Unknown,
            refusal: None,
            renewed: None,
            setup: LeaseSetup {
                cluster: Fake::new([]).cluster(),
                fence: Fence::closed(Clock::start(), None),
                candidate,
                pace: WatchPace::default(),
                board: None,
                meter: None,
            },
        };
        let spec = json!({"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": "t"});
        let metadata = json!({"name": "op", "namespace": "ns", "uid": "u", "resourceVersion": "1"});
        let lease = json!({"metadata": metadata, "spec": spec}).to_string();
        keeper.take_in(WatchEvent::Object(EventType::Added, Raw::parse(&lease).unwrap()));
        for (listed, is_read) in [(vec![Key::of_uid("u")], false), (Vec::new(), true)] {
            keeper.take_in(WatchEvent::Synced(KeySet::from_iter(listed)));
            let now = keeper.setup.fence.now().mono;
            assert_eq!(keeper.election.due() <= now, is_read);
        }
    }
}
