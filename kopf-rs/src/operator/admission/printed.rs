//! Builds the webhook configurations, policies and definitions for administrators who apply them because the operator may not write them,
//! and the permissions for the objects that the operator writes itself.
//!
//! Reads only. Must not know how manifests are printed.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::blocking::blocking;
use crate::admission::certificates::Generations;
use crate::admission::configuration::{ClientConfig, Found, Source, client_config, configuration, webhooks};
use crate::admission::instances::{Instances, annotation};
use crate::admission::rules::{PolicySource, definitions, policies, with_rules};
use crate::cluster::error::ClusterError;
use crate::conversion::definition::{conversion, versions};
use crate::conversion::graph::ConvertedKind;
use crate::handler::validation_rule::DeclaredRule;
use crate::handler::webhook::AdmissionKind;
use crate::object::rights::Rights;
use crate::operator::admission::files::text;
use crate::operator::admission::policies::definition;
use crate::operator::admission::setup::{AdmissionSetup, port_to_be};
use crate::state::naming;

/// The address of the webhooks for the API server, and the trusted certificates.
type Asked = (ClientConfig, String);

/// The objects, and the permissions of the operator.
pub(crate) struct Printed {
    pub(crate) definitions: Vec<Value>,
    /// The policies and webhook configurations.
    pub(crate) others: Vec<Value>,
    pub(crate) rights: Rights,
}

/// The facts that are known without the server.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    /// Definitions, which need not be read from the server.
    pub(crate) definitions: &'a [Value],
    /// True if cert-manager creates the certificate, and adds its authority to the objects.
    pub(crate) has_cert_manager: bool,
}

/// Returns all manifests, for the resources and namespaces in `found`.
///
/// # Errors
///
/// Returns the reason why they cannot be built.
pub(crate) async fn printed(
    setup: &AdmissionSetup,
    rules: &[Arc<DeclaredRule>],
    found: &Found,
    given: Given<'_>,
) -> Result<Printed, String> {
    if let Some(problem) = setup.conversions.problem() {
        return Err(problem);
    }
    let asked = match setup.server()? {
        None => None,
        Some(server) => {
            let port = port_to_be(server, &setup.settings.admission)?;
            let bundle = if given.has_cert_manager { String::new() } else { bundle(setup).await? };
            Some((server.client_config(port), bundle))
        }
    };
    let source = PolicySource { rules, found, domain: &naming::prefix(&setup.operator) };
    let definitions = printed_definitions(setup, source, asked.as_ref(), given.definitions).await?;
    let policies = policies(source).into_iter().flat_map(|it| [it.policy, it.binding]);
    let mut others: Vec<Value> = policies.collect();
    if let Some(asked) = &asked {
        others.extend(printed_webhooks(setup, asked, found)?);
    }
    Ok(Printed { definitions, others, rights: setup.needed_rights(rules, found, given.has_cert_manager) })
}

/// Returns the definitions with their rules, and with the address of the converter.
async fn printed_definitions(
    setup: &AdmissionSetup,
    source: PolicySource<'_>,
    asked: Option<&Asked>,
    given: &[Value],
) -> Result<Vec<Value>, String> {
    let kinds = setup.conversions.kinds();
    let converted = |name: &str| kinds.iter().find(|it| it.name == name);
    let mut names = definitions(source);
    names.extend(kinds.iter().map(|it| it.name.clone()));
    let mut all = Vec::new();
    for name in names {
        let known = given.iter().find(|it| it["metadata"]["name"] == name.as_str()).cloned();
        let found = match known {
            Some(known) => Some(known),
            None => definition(&setup.cluster, &name).await.map_err(|error| error.to_string())?,
        };
        let Some(found) = found else {
            continue;
        };
        let mut spec = found["spec"].clone();
        if let Some((kind, asked)) = converted(&name).zip(asked) {
            spec["conversion"] = with_converter(kind, &found, asked)?;
        }
        let mut bare = json!({
            "apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": {"name": name}, "spec": spec,
        });
        if converted(&name).is_some() {
            bare["metadata"]["annotations"] = mark(setup);
        }
        all.push(with_rules(&bare, source.rules));
    }
    Ok(all)
}

/// Returns the conversion stanza of a definition.
///
/// # Errors
///
/// Returns a message if the definition has a version that the operator does not convert.
fn with_converter(kind: &ConvertedKind, found: &Value, (client, bundle): &Asked) -> Result<Value, String> {
    if let Some(missing) = kind.missing_between(&versions(found)) {
        return Err(missing);
    }
    Ok(conversion(&client_config(client, &kind.path(), bundle)))
}

fn printed_webhooks(
    setup: &AdmissionSetup,
    (client, bundle): &Asked,
    found: &Found,
) -> Result<Vec<Value>, String> {
    let name = setup.settings.admission.managed.clone();
    let name = name.unwrap_or_else(|| format!("{}.kopf.rs", setup.operator));
    let source = Source {
        handlers: &setup.handlers,
        found,
        client,
        bundle,
        domain: &name,
        own_namespace: setup.own_namespace(),
        only_persistent: false,
    };
    if let Some(why) = blocking(source) {
        return Err(why);
    }
    let kinds = [AdmissionKind::Mutate, AdmissionKind::Validate];
    let all = kinds.map(|kind| (kind, webhooks(kind, source)));
    let all = all.into_iter().filter(|(_, webhooks)| !webhooks.is_empty());
    Ok(all
        .map(|(kind, webhooks)| {
            let mut made = configuration(kind, &name, &webhooks);
            made["metadata"]["annotations"] = mark(setup);
            made
        })
        .collect())
}

/// Marks the owner of an object, for `kopf-rs webhooks clean`.
fn mark(setup: &AdmissionSetup) -> Value {
    let annotation = annotation(&naming::prefix(&setup.operator));
    json!({annotation: Instances::default().text()})
}

/// Returns the authorities that the API server must trust; empty if they are not known yet.
async fn bundle(setup: &AdmissionSetup) -> Result<String, String> {
    let admission = &setup.settings.admission;
    let file = admission.authority_file.as_ref();
    if let Some(file) = file.or(admission.certificate_file.as_ref()) {
        return text(file).await;
    }
    let Some(secret) = setup.secret() else {
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
