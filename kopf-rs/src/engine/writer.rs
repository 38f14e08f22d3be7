//! The writer of one object: sends the requests that the policy asks for until a write is done, refused or void.
//!
//! This is the only loop that repeats requests about an object. Never loses the outcome of a finished handler: only the write is repeated.
//! Must not know the content of writes, nor their purpose.

pub(super) mod job;
pub(super) mod policy;

use std::time::Duration;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::write::{Part, PatchRequest};
use crate::engine::context::WorkerContext;
use crate::engine::report::{report_of_operator, report_outage_over};
use crate::engine::writer::job::{Job, Step, Written};
use crate::engine::writer::policy::{Patience, Request, is_about_the_object, is_told};
use crate::happening::working::{Patching, Working};
use crate::object::raw::Raw;
use crate::object::resource::Resource;
use crate::rt::backoff::Backoff;
use crate::rt::outage::{Leaving, OutageGuard};

/// Writes one object.
pub(super) struct Writer {
    /// The outage that this object shares with others.
    outage: OutageGuard,
    conflicts: Backoff,
}

impl Writer {
    pub(super) fn new(context: &WorkerContext) -> Self {
        let outages = context.shared.setup.cluster.outages().clone();
        Self {
            outage: OutageGuard::new(outages, report_outage_over),
            conflicts: Backoff::new(Duration::from_millis(50), Duration::from_secs(10)),
        }
    }

    /// Sends the requests of a job, and repeats them until the server has given a final answer. Returns the end of the job.
    pub(super) async fn run_job(&mut self, context: &mut WorkerContext, mut job: Job<'_>) -> Written {
        let (first, longest) = context.shared.setup.limits.backoff;
        let mut backoff = Backoff::new(first, longest);
        job.tries.once = context.shared.setup.once;
        let cluster = &context.shared.setup.cluster;
        if let Some(is_there) = cluster.status_path(job.resource) {
            job.know_status_path(is_there);
        }
        loop {
            let Some(request) = job.request() else {
                self.conflicts.reset();
                return job.done();
            };
            if !context.go_on().await {
                return Written::Interrupted;
            }
            let Some(answer) = send(context, &job, request).await else {
                return Written::Interrupted;
            };
            self.on_answer(answer.as_ref().err());
            match job.take(request, answer) {
                Step::GoOn => backoff.reset(),
                Step::End(written) => return written,
                Step::Again { error, at_least, is_told } => {
                    context.note_held_up();
                    let pause = backoff.next_pause_after(at_least, context.shared.rng());
                    let waiting = self.join_outage(job.resource, &error, is_told);
                    report_failure(context, word(request), &error, pause, waiting);
                    if !rest(context, &mut job, pause).await {
                        if context.is_deleted() {
                            self.leave_outage();
                        } else if context.is_interrupted() {
                            return Written::Interrupted;
                        }
                        return Written::Void;
                    }
                }
            }
        }
    }

    /// Pauses before planning again for another state. Returns `false` if the pause is interrupted.
    pub(super) async fn pause_before_plan(&mut self, context: &mut WorkerContext) -> bool {
        let pause = self.conflicts.next_pause(context.shared.rng());
        context.pause(pause).await
    }

    /// Returns how many times in a row the worker had to plan again.
    pub(super) fn conflicted(&self) -> u32 {
        self.conflicts.failures()
    }

    /// Derives from the answer whether the server works.
    fn on_answer(&mut self, error: Option<&ClusterError>) {
        let is_served = error.is_none_or(is_about_the_object);
        if is_served && let Leaving::Ends(over) = self.outage.leave() {
            report_outage_over(over);
        }
    }

    /// Leaves the outage, since the object sends no more requests.
    pub(super) fn leave_outage(&mut self) {
        self.outage.abandon();
    }

    /// Returns the number of objects in the outage if a line is due: for the first object, or for many more than before.
    fn join_outage(&self, resource: &Resource, error: &ClusterError, is_told: bool) -> Option<usize> {
        let outage = is_told.then(|| error.outage(resource))?;
        self.outage.join(&outage)
    }

    /// Reports a write that was not repeated after consecutive `failures`. It is made again after the pause.
    pub(super) fn report_given_up(
        &self,
        context: &WorkerContext,
        (resource, error): (&Resource, &ClusterError),
        (failures, pause): (u32, Duration),
    ) {
        let is_told = is_told(failures, error.retry_after().unwrap_or_default());
        let waiting = self.join_outage(resource, error, is_told);
        report_failure(context, "Patching", error, pause, waiting);
    }
}

fn word(request: Request) -> &'static str {
    match request {
        Request::Patch(_) => "Patching",
        Request::Read(_) => "Reading",
    }
}

fn report_failure(
    context: &WorkerContext,
    doing: &'static str,
    error: &ClusterError,
    pause: Duration,
    waiting: Option<usize>,
) {
    context.report(&Working::RequestFailed { doing, error: error.to_string(), pause, waiting });
    if let ClusterError::Denied { rule, .. } = error
        && !rule.is_empty()
        && waiting.is_some()
    {
        context.report(&Working::PermissionMissing { rule: rule.clone() });
    }
}

/// Sends one request. Returns `None` if a read is abandoned because an urgent message arrived.
async fn send(context: &WorkerContext, job: &Job<'_>, request: Request) -> Option<Result<Raw, ClusterError>> {
    let cluster = &context.shared.setup.cluster;
    if let Request::Patch(part) = request
        && let Some(patch) = job.patch(part)
    {
        if job.has_lost_status() {
            report_lost_status(cluster, job);
        }
        let answer = cluster.patch(patch, context.term()).await;
        note_status(context, job, patch, &answer);
        return Some(answer);
    }
    let facts = job.state().facts();
    let read = cluster.get(job.resource, facts.namespace.as_deref(), &facts.name);
    tokio::select! {
        biased;
        answer = read => Some(answer),
        // A read within a write is not abandoned, because it shows the fate of that write.
        () = context.unwatched(), if job.is_for_reading() => None,
    }
}

/// Notes whether a status subresource exists, and whether the answer has kept the status.
fn note_status(
    context: &WorkerContext,
    job: &Job<'_>,
    request: PatchRequest<'_>,
    answer: &Result<Raw, ClusterError>,
) {
    let cluster = &context.shared.setup.cluster;
    let PatchRequest { resource, part, .. } = request;
    let is_again = part == Part::Status && job.tries.is_status_again;
    match answer {
        // The status is sent once more.
        Ok(reply) if job.is_status_dropped(part, reply) => {}
        Ok(reply) => {
            if is_again {
                cluster.note_status_path(resource, true);
            }
            report_pruned(context, request, reply);
        }
        Err(ClusterError::NotFound(_) | ClusterError::Denied { .. }) if is_again => {
            cluster.note_status_path(resource, false);
            let part = Part::Object { with_status: true };
            report_pruned(context, PatchRequest { part, ..request }, job.state());
        }
        Err(ClusterError::NotFound(_)) if part == Part::Status => {
            cluster.forget_status_path(resource);
        }
        Err(_) => {}
    }
}

/// Reports pruned fields, each once per resource.
fn report_pruned(context: &WorkerContext, request: PatchRequest<'_>, reply: &Raw) {
    let fields = context.shared.setup.cluster.news_of_pruned(request, reply);
    if !fields.is_empty() {
        let resource = Box::new(request.resource.clone());
        let pruned = Patching::Pruned { resource, fields };
        context.report(&pruned);
    }
}

fn report_lost_status(cluster: &Cluster, job: &Job<'_>) {
    if cluster.is_first_without_status(job.resource) {
        let resource = Box::new(job.resource.clone());
        let lost = Patching::StatusSubresourceLost { resource };
        report_of_operator(&lost);
    }
}

/// Pauses before the same request is sent again. Returns `false` if the request is void by then. An operator that stops sends it once more,
/// if necessary after short pauses. A deleted object needs no write, and one that is no longer watched is written after the worker has
/// handled that.
async fn rest(context: &mut WorkerContext, job: &mut Job<'_>, pause: Duration) -> bool {
    /// The limit of a pause while the operator stops.
    const SHORT: Duration = Duration::from_millis(500);
    if job.tries.patience == Patience::Last {
        tokio::time::sleep(pause.min(SHORT)).await;
        return true;
    }
    if context.pause(pause).await {
        // A state that has arrived meanwhile replaces the read.
        return !(job.is_for_reading() && context.has_state());
    }
    if context.is_interrupted() {
        return false;
    }
    job.set_patience(Patience::Last);
    !context.is_deleted()
}
