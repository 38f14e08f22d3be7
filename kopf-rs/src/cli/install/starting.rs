//! Waits until the server serves the definitions, and until the Pods of the operator have started.
//!
//! This module does not know what is applied before.

use serde_json::Value;

use crate::cli::install::site::{Done, Site};
use crate::cluster::definition::{Verdict, verdict};
use crate::object::resource::Resource;
use crate::operator::installation::{Rollout, Target, rollout, troubles};

/// Waits until the definition is established.
pub(super) async fn established(site: &Site<'_>, definition: &Target) -> Done {
    let patience = site.patience();
    let shown = definition.shown("");
    loop {
        let live = site.read(definition).await?.unwrap_or_default();
        let conditions = live["status"]["conditions"].as_array();
        match verdict(conditions.map_or(&[], Vec::as_slice)) {
            Verdict::Established => return Ok(()),
            Verdict::Refused(why) => {
                return Err(format!(
                    "{shown} is not accepted: {why}. Expected names that no other definition has; repeat the command when it is solved"
                )
                .into());
            }
            Verdict::Pending => {}
        }
        if !patience.lasts().await {
            let seconds = patience.seconds;
            return Err(format!(
                "{shown} is not established within {seconds} seconds (--timeout): expected the condition Established. Look at its \
                 status.conditions, and repeat the command"
            )
            .into());
        }
    }
}

/// Waits until all Pods of the present version are available, and shows why they are not.
pub(super) async fn rolled_out(site: &Site<'_>, deployment: &Target, home: &str) -> Done {
    let patience = site.patience();
    let shown = deployment.shown(home);
    let mut told = String::new();
    loop {
        let live = site.read(deployment).await?;
        let live = live.ok_or_else(|| format!("{shown} was removed meanwhile. Repeat the command"))?;
        let (why, is_final) = match rollout(&live) {
            Rollout::Complete => {
                (site.say)(&format!("{shown} is rolled out"));
                return Ok(());
            }
            Rollout::Waiting(why) => (why, false),
            Rollout::Failed(why) => (why, true),
        };
        let lines: Vec<String> = std::iter::once(why).chain(troubles(&pods(site, &live).await)).collect();
        let lines = lines.join("\n  ");
        if told != lines {
            (site.say)(&format!("waiting for {shown}: {lines}"));
            told.clone_from(&lines);
        }
        if is_final || !patience.lasts().await {
            return Err(not_started(deployment, &lines, patience.seconds).into());
        }
    }
}

fn not_started(deployment: &Target, lines: &str, seconds: u64) -> String {
    let (name, namespace) = (&deployment.name, deployment.namespace.as_deref().unwrap_or_default());
    format!(
        "deployment.apps/{name} is not rolled out within {seconds} seconds (--timeout): {lines}\nEverything is applied, but the operator does not \
         run. `kubectl --namespace {namespace} describe pods` and `kubectl --namespace {namespace} logs deployment/{name}` show more. Correct \
         it, and repeat the command"
    )
}

/// Returns the Pods of a Deployment that are not being deleted. There are none for those who must not list them.
pub(super) async fn pods(site: &Site<'_>, deployment: &Value) -> Vec<Value> {
    let selected = deployment["spec"]["selector"]["matchLabels"].as_object();
    let selected: Vec<String> = selected
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let namespace = deployment["metadata"]["namespace"].as_str();
    let kind = Resource::built_in("", "Pod", true);
    let mut pods = site.cluster.list_whole(&kind, namespace, &selected.join(",")).await.unwrap_or_default();
    pods.retain(|it| it["metadata"]["deletionTimestamp"].is_null());
    pods
}
