//! Keeps the operator's own cluster objects in their desired state: one loop reconciles an object, waits for a reason to do that again, and
//! releases the object at the end.
//!
//! Guarantees that a failure is retried with a growing back-off and reported once until it is over, that a write conflict is resolved soon,
//! and that the end does not wait long for a server that does not answer. Must not know the objects.

use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::operator::admission::managed_object::{ARRIVAL, explained};
use crate::rt::backoff::Backoff;

/// The delay after a write conflict.
const CONFLICT_RETRY: Duration = Duration::from_millis(20);
/// The time limit for the release of an object at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Knows the desired state of an object, and how to reach it.
pub(super) trait Reconciler: Send {
    /// Compares the object with its desired state, and writes it if they differ. Returns the longest pause before the next comparison.
    fn reconcile(&mut self) -> impl Future<Output = Result<Duration, Failure>> + Send;

    /// Waits until the object or its desired state may have changed. Cancel-safe.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// Reports a failure, and the pause after it.
    fn report(&mut self, error: &ClusterError, pause: Duration);

    /// Removes the parts of the object that must not outlive this instance. Returns whether it has removed webhooks.
    fn leave(&mut self) -> impl Future<Output = Result<bool, ClusterError>> + Send {
        async { Ok(false) }
    }

    /// Returns whether a write of this instance was not answered, so that it may still arrive.
    fn may_arrive(&self) -> bool {
        false
    }

    /// Reports why the object is not released.
    fn report_unreleased(&mut self, _error: String) {}

    /// Leaves the object, and leaves it again after the arrival of a write that the end has cut off. Sets `removed` if webhooks were removed.
    /// The driver repeats it after errors that may pass.
    fn release(&mut self, removed: &mut bool) -> impl Future<Output = Result<(), ClusterError>> + Send {
        async move {
            let may_arrive = self.may_arrive();
            *removed |= self.leave().await?;
            if may_arrive {
                sleep(ARRIVAL).await;
                *removed |= self.leave().await?;
            }
            Ok(())
        }
    }
}

/// Why an object is not in its desired state.
pub(super) enum Failure {
    /// Retries cannot help.
    Fatal(String),
    Retry(ClusterError),
}

/// Reconciles one object again and again.
pub(super) struct Driver<R> {
    pub(super) reconciler: R,
    cluster: Cluster,
    backoff: (Duration, Duration),
    failures: Backoff,
    /// The back-off after write conflicts.
    conflicts: Backoff,
    /// The kind of failure that was last reported, with the rule that would permit the request, or with the invalid part.
    reported: Option<(Discriminant<ClusterError>, String)>,
}

/// The tasks that drive objects. Dropping it ends them at once.
pub(crate) struct Drivers {
    cluster: Cluster,
    backoff: (Duration, Duration),
    tasks: JoinSet<bool>,
    stop: CancellationToken,
    send_fatal: UnboundedSender<String>,
    fatal: UnboundedReceiver<String>,
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        Self::Retry(error)
    }
}

impl<R: Reconciler> Driver<R> {
    pub(super) fn new(reconciler: R, cluster: &Cluster, backoff: (Duration, Duration)) -> Self {
        Self {
            reconciler,
            cluster: cluster.clone(),
            backoff,
            failures: Backoff::new(backoff.0, backoff.1),
            conflicts: Backoff::new(CONFLICT_RETRY, backoff.1),
            reported: None,
        }
    }

    /// Keeps the object in its desired state for ever. Returns only if retries cannot help, with the reason.
    pub(super) async fn run(&mut self) -> String {
        loop {
            let pause = match self.pass().await {
                Ok((pause, _)) => pause,
                Err(why) => return why,
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.reconciler.changed() => {}
            }
        }
    }

    /// Reconciles the object once. Returns the pause before the next time, and the error that may pass.
    ///
    /// # Errors
    ///
    /// Returns the reason why retries cannot help.
    pub(super) async fn pass(&mut self) -> Result<(Duration, Option<ClusterError>), String> {
        match self.reconciler.reconcile().await {
            Ok(pause) => {
                self.failures.reset();
                self.conflicts.reset();
                self.reported = None;
                Ok((pause, None))
            }
            Err(Failure::Retry(error)) => Ok((self.pause_after(&error), Some(error))),
            Err(Failure::Fatal(why)) => Err(why),
        }
    }

    /// Returns the pause before the next attempt. Reports each kind of failure once, until it is over.
    fn pause_after(&mut self, error: &ClusterError) -> Duration {
        let rng = self.cluster.rng();
        let rule = match error {
            // Another writer has changed the object in the meantime.
            ClusterError::Conflict(_) => return self.conflicts.next_pause(rng),
            ClusterError::Denied { rule, .. } => rule.clone(),
            ClusterError::Invalid(why) => why.clone(),
            _ => String::new(),
        };
        let asked_for = error.retry_after().unwrap_or_default();
        let pause = self.failures.next_pause_after(asked_for, rng);
        let kind = Some((discriminant(error), rule));
        if self.reported != kind {
            self.reported = kind;
            self.reconciler.report(error, pause);
        }
        pause
    }

    /// Releases the object within the time limit. Returns whether webhooks were removed.
    async fn release(&mut self) -> bool {
        let until = Instant::now() + RELEASE_TIMEOUT;
        let mut backoff = Backoff::new(CONFLICT_RETRY, self.backoff.0);
        let (mut removed, mut problem) = (false, "no answer".to_owned());
        while let Ok(released) = timeout_at(until, self.reconciler.release(&mut removed)).await {
            let Err(error) = released else {
                return removed;
            };
            problem = explained(&error);
            if error.is_lasting() {
                break;
            }
            let pause = backoff.next_pause(self.cluster.rng());
            sleep(pause.min(until.saturating_duration_since(Instant::now()))).await;
        }
        self.reconciler.report_unreleased(problem);
        removed
    }
}

impl Drivers {
    pub(crate) fn new(cluster: &Cluster, backoff: (Duration, Duration)) -> Self {
        let (send_fatal, fatal) = unbounded_channel();
        let stop = CancellationToken::new();
        Self { cluster: cluster.clone(), backoff, tasks: JoinSet::new(), stop, send_fatal, fatal }
    }

    /// Starts to drive an object. Needs a tokio runtime.
    pub(super) fn start<R: Reconciler + 'static>(&mut self, reconciler: R) {
        let mut driver = Driver::new(reconciler, &self.cluster, self.backoff);
        let (stop, send_fatal) = (self.stop.clone(), self.send_fatal.clone());
        let driving = async move {
            if let Some(why) = stop.run_until_cancelled(driver.run()).await {
                // Fails only if the receiver is gone together with this task.
                let _ = send_fatal.send(why);
                stop.cancelled().await;
            }
            driver.release().await
        };
        self.tasks.spawn(driving.boxed());
    }

    /// Waits until retries cannot bring an object to its desired state. Returns the reason.
    pub(crate) async fn failed(&mut self) -> String {
        tokio::select! {
            Some(why) = self.fatal.recv() => why,
            // A task ends before `stop` only by a panic.
            Some(Err(panic)) = self.tasks.join_next() => panic.to_string(),
        }
    }

    /// Releases all objects, within a time limit. Returns whether webhooks were removed.
    pub(crate) async fn finish(mut self) -> bool {
        self.stop.cancel();
        let mut has_removed = false;
        while let Some(removed) = self.tasks.join_next().await {
            has_removed |= removed.unwrap_or_default();
        }
        has_removed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::pending;

    use super::*;
    use crate::cluster::fake::Fake;

    /// Plays outcomes of passes and releases, and notes the time of each pass and each report.
    struct Script {
        begun: Instant,
        passes: VecDeque<Result<Duration, Failure>>,
        releases: VecDeque<Result<bool, ClusterError>>,
        may_arrive: bool,
        times: Vec<Duration>,
        reported: Vec<String>,
    }

    impl Reconciler for Script {
        async fn reconcile(&mut self) -> Result<Duration, Failure> {
            self.times.push(self.begun.elapsed());
            let done = Failure::Fatal("the end".to_owned());
            self.passes.pop_front().unwrap_or(Err(done))
        }

        async fn changed(&mut self) {
            pending::<()>().await;
        }

        fn report(&mut self, error: &ClusterError, _pause: Duration) {
            self.reported.push(error.to_string());
        }

        async fn leave(&mut self) -> Result<bool, ClusterError> {
            match self.releases.pop_front() {
                Some(released) => released,
                None => pending().await,
            }
        }

        fn may_arrive(&self) -> bool {
            self.may_arrive
        }

        fn report_unreleased(&mut self, error: String) {
            self.reported.push(error);
        }
    }

    const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

    fn script(
        passes: impl IntoIterator<Item = Result<Duration, Failure>>,
        releases: impl IntoIterator<Item = Result<bool, ClusterError>>,
    ) -> Script {
        Script {
            begun: Instant::now(),
            passes: passes.into_iter().collect(),
            releases: releases.into_iter().collect(),
            may_arrive: false,
            times: Vec::new(),
            reported: Vec::new(),
        }
    }

    fn driver(script: Script) -> Driver<Script> {
        Driver::new(script, &Fake::new([]).cluster(), BACKOFF)
    }

    fn conflict() -> ClusterError {
        ClusterError::Conflict("changed".to_owned())
    }

    fn unreachable() -> ClusterError {
        ClusterError::Unreachable("no route".to_owned())
    }

    fn denied(rule: &str) -> ClusterError {
        let (message, rule) = ("no".to_owned(), rule.to_owned());
        ClusterError::Denied { message, rule }
    }

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_failure_is_reported_once_until_it_is_over() {
        let calm = Duration::from_secs(5);
        let fails = |error| Err(Failure::Retry(error));
        let passes = [
            fails(unreachable()),
            fails(unreachable()),
            fails(denied("get")),
            fails(denied("patch")),
            Ok(calm),
            fails(denied("patch")),
        ];
        let mut driver = driver(script(passes, []));
        assert_eq!(driver.run().await, "the end");
        let reported = ["unreachable: no route", "forbidden: no", "forbidden: no"];
        assert_eq!(driver.reconciler.reported[..3], reported);
        assert_eq!(driver.reconciler.reported.len(), 4);
        let times = &driver.reconciler.times;
        assert!(times[2] >= times[1] + Duration::from_secs(1), "{times:?}");
        assert_eq!(times[5], times[4] + calm);
    }

    #[tokio::test(start_paused = true)]
    async fn a_conflict_is_retried_soon_and_never_reported() {
        let conflicts = (0..3).map(|_| Err(Failure::Retry(conflict())));
        let mut driver = driver(script(conflicts, []));
        driver.run().await;
        assert!(driver.reconciler.begun.elapsed() < Duration::from_secs(1));
        assert!(driver.reconciler.reported.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_is_repeated_and_ends_in_time() {
        let mut lucky = driver(script([], [Err(conflict()), Err(unreachable()), Ok(true)]));
        assert!(lucky.release().await);
        assert!(lucky.reconciler.reported.is_empty());
        let mut refused = driver(script([], [Err(denied(""))]));
        assert!(!refused.release().await);
        assert_eq!(refused.reconciler.reported, ["forbidden: no"]);
        let mut silent = driver(script([], []));
        assert!(!silent.release().await);
        assert_eq!(silent.reconciler.reported, ["no answer"]);
        assert_eq!(silent.reconciler.begun.elapsed(), RELEASE_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_left_again_if_a_write_may_arrive() {
        let late = |releases| Script { may_arrive: true, ..script([], releases) };
        let mut left = driver(late(vec![Ok(false), Ok(true)]));
        assert!(left.release().await);
        assert_eq!(left.reconciler.begun.elapsed(), ARRIVAL);
        let mut refused = driver(late(vec![Ok(true), Err(denied(""))]));
        assert!(refused.release().await, "it has removed webhooks before");
        assert_eq!(refused.reconciler.reported, ["forbidden: no"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_for_ever_is_released_at_the_end() {
        let mut drivers = Drivers::new(&Fake::new([]).cluster(), BACKOFF);
        drivers.start(script([], [Ok(true)]));
        drivers.start(script([Ok(Duration::MAX)], [Ok(false)]));
        assert_eq!(drivers.failed().await, "the end");
        assert!(drivers.finish().await);
    }
}
