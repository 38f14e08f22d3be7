//! Builds the webhook configurations, policies and definitions for administrators who apply them because the operator may not write them,
//! and the roles for the objects that the operator writes itself.
//!
//! Reads only. Must not know how manifests are printed.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::blocking::blocking;
use crate::admission::certificates::Generations;
use crate::admission::configuration::{ClientConfig, Source, client_config, configuration, webhooks};
use crate::admission::instances::{Instances, annotation};
use crate::admission::rights::{RightsSource, rights};
use crate::admission::rules::{PolicySource, definitions, needs_policies, policies, with_rules};
use crate::cluster::error::ClusterError;
use crate::conversion::definition::{conversion, versions};
use crate::conversion::graph::ConvertedKind;
use crate::handler::validation_rule::DeclaredRule;
use crate::handler::webhook::AdmissionKind;
use crate::object::resource::Resource;
use crate::operator::admission::files::text;
use crate::operator::admission::policies::definition;
use crate::operator::admission::{AdmissionSetup, own_namespace, persists, port_to_be, secret_of, server_of};
use crate::operator::settings::admission::AdmissionServer;
use crate::state::naming;

/// The rules of an operator, and the suffix of the names of their policies.
pub(crate) struct PrintedRules<'a> {
    pub(crate) rules: &'a [Arc<DeclaredRule>],
    pub(crate) domain: &'a str,
}

/// The namespaces of an operator that does not serve all: their names, or a CEL expression that holds for them.
#[derive(Default)]
pub(crate) struct PrintedNamespaces {
    pub(crate) names: Option<BTreeSet<String>>,
    pub(crate) expression: Option<String>,
}

/// The address of the webhooks for the API server.
struct Asked<'a> {
    server: &'a AdmissionServer,
    client: ClientConfig,
    bundle: String,
}

/// Returns all manifests, for the kinds of handlers as the cluster serves them at present.
///
/// # Errors
///
/// Returns the reason why they cannot be built.
pub(crate) async fn printed(
    setup: &AdmissionSetup<'_>,
    rules: PrintedRules<'_>,
    namespaces: PrintedNamespaces,
) -> Result<Vec<Value>, String> {
    if let Some(problem) = setup.conversions.problem() {
        return Err(problem);
    }
    let asked = match server_of(setup)? {
        None => None,
        Some(server) => Some(Asked {
            server,
            client: server.client_config(port_to_be(server, &setup.settings.admission)?),
            bundle: bundle(setup).await?,
        }),
    };
    let resources = setup.cluster.discover().await;
    let resources = resources.map_err(|error| error.to_string())?;
    let source = PolicySource {
        rules: rules.rules,
        resources: &resources,
        domain: rules.domain,
        namespaces: namespaces.names.as_ref(),
        namespace_expression: namespaces.expression.as_deref(),
    };
    let mut all = printed_definitions(setup, source, asked.as_ref()).await?;
    all.extend(policies(source).into_iter().flat_map(|it| [it.policy, it.binding]));
    if let Some(asked) = &asked {
        all.extend(printed_webhooks(setup, asked, &resources, &namespaces)?);
    }
    all.extend(printed_rights(setup, needs_policies(source)));
    Ok(all)
}

/// Returns the definitions with their rules, and with the address of the converter.
async fn printed_definitions(
    setup: &AdmissionSetup<'_>,
    source: PolicySource<'_>,
    asked: Option<&Asked<'_>>,
) -> Result<Vec<Value>, String> {
    let kinds = setup.conversions.kinds();
    let converted = |name: &str| kinds.iter().find(|it| it.name == name);
    let mut names = definitions(source);
    names.extend(kinds.iter().map(|it| it.name.clone()));
    let mut all = Vec::new();
    for name in names {
        let found = definition(&setup.cluster, &name).await;
        let Some(found) = found.map_err(|error| error.to_string())? else {
            continue;
        };
        let mut spec = found["spec"].clone();
        if let Some((kind, asked)) = converted(&name).zip(asked) {
            spec["conversion"] = told_who_converts(kind, &found, asked)?;
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
fn told_who_converts(kind: &ConvertedKind, found: &Value, asked: &Asked<'_>) -> Result<Value, String> {
    if let Some(missing) = kind.missing_between(&versions(found)) {
        return Err(missing);
    }
    let client = client_config(&asked.client, &kind.path(), &asked.bundle);
    Ok(conversion(&client))
}

/// Returns the roles for the objects that the operator writes itself, by its present settings.
fn printed_rights(setup: &AdmissionSetup<'_>, has_policies: bool) -> Vec<Value> {
    let admission = &setup.settings.admission;
    let secret = secret_of(setup).filter(|_| admission.certificate_file.is_none());
    let secret = secret.as_ref().and_then(|it| Some((it.namespace.as_deref()?, it.name.as_str())));
    let has = |kind| {
        let mut all = setup.handlers.iter().filter_map(|it| it.admission());
        all.any(|it| it == kind)
    };
    let kinds = [
        (AdmissionKind::Mutate, "mutatingwebhookconfigurations"),
        (AdmissionKind::Validate, "validatingwebhookconfigurations"),
    ];
    let kinds = kinds.into_iter().filter(|(kind, _)| has(*kind));
    let kinds: Vec<_> = kinds.map(|(_, plural)| plural).collect();
    let managed = admission.managed.as_deref();
    let server = admission.server.as_ref().filter(|it| persists(setup, it));
    let owner = server.and_then(|it| own_namespace(it, &setup.cluster));
    let converted = setup.conversions.kinds().iter();
    let definitions: Vec<_> = converted.filter(|_| managed.is_some()).map(|it| it.name.clone()).collect();
    rights(RightsSource {
        operator: setup.operator,
        secret,
        configurations: managed.map(|name| (name, kinds.as_slice())),
        owner: owner.as_deref(),
        definitions: &definitions,
        migrates: admission.storage_migration,
        has_policies,
    })
}

fn printed_webhooks(
    setup: &AdmissionSetup<'_>,
    asked: &Asked<'_>,
    resources: &[Resource],
    namespaces: &PrintedNamespaces,
) -> Result<Vec<Value>, String> {
    let admission = &setup.settings.admission;
    let name = admission.managed.clone();
    let name = name.unwrap_or_else(|| format!("{}.kopf.rs", setup.operator));
    let own = own_namespace(asked.server, &setup.cluster);
    let source = Source {
        handlers: &setup.handlers,
        resources,
        client: &asked.client,
        bundle: &asked.bundle,
        domain: &name,
        namespaces: namespaces.names.as_ref(),
        namespace_expression: namespaces.expression.as_deref(),
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
        .map(|(kind, webhooks)| {
            let mut made = configuration(kind, &name, &webhooks);
            made["metadata"]["annotations"] = mark(setup);
            made
        })
        .collect())
}

/// Marks the owner of an object, for `kopf-rs webhooks clean`.
fn mark(setup: &AdmissionSetup<'_>) -> Value {
    let annotation = annotation(&naming::prefix(setup.operator));
    json!({annotation: Instances::default().text()})
}

/// Returns the authorities that the API server must trust; empty if they are not known yet.
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
