//! Waits until the server serves the definitions, and until the Pods of the operator have started.
//!
//! This module does not know what is applied before.

use serde_json::Value;

use crate::cli::install::site::{Done, Site};
use crate::cluster::definition::{Verdict, verdict};
use crate::object::resource::Resource;
use crate::operator::installation::{Target, troubles, unfinished};

/// Waits until the definition is established.
pub(super) async fn established(site: &Site<'_>, definition: &Target) -> Done {
    let shown = definition.shown("");
    let remedy = "Look at the status.conditions of the definition, and repeat the command";
    site.wait(Some(remedy.to_owned()), async || {
        let live = site.read(definition).await?.unwrap_or_default();
        let conditions = live["status"]["conditions"].as_array();
        match verdict(conditions.map_or(&[], Vec::as_slice)) {
            Verdict::Established => Ok(None),
            Verdict::Pending => Ok(Some(format!("{shown} to get the condition Established"))),
            Verdict::Refused(why) => Err(format!(
                "{shown} is not accepted: {why}. Choose names that no other definition uses, and repeat the command"
            )
            .into()),
        }
    })
    .await
}

/// Waits until all Pods of the present version are available, and shows why they are not.
pub(super) async fn rolled_out(site: &Site<'_>, deployment: &Target, home: &str) -> Done {
    let (shown, name) = (deployment.shown(home), deployment.name());
    let remedy = format!(
        "Everything is applied, but the operator does not run. `kubectl --namespace {home} describe deployments,pods` and `kubectl --namespace {home} logs \
         deployment/{name}` show why. Correct the cause, and repeat the command"
    );
    site.wait(Some(remedy), async || {
        let live = site.read(deployment).await?;
        let live = live.ok_or_else(|| format!("{shown} was removed meanwhile. Repeat the command"))?;
        let Some(why) = unfinished(&live) else { return Ok(None) };
        let lines: Vec<String> = std::iter::once(why).chain(troubles(&pods(site, &live).await)).collect();
        Ok(Some(format!("{shown}: {}", lines.join("\n  "))))
    })
    .await?;
    (site.say)(&format!("{shown} is rolled out"));
    Ok(())
}

/// Returns the Pods of a Deployment that are not being deleted. There are none for those who must not list them.
async fn pods(site: &Site<'_>, deployment: &Value) -> Vec<Value> {
    let selected = deployment["spec"]["selector"]["matchLabels"].as_object();
    let selected: Vec<String> = selected
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let namespace = deployment["metadata"]["namespace"].as_str();
    let kind = Resource::built_in("", "Pod", true);
    let mut pods =
        site.cluster.list_pages(&kind, namespace, &selected.join(","), false).await.unwrap_or_default();
    pods.retain(|it| it["metadata"]["deletionTimestamp"].is_null());
    pods
}
