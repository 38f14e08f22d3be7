//! `CronJob`: starts Jobs by a schedule, as the tutorial of kubebuilder does.
//!
//! ```sh
//! kopf-rs run examples/cronjob --embedded --workloads --apply examples/cronjob/example-cronjob.yaml
//! ```

use std::sync::Arc;

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kopf_rs::prelude::*;
use kopf_rs::register_crd;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;

/// The annotation of a Job with the time of its start in the schedule.
const SCHEDULED_AT: &str = "batch.example.com/scheduled-at";
/// More missed starts than these are taken for a mistake.
const MOST_MISSED: usize = 100;

/// The desired state.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(group = "batch.example.com", version = "v1", kind = "CronJob", plural = "cronjobs", namespaced)]
#[kube(status = "CronJobStatus")]
#[kube(printcolumn = r#"{"name": "Schedule", "type": "string", "jsonPath": ".spec.schedule"}"#)]
#[kube(printcolumn = r#"{"name": "Last", "type": "date", "jsonPath": ".status.lastScheduleTime"}"#)]
#[serde(rename_all = "camelCase")]
pub struct CronJobSpec {
    /// The schedule in the format of cron, in UTC.
    #[schemars(length(min = 1))]
    schedule: String,
    /// The seconds after which a missed start is no longer made up for.
    #[schemars(range(min = 0))]
    starting_deadline_seconds: Option<i64>,
    /// The policy for a Job that is due while another one is active.
    #[serde(default)]
    concurrency_policy: ConcurrencyPolicy,
    /// Starts no further Jobs while this is true.
    #[serde(default)]
    suspend: bool,
    /// The Job to start.
    job_template: JobTemplate,
    /// The number of successful Jobs to keep.
    #[serde(default = "three")]
    successful_jobs_history_limit: usize,
    /// The number of failed Jobs to keep.
    #[serde(default = "one")]
    failed_jobs_history_limit: usize,
}

fn three() -> usize {
    3
}

fn one() -> usize {
    1
}

/// The policy for a Job that is due while another one is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConcurrencyPolicy {
    /// Both run.
    #[default]
    Allow,
    /// The new one is not started.
    Forbid,
    /// The new one replaces the active one.
    Replace,
}

/// The Job to start.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobTemplate {
    /// The spec of the Job; the API server checks it when the Job is created.
    #[schemars(extend("type" = "object", "x-kubernetes-preserve-unknown-fields" = true))]
    spec: Value,
}

/// The observed state.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJobStatus {
    active: Vec<String>,
    #[schemars(with = "Option<String>")]
    last_schedule_time: Option<Timestamp>,
    observed_generation: Option<i64>,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    conditions: Vec<Condition>,
}

/// Registers the kind.
///
/// # Errors
///
/// Fails until the server serves the kind.
#[on_startup(requires = ["create,patch customresourcedefinitions.apiextensions.k8s.io"])]
pub async fn register(client: Client) -> HandlerResult {
    register_crd(&client, &CronJob::crd()).await
}

/// Refuses schedules that cannot be read, and names that leave no space for the time in the names of Jobs.
///
/// # Errors
///
/// Fails for an object that is to be refused.
#[on_validate(CronJob, operations = [CREATE, UPDATE])]
pub fn valid(#[from(spec.schedule)] schedule: &str, name: Option<&str>) -> HandlerResult {
    let mut errors = AdmissionErrors::new();
    if let Err(error) = crontab(schedule) {
        errors.invalid("spec.schedule", schedule, error.to_string());
    }
    if let Some(name) = name.filter(|it| it.len() > 52) {
        errors.invalid("metadata.name", name, "must be no more than 52 characters");
    }
    errors.into_result()?;
    Ok(())
}

/// Starts the Job that is due, removes old ones, and comes back for the next start.
///
/// # Errors
///
/// Fails permanently if the schedule cannot be read, or if too many starts were missed.
#[reconcile(CronJob, reads = [Job])]
pub async fn start_jobs(
    object: Arc<CronJob>,
    name: &str,
    clock: Clock,
    children: Children,
    status: &mut Status<CronJobStatus>,
) -> HandlerResult<Again> {
    let spec = &object.spec;
    let now = Timestamp::try_from(clock.now())?;
    let created = object.metadata.creation_timestamp.as_ref().map_or(now, |it| it.0);
    let mut jobs = children.list::<Job>().await?;
    jobs.sort_by_key(scheduled_at);
    for (end, limit) in
        [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)]
    {
        delete_old(&children, &jobs, end, limit).await?;
    }
    let active: Vec<&Job> = jobs.iter().filter(|it| end_of(it).is_none()).collect();
    status.active = active.iter().filter_map(|it| it.metadata.name.clone()).collect();
    // Jobs may be deleted by users, and the status is missing in restored objects: the newest time counts.
    let last = status.last_schedule_time.max(jobs.iter().filter_map(scheduled_at).max());
    status.last_schedule_time = last;
    if spec.suspend {
        return Ok(Again::on_change());
    }
    let due = due(spec, last.unwrap_or(created), now)?;
    if let Some(at) = due.missed {
        if spec.concurrency_policy == ConcurrencyPolicy::Forbid && !active.is_empty() {
            info!("a Job is active, so the one of {at} waits for its end");
            return Ok(Again::on_change());
        }
        if spec.concurrency_policy == ConcurrencyPolicy::Replace {
            for job in active {
                children.delete(job).await?;
            }
        }
        children.apply(&job(spec, name, at)).await?;
        status.last_schedule_time = Some(at);
    }
    Ok(Again::after(due.next.duration_since(now).unsigned_abs()))
}

/// Deletes the oldest Jobs that ended like this, except for a number of them.
async fn delete_old(children: &Children, jobs: &[Job], end: &str, limit: usize) -> HandlerResult {
    let ended: Vec<_> = jobs.iter().filter(|it| end_of(it) == Some(end)).collect();
    for job in &ended[..ended.len().saturating_sub(limit)] {
        children.delete(*job).await?;
    }
    Ok(())
}

/// Returns the condition that ended the Job.
fn end_of(job: &Job) -> Option<&str> {
    let conditions = job.status.as_ref()?.conditions.iter().flatten();
    let mut ends = conditions.filter(|it| it.status == "True" && matches!(&*it.type_, "Complete" | "Failed"));
    ends.next().map(|it| &*it.type_)
}

/// Returns the time of the Job in the schedule.
fn scheduled_at(job: &Job) -> Option<Timestamp> {
    job.metadata.annotations.as_ref()?.get(SCHEDULED_AT)?.parse().ok()
}

/// The starts of a schedule around a time.
#[derive(Debug, PartialEq, Eq)]
struct Due {
    /// The newest start that was missed, and is not too late.
    missed: Option<Timestamp>,
    next: Timestamp,
}

/// Returns the starts between the last one and now, and the next one.
fn due(spec: &CronJobSpec, last: Timestamp, now: Timestamp) -> HandlerResult<Due> {
    let schedule = crontab(&spec.schedule)?;
    let deadline = spec.starting_deadline_seconds.map(|it| now - SignedDuration::from_secs(it));
    let mut missed = None;
    let mut next = schedule.find_next(MakeTimestamp(deadline.map_or(last, |it| last.max(it))))?.timestamp();
    for _ in 0..MOST_MISSED {
        if next > now {
            return Ok(Due { missed, next });
        }
        missed = Some(next);
        next = schedule.find_next(MakeTimestamp(next))?.timestamp();
    }
    fail!(
        "more than {MOST_MISSED} starts were missed since {last}: expected a clock that is right, or a small spec.startingDeadlineSeconds"
    );
}

/// Reads a schedule.
fn crontab(schedule: &str) -> Result<Crontab, PermanentError> {
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    let schedule = cronexpr::parse_crontab_with(schedule, options);
    schedule.map_err(|error| PermanentError::new(format!("spec.schedule: {error}")))
}

/// Returns the Job of a start. Its name contains the start, so that no start has two Jobs.
fn job(spec: &CronJobSpec, name: &str, at: Timestamp) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": format!("{name}-{}", at.as_second()), "annotations": {SCHEDULED_AT: at}},
        "spec": spec.job_template.spec,
    })
}

#[cfg(test)]
mod tests;
