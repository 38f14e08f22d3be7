//! Validates Jobs and `CronJobs`.
//!
//! A Job must select exactly its own Pods, regardless of who wrote the selector. Never looks at the old object of an update.

use serde_json::Value;

use super::finder::{Finder, child, is_true, map, number};
use super::rule::Named;
use crate::object::{Body, at_path, meta_text, text};
use crate::rules::names;
use crate::selector::choice::chooses;

pub(super) const NAMED: Named = &[
    ("job", job),
    ("job_spec", job_spec),
    ("cron_job", cron_job),
    ("cron_spec", cron_spec),
];

fn job(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let empty = Body::new();
    let spec = map(body, "spec").unwrap_or(&empty);
    let labels = at_path(spec, ".template.metadata.labels");
    let labels = labels.and_then(Value::as_object).unwrap_or(&empty);
    let shown_labels = || {
        let some = (!labels.is_empty()).then(|| Value::Object(labels.clone()));
        some.unwrap_or_default()
    };
    let mismatch = "`selector` does not match template `labels`";
    let at_labels = "spec.template.metadata.labels";
    match map(spec, "selector") {
        None => {
            finder.required("spec.selector", "");
            finder.invalid(at_labels, &shown_labels(), mismatch);
        }
        Some(selector) if !chooses(selector, labels) => {
            finder.invalid(at_labels, &shown_labels(), mismatch);
        }
        Some(_) => {}
    }
    if !is_true(spec, "manualSelector") {
        own_labels(finder, body, spec, labels);
    }
    let name = meta_text(body, "name");
    let completions = number(spec, "completions").filter(|count| *count > 0);
    if let Some(count) = completions.filter(|_| text(spec, "completionMode") == "Indexed") {
        let last = format!("{name}-{}", count - 1);
        if names::label(&last).is_some() {
            let message = format!("will not able to create pod with invalid DNS label: {last}");
            finder.invalid("metadata.name", &name.into(), &message);
        }
    }
}

/// Checks that the generated labels and the generated selector are unchanged.
fn own_labels(finder: &mut Finder<'_>, body: &Body, spec: &Body, labels: &Body) {
    let (uid, name) = (meta_text(body, "uid"), meta_text(body, "name"));
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    for (key, value) in expected {
        let at = format!("spec.template.metadata.labels[{key}]");
        match labels.get(key) {
            None => finder.required(at, &format!("must be '{value}'")),
            Some(found) if found != value => {
                finder.invalid(at, found, &format!("must be '{value}'"));
            }
            Some(_) => {}
        }
    }
    let known: Body = expected
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
        .collect();
    if let Some(selector) = map(spec, "selector").filter(|selector| !chooses(selector, &known)) {
        let shown = Value::Object(selector.clone());
        finder.invalid("spec.selector", &shown, "`selector` not auto-generated");
    }
}

fn job_spec(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let indexed = text(spec, "completionMode") == "Indexed";
    if indexed && number(spec, "completions").is_none() {
        finder.required(child(at, "completions"), "when completion mode is Indexed");
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if let Some(found) = spec.get(field).filter(|_| !indexed) {
            finder.invalid(child(at, field), found, "requires indexed completion mode");
        }
    }
    if spec.contains_key("maxFailedIndexes") && !spec.contains_key("backoffLimitPerIndex") {
        let message = "when maxFailedIndexes is specified";
        finder.required(child(at, "backoffLimitPerIndex"), message);
    }
    let at = format!("{at}.template.spec.restartPolicy");
    match at_path(spec, ".template.spec.restartPolicy") {
        Some(policy) if policy == "OnFailure" || policy == "Never" => {
            if spec.contains_key("podFailurePolicy") && policy != "Never" {
                let message = "only \"Never\" is supported when podFailurePolicy is specified";
                finder.invalid(at, policy, message);
            }
        }
        None => finder.required(at, "valid values: \"OnFailure\", \"Never\""),
        Some(policy) if policy == "Always" || policy == "" => {
            finder.required(at, "valid values: \"OnFailure\", \"Never\"");
        }
        Some(policy) => finder.unsupported(at, policy, &["OnFailure", "Never"]),
    }
}

fn cron_job(finder: &mut Finder<'_>, body: &Body, _: &str) {
    let name = meta_text(body, "name");
    if name.len() > 52 {
        finder.invalid(
            "metadata.name",
            &name.into(),
            "must be no more than 52 characters",
        );
    }
}

fn cron_spec(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let Some(job) = map(spec, "jobTemplate").and_then(|template| map(template, "spec")) else {
        return;
    };
    let at = child(at, "jobTemplate.spec");
    if let Some(selector) = job.get("selector") {
        finder.invalid(
            child(&at, "selector"),
            selector,
            "`selector` will be auto-generated",
        );
    }
    if is_true(job, "manualSelector") {
        finder.unsupported(
            child(&at, "manualSelector"),
            &true.into(),
            &["nil", "false"],
        );
    }
}
