//! The webhook configurations, policies and definitions for those who apply them themselves, since the operator may not write them.
//!
//! Reads, and changes nothing. Must not know how they are printed.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::blocking::blocking;
use crate::admission::certificates::Generations;
use crate::admission::configuration::{Source, configuration, webhooks};
use crate::admission::rules::{PolicySource, definitions, policies, with_rules};
use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::handler::validation_rule::DeclaredRule;
use crate::handler::webhook::AdmissionKind;
use crate::object::resource::Resource;
use crate::operator::admission::files::text;
use crate::operator::admission::policies::definition;
use crate::operator::admission::{AdmissionSetup, own_namespace, port_to_be, secret_of, server_of};
use crate::operator::settings::admission::AdmissionServer;

/// The rules of an operator, and what the names of their policies end with.
pub(crate) struct PrintedRules<'a> {
    pub(crate) rules: &'a [Arc<DeclaredRule>],
    pub(crate) domain: &'a str,
}

/// The configurations as the cluster serves the kinds of handlers now. The error says what keeps them from being made.
pub(crate) async fn printed(
    setup: &AdmissionSetup<'_>,
    rules: PrintedRules<'_>,
    namespaces: Option<BTreeSet<String>>,
) -> Result<Vec<Value>, String> {
    let server = server_of(setup)?;
    let resources = setup.cluster.discover().await;
    let resources = resources.map_err(|error| error.to_string())?;
    let source = PolicySource {
        rules: rules.rules,
        resources: &resources,
        domain: rules.domain,
        namespaces: namespaces.as_ref(),
    };
    let mut all = printed_rules(&setup.cluster, source).await?;
    if let Some(server) = server {
        all.extend(printed_webhooks(setup, server, &resources, namespaces).await?);
    }
    Ok(all)
}

/// The definitions with their rules, and the policies with their bindings.
async fn printed_rules(cluster: &Cluster, source: PolicySource<'_>) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    for name in definitions(source) {
        let found = definition(cluster, &name).await;
        if let Some(found) = found.map_err(|error| error.to_string())? {
            let metadata = json!({"name": name});
            let bare = json!({
                "apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": metadata, "spec": found["spec"],
            });
            all.push(with_rules(&bare, source.rules));
        }
    }
    let policies = policies(source).into_iter();
    all.extend(policies.flat_map(|it| [it.policy, it.binding]));
    Ok(all)
}

async fn printed_webhooks(
    setup: &AdmissionSetup<'_>,
    server: &AdmissionServer,
    resources: &[Resource],
    namespaces: Option<BTreeSet<String>>,
) -> Result<Vec<Value>, String> {
    let admission = &setup.settings.admission;
    let name = admission.managed.clone();
    let name = name.unwrap_or_else(|| format!("{}.kopf.rs", setup.operator));
    let port = port_to_be(server, admission)?;
    let bundle = bundle(setup).await?;
    let own = own_namespace(server, &setup.cluster);
    let source = Source {
        handlers: &setup.handlers,
        resources,
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
