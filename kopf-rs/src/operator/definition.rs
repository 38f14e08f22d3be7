//! The kind of an operator, registered by itself.

use serde::Serialize;

use crate::cluster::Client;
use crate::cluster::definition::{Verdict, apply_definition};
use crate::handler::error::{HandlerResult, PermanentError, TemporaryError};

/// Register a kind: apply its `CustomResourceDefinition`, for a function with [`#[on_startup]`](macro@crate::on_startup).
///
/// The definition is a type of `k8s-openapi`, such as `MyApp::crd()` of a type that derives `kube::CustomResource`, or a `Value` from YAML. Handlers of
/// the kind are called as soon as the server serves it.
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
/// The operator needs `create` and `patch` for `customresourcedefinitions`.
///
/// # Errors
/// A temporary one until the server has accepted it, a permanent one where it is refused.
pub async fn register_crd(client: &Client, definition: &impl Serialize) -> HandlerResult {
    let definition = serde_json::to_value(definition)
        .map_err(|error| PermanentError::new(format!("the definition is no JSON: {error}")))?;
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
