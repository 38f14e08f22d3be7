//! `ConfigMonitor`: when a `ConfigMap` is modified, deletes the Pods that use it, so that their Deployment recreates
//! them.
//!
//! ```sh
//! kopf-rs run examples/configmonitor --embedded --apply examples/configmonitor/crd.yaml --apply examples/configmonitor/example-monitor.yaml
//! ```
//!
//! Every `ConfigMonitor` names a `ConfigMap` and selects Pods. An index maps names to selectors, so that the handler
//! of `ConfigMap` events finds them without a request. The operator writes to no object. It registers its own CRD at
//! startup. `kopf-rs manifests` prints all of its permissions, since `requires` names the requests that the functions send
//! themselves. `deployment.yaml` runs it beside `kubectl proxy`, in the namespace from the downward API.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kopf_rs::prelude::*;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch as ApiPatch, PatchParams};

const DEFINITION: &str = include_str!("../crd.yaml");

/// The namespace and the name of a `ConfigMap`.
pub type ConfigMapKey = (String, String);

/// The labels that a Pod must have.
pub type PodSelector = BTreeMap<String, String>;

/// The spec of the object.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMonitorSpec {
    configmap: String,
    pod_selector: PodSelector,
}

/// Registers the CRD unless it exists.
///
/// # Errors
///
/// Fails until the server serves the kind.
#[on_startup(requires = ["create,patch customresourcedefinitions.apiextensions.k8s.io"])]
pub async fn start(client: Client) -> HandlerResult {
    info!("Starting the service");
    let definition: CustomResourceDefinition = serde_saphyr::from_str(DEFINITION)?;
    let name = definition.name_any();
    let definitions = Api::<CustomResourceDefinition>::all(client);
    let params = PatchParams::apply("configmonitor").force();
    let registered = definitions.patch(&name, &params, &ApiPatch::Apply(&definition)).await?;
    if !is_established(&registered) {
        retry!(1, "{name} is registered, and not served yet");
    }
    Ok(())
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let status = definition.status.iter();
    let mut conditions = status.flat_map(|it| it.conditions.iter().flatten());
    conditions.any(|it| it.type_ == "Established" && it.status == "True")
}

/// Indexes the selectors of Pods by the `ConfigMap` that they use.
#[index("demo.rtfm.co.ua", "v1", "configmonitors")]
#[must_use]
pub fn selectors(spec: ConfigMonitorSpec, namespace: String) -> (ConfigMapKey, PodSelector) {
    ((namespace, spec.configmap), spec.pod_selector)
}

/// Deletes the Pods that use a modified `ConfigMap`.
///
/// # Errors
///
/// Fails if Pods cannot be listed or deleted; the operator logs the error.
#[on_event("v1", "configmaps", requires = ["list,delete pods"])]
pub async fn modified(
    event_type: EventType,
    name: String,
    namespace: String,
    selectors: &Index<ConfigMapKey, PodSelector>,
    client: Client,
) -> HandlerResult {
    if event_type != EventType::Modified {
        return Ok(());
    }
    let pods = Api::<Pod>::namespaced(client, &namespace);
    for selector in &selectors.get(&(namespace, name)) {
        info!("Modification detected");
        let selected = ListParams::default().labels(&query(selector));
        for pod in pods.list(&selected).await? {
            let name = pod.name_any();
            match pods.delete(&name, &DeleteParams::default()).await {
                Ok(_) => info!("{name} was deleted successfully"),
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Builds a label selector: `app=x,tier=web`.
fn query(selector: &PodSelector) -> String {
    let terms = selector.iter().map(|(key, value)| format!("{key}={value}"));
    terms.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_is_found_by_its_config_map() {
        let spec = json!({"configmap": "settings", "podSelector": {"app": "x", "tier": "web"}});
        let spec = ConfigMonitorSpec::deserialize(spec).expect("a spec");
        let (key, selector) = selectors(spec, "default".to_owned());
        assert_eq!(key, ("default".to_owned(), "settings".to_owned()));
        assert_eq!(query(&selector), "app=x,tier=web");
    }

    #[test]
    fn the_registered_definition_equals_the_file() {
        let definition: CustomResourceDefinition = serde_saphyr::from_str(DEFINITION).expect("a CRD");
        assert_eq!(definition.name_any(), "configmonitors.demo.rtfm.co.ua");
        assert!(!is_established(&definition));
    }
}
