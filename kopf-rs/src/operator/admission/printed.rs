//! The webhook configurations for those who apply them themselves, since the operator may not write them.
//!
//! Reads, and changes nothing. Must not know how they are printed.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::admission::blocking::blocking;
use crate::admission::certificates::Generations;
use crate::admission::configuration::{Source, configuration, webhooks};
use crate::cluster::error::ClusterError;
use crate::handler::webhook::AdmissionKind;
use crate::operator::admission::files::text;
use crate::operator::admission::{AdmissionSetup, own_namespace, port_to_be, secret_of, server_of};

/// The configurations as the cluster serves the kinds of handlers now. The error says what keeps them from being made.
pub(crate) async fn printed(
    setup: &AdmissionSetup<'_>,
    namespaces: Option<BTreeSet<String>>,
) -> Result<Vec<Value>, String> {
    let Some(server) = server_of(setup)? else {
        return Ok(Vec::new());
    };
    let admission = &setup.settings.admission;
    let resources = setup.cluster.discover().await;
    let resources = resources.map_err(|error| error.to_string())?;
    let name = admission.managed.clone();
    let name = name.unwrap_or_else(|| format!("{}.kopf.rs", setup.operator));
    let port = port_to_be(server, admission)?;
    let bundle = bundle(setup).await?;
    let own = own_namespace(server, &setup.cluster);
    let source = Source {
        handlers: &setup.handlers,
        resources: &resources,
        client: &server.client_config(port),
        bundle: &bundle,
        domain: &name,
        namespaces: namespaces.as_ref(),
        own_namespace: own.as_deref(),
        only_persistent: false,
    };
    if let Some(why) = blocking(source) {
        return Err(why);
    }
    let kinds = [AdmissionKind::Mutate, AdmissionKind::Validate];
    let all = kinds.map(|kind| (kind, webhooks(kind, source)));
    let all = all.into_iter().filter(|(_, webhooks)| !webhooks.is_empty());
    Ok(all
        .map(|(kind, webhooks)| configuration(kind, &name, &webhooks))
        .collect())
}

/// Whom the API server is to trust; empty where nobody knows yet.
async fn bundle(setup: &AdmissionSetup<'_>) -> Result<String, String> {
    let admission = &setup.settings.admission;
    let file = admission.authority_file.as_ref();
    if let Some(file) = file.or(admission.certificate_file.as_ref()) {
        return text(file).await;
    }
    let Some(secret) = secret_of(setup) else {
        return Ok(String::new());
    };
    match setup.cluster.look_at(secret.path(), false).await {
        Ok(found) => {
            let read = Generations::of_data(&found["data"]);
            let read = read.map_err(|error| format!("the Secret {}: {error}", secret.name))?;
            Ok(read.bundle(setup.clock.now()))
        }
        Err(ClusterError::NotFound(_)) => Ok(String::new()),
        Err(error) => Err(error.to_string()),
    }
}
