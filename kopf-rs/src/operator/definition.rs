//! Registers the kinds of an operator by applying their definitions.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::admission::rules::with_rules;
use crate::cluster::Client;
use crate::cluster::definition::{Verdict, apply_definition};
use crate::handler::error::{HandlerResult, PermanentError, TemporaryError};
use crate::handler::registry::Registry;
use crate::handler::registry::collect::rules_in_order;

/// The time within which a server usually serves a new definition. `register_crd` reports a failure only after it.
const USUAL: Duration = Duration::from_secs(1);

/// The pause between two applies of a definition that is not served yet.
const PAUSE: Duration = Duration::from_millis(100);

/// Registers a kind: applies its `CustomResourceDefinition`. Call it in a function with [`#[on_startup]`](macro@crate::on_startup).
///
/// The definition is a type of `k8s-openapi`, such as `MyApp::crd()` of a type that derives `kube::CustomResource`, or a `Value` from YAML.
/// Handlers of the kind are called as soon as the server serves it.
///
/// ```
/// use kopf_rs::prelude::*;
/// use kopf_rs::register_crd;
/// use kube::{CustomResource, CustomResourceExt as _};
///
/// #[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema, CustomResource)]
/// #[kube(group = "example.com", version = "v1", kind = "MyApp", namespaced)]
/// struct MyAppSpec {
///     image: String,
/// }
///
/// #[on_startup]
/// async fn register(client: Client) -> HandlerResult {
///     register_crd(&client, &MyApp::crd()).await
/// }
/// ```
///
/// The definition gets the [validation rules](macro@crate::validation_rule) of its kind that this program declares, as far as a definition
/// can enforce them.
///
/// The operator needs `create` and `patch` for `customresourcedefinitions`.
///
/// # Errors
/// Returns a temporary error if the server does not serve the definition within a second, and a permanent one if the server refuses it.
pub async fn register_crd(client: &Client, definition: &impl Serialize) -> HandlerResult {
    let definition = with_rules(&json_of(definition)?, &rules_in_order());
    let name = definition["metadata"]["name"].as_str();
    let name = name.ok_or_else(|| PermanentError::new("the definition has no metadata.name"))?;
    let begun = Instant::now();
    let mut applied = apply_definition(client, name, &definition).await;
    while applied == Ok(Verdict::Pending) && begun.elapsed() < USUAL {
        sleep(PAUSE).await;
        applied = apply_definition(client, name, &definition).await;
    }
    match applied {
        Ok(Verdict::Established) => Ok(()),
        Ok(Verdict::Pending) => {
            let pending = format!("{name} is registered, and not served yet");
            Err(TemporaryError::new(pending).delay(1).into())
        }
        Ok(Verdict::Refused(why)) => {
            Err(PermanentError::new(format!("{name} is not accepted: {why}")).into())
        }
        Err(error) => Err(format!("{name} cannot be registered: {error}").into()),
    }
}

impl Registry {
    /// Returns a `CustomResourceDefinition` with the [validation rules](macro@crate::validation_rule) of its kind, as far as a definition
    /// can enforce them: for a file, or for [`register_crd`] with rules that are added by hand.
    ///
    /// ```
    /// use kopf_rs::{Registry, ValidationRule};
    /// # let crd = serde_json::json!({"spec": {
    /// #     "group": "kopf.dev", "names": {"plural": "kopfexamples", "kind": "KopfExample"},
    /// #     "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {
    /// #         "type": "object", "properties": {"spec": {"type": "object"}},
    /// #     }}}],
    /// # }});
    ///
    /// let rule = ValidationRule::new("rises", "self.spec.size >= oldSelf.spec.size");
    /// let registry = Registry::new().validation_rule("kopfexamples", rule);
    /// let crd = registry.definition(&crd)?;
    /// let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    /// assert_eq!(spec["x-kubernetes-validations"][0]["rule"], "self.size >= oldSelf.size");
    /// # Ok::<(), kopf_rs::HandlerError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the definition cannot be converted to JSON.
    pub fn definition(&self, definition: &impl Serialize) -> HandlerResult<Value> {
        Ok(with_rules(&json_of(definition)?, self.rules()))
    }
}

fn json_of(definition: &impl Serialize) -> HandlerResult<Value> {
    let made = serde_json::to_value(definition);
    let made = made.map_err(|error| PermanentError::new(format!("the definition is no JSON: {error}")))?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use bytes::Bytes;
    use http::Response;
    use http_body_util::Full;
    use serde_json::json;
    use tower::{BoxError, service_fn};

    use super::*;

    /// Registers a kind that the server reports as established in its reply of this number. Returns the message of the error, and the elapsed time.
    async fn registered(established_with: u32) -> (Option<String>, Duration) {
        let replies = AtomicU32::new(0);
        let service = service_fn(move |_| {
            let is_established = replies.fetch_add(1, Ordering::Relaxed) + 1 >= established_with;
            let status = if is_established { "True" } else { "False" };
            let reply = json!({"status": {"conditions": [{"type": "Established", "status": status}]}});
            async move { Ok::<_, BoxError>(Response::new(Full::new(Bytes::from(reply.to_string())))) }
        });
        let client = Client::new(service, "default");
        let begun = Instant::now();
        let ended = register_crd(&client, &json!({"metadata": {"name": "kopfexamples.kopf.dev"}})).await;
        (ended.err().map(|error| error.to_string()), begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_definition_that_is_served_within_a_second_is_no_failure() {
        for (established_with, took) in [(1, Duration::ZERO), (2, PAUSE), (8, 7 * PAUSE)] {
            let (error, elapsed) = registered(established_with).await;
            assert_eq!(error, None, "{established_with}");
            assert!(elapsed >= took && elapsed < took + PAUSE, "{established_with}: {elapsed:?}");
        }
        let (error, elapsed) = registered(100).await;
        let error = error.expect("it is not served");
        assert!(error.contains("kopfexamples.kopf.dev is registered, and not served yet"), "{error}");
        assert!(elapsed >= USUAL && elapsed < USUAL + 2 * PAUSE, "{elapsed:?}");
    }
}
