//! Registers the kinds of an operator by applying their definitions.

use serde::Serialize;
use serde_json::Value;

use crate::admission::rules::with_rules;
use crate::cluster::Client;
use crate::cluster::definition::{Verdict, apply_definition};
use crate::handler::error::{HandlerResult, PermanentError, TemporaryError};
use crate::handler::registry::Registry;
use crate::handler::registry::collect::rules_in_order;

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
/// Returns a temporary error until the server has accepted the definition, and a permanent one if the server refuses it.
pub async fn register_crd(client: &Client, definition: &impl Serialize) -> HandlerResult {
    let definition = with_rules(&json_of(definition)?, &rules_in_order());
    let name = definition["metadata"]["name"].as_str();
    let name = name.ok_or_else(|| PermanentError::new("the definition has no metadata.name"))?;
    match apply_definition(client, name, &definition).await {
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
