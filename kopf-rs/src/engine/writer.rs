//! The writer of one object: carries out what the policy says, request by request, until a write is done, refused for good, or void.
//!
//! The one loop that repeats requests about an object. A finished handler's outcome is never lost here: only the write is repeated. Must
//! not know what is written, nor what for.

pub(super) mod job;
pub(super) mod policy;

use std::time::Duration;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::write::{Part, PatchRequest};
use crate::engine::context::WorkerContext;
use crate::engine::report::{report_of_operator, report_outage_over};
use crate::engine::writer::job::{Job, Step, Written};
use crate::engine::writer::policy::{Answer, Patience, Request, is_told};
use crate::happening::patching::Patching;
use crate::happening::{self, Happening};
use crate::object::raw::Raw;
use crate::object::resource::Resource;
use crate::rt::backoff::Backoff;
use crate::rt::outage::{Leaving, Membership};

/// Writes one object.
pub(super) struct Writer {
    /// What others fail for, too.
    outage: Membership,
    /// A request may have been carried out without an answer: what comes in then may be its echo.
    pub(super) maybe_written: bool,
    conflicts: Backoff,
    conflicted: u32,
}

impl Writer {
    pub(super) fn new(context: &WorkerContext) -> Self {
        let outages = context.shared.setup.cluster.outages().clone();
        Self {
            outage: Membership::new(outages, report_outage_over),
            maybe_written: false,
            conflicts: Backoff::new(Duration::from_millis(50), Duration::from_secs(10)),
            conflicted: 0,
        }
    }

    /// Ask, and ask again, until the server has answered for good.
    pub(super) async fn carry_out(
        &mut self,
        context: &mut WorkerContext,
        mut job: Job<'_>,
    ) -> Written {
        let (first, longest) = context.shared.setup.limits.backoff;
        let mut backoff = Backoff::new(first, longest);
        job.tries.once = context.shared.setup.once;
        let cluster = &context.shared.setup.cluster;
        if let Some(is_there) = cluster.status_path(job.resource) {
            job.know_status_path(is_there);
        }
        loop {
            let Some(request) = job.request() else {
                self.landed();
                return job.done();
            };
            context.go_on().await;
            let answer = send(context, &job, request).await;
            self.on_answer(answer.as_ref().err());
            match job.take(request, answer) {
                Step::GoOn => backoff.reset(),
                Step::End(written) => return written,
                Step::Again {
                    error,
                    at_least,
                    is_told,
                } => {
                    context.is_held_up();
                    let pause = backoff.next_pause_after(at_least, context.shared.rng());
                    let waiting = self.join_outage(job.resource, &error, is_told);
                    report_failure(context, word(request), &error, pause, waiting);
                    if !rest(context, &mut job, pause).await {
                        if context.is_deleted() {
                            self.wait_no_more();
                        }
                        return Written::Void;
                    }
                }
            }
        }
    }

    /// Wait before something is planned anew for the state that stands in the way. `false` where there is no time for that.
    pub(super) async fn pause_before_plan(&mut self, context: &mut WorkerContext) -> bool {
        let pause = self.conflicts.next_pause(context.shared.rng());
        self.conflicted += 1;
        context.pause(pause).await
    }

    /// How often in a row something had to be planned anew.
    pub(super) fn conflicted(&self) -> u32 {
        self.conflicted
    }

    fn landed(&mut self) {
        self.maybe_written = false;
        self.conflicts.reset();
        self.conflicted = 0;
    }

    /// Reads from the answer how the server is, and what was written.
    fn on_answer(&mut self, error: Option<&ClusterError>) {
        self.maybe_written |= error.is_some_and(ClusterError::may_have_landed);
        let is_served = error.is_none_or(|error| Answer::of(error).is_about_the_object());
        if is_served && let Leaving::Ends(over) = self.outage.leave() {
            report_outage_over(over);
        }
    }

    /// Nothing is asked for any more: the object is in no outage.
    pub(super) fn wait_no_more(&mut self) {
        self.outage.abandon();
    }

    /// How many fail for that reason, where people are to be told: when the first object does, or many more than before.
    fn join_outage(
        &self,
        resource: &Resource,
        error: &ClusterError,
        is_told: bool,
    ) -> Option<usize> {
        let outage = is_told.then(|| error.outage(resource))?;
        self.outage.join(&outage)
    }

    /// Tell of a write that was not repeated, after so many others that failed in a row. It is made again after that pause.
    pub(super) fn report_given_up(
        &self,
        context: &WorkerContext,
        (resource, error): (&Resource, &ClusterError),
        (failures, pause): (u32, Duration),
    ) {
        let is_told = is_told(failures, error.retry_after().unwrap_or_default());
        let waiting = self.join_outage(resource, error, is_told);
        report_failure(context, happening::Request::Patch, error, pause, waiting);
    }
}

fn word(request: Request) -> happening::Request {
    match request {
        Request::Patch(_) => happening::Request::Patch,
        Request::Read(_) => happening::Request::Read,
    }
}

fn report_failure(
    context: &WorkerContext,
    request: happening::Request,
    error: &ClusterError,
    pause: Duration,
    waiting: Option<usize>,
) {
    context.report(&Happening::RequestFailed {
        request,
        error: error.to_string(),
        pause,
        waiting,
    });
    if let ClusterError::Denied { rule, .. } = error
        && !rule.is_empty()
        && waiting.is_some()
    {
        context.report(&Happening::PermissionMissing { rule: rule.clone() });
    }
}

/// One request, one answer.
async fn send(
    context: &WorkerContext,
    job: &Job<'_>,
    request: Request,
) -> Result<Raw, ClusterError> {
    let cluster = &context.shared.setup.cluster;
    if let Request::Patch(part) = request
        && let Some(patch) = job.patch(part)
    {
        if job.has_lost_status() {
            report_lost_status(cluster, job);
        }
        let answer = cluster.patch(patch, context.term()).await;
        note_status(context, job, patch, &answer);
        return answer;
    }
    let facts = job.state().facts();
    cluster
        .get(job.resource, facts.namespace.as_deref(), &facts.name)
        .await
}

/// Notes whether the status has a subresource, and whether the answer kept it.
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
        // It is sent once more.
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

/// Tell what the server has not kept: each field once per resource.
fn report_pruned(context: &WorkerContext, request: PatchRequest<'_>, reply: &Raw) {
    let fields = context.shared.setup.cluster.news_of_pruned(request, reply);
    if !fields.is_empty() {
        let resource = Box::new(request.resource.clone());
        let pruned = Patching::Pruned { resource, fields };
        context.report(&Happening::Patching(pruned));
    }
}

fn report_lost_status(cluster: &Cluster, job: &Job<'_>) {
    if cluster.is_first_without_status(job.resource) {
        let resource = Box::new(job.resource.clone());
        let lost = Patching::StatusSubresourceLost { resource };
        report_of_operator(&Happening::Patching(lost));
    }
}

/// Pause before the same request is sent again. `false` where it is void by then. An operator that stops sends it once more, if need be
/// after short pauses. A deleted object needs none.
async fn rest(context: &mut WorkerContext, job: &mut Job<'_>, pause: Duration) -> bool {
    /// Nobody waits for longer when the operator stops.
    const SHORT: Duration = Duration::from_millis(500);
    if job.tries.patience == Patience::Last {
        tokio::time::sleep(pause.min(SHORT)).await;
        return true;
    }
    if context.pause(pause).await {
        // A state that has come in meanwhile is as good as one that is read.
        return !(job.is_for_reading() && context.has_state());
    }
    job.set_patience(Patience::Last);
    !context.is_deleted()
}
