//! The webhook configurations, policies and definitions for those who apply them themselves, since the operator may not write them; and roles for
//! what it is to write.
//!
//! Reads, and changes nothing. Must not know how they are printed.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::blocking::blocking;
use crate::admission::certificates::Generations;
use crate::admission::configuration::{
    ClientConfig, Source, client_config, configuration, webhooks,
};
use crate::admission::rights::{RightsSource, rights};
use crate::admission::rules::{PolicySource, definitions, policies, with_rules};
use crate::cluster::error::ClusterError;
use crate::conversion::definition::{conversion, versions};
use crate::conversion::graph::ConvertedKind;
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

/// Whom the API server is told to ask.
struct Asked<'a> {
    server: &'a AdmissionServer,
    client: ClientConfig,
    bundle: String,
}

/// All of it, as the cluster serves the kinds of handlers now. The error says what keeps it from being made.
pub(crate) async fn printed(
    setup: &AdmissionSetup<'_>,
    rules: PrintedRules<'_>,
    namespaces: Option<BTreeSet<String>>,
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
        namespaces: namespaces.as_ref(),
    };
    let mut all = printed_definitions(setup, source, asked.as_ref()).await?;
    let policies = policies(source);
    let has_policies = !policies.is_empty();
    all.extend(policies.into_iter().flat_map(|it| [it.policy, it.binding]));
    if let Some(asked) = &asked {
        all.extend(printed_webhooks(
            setup,
            asked,
            &resources,
            namespaces.as_ref(),
        )?);
    }
    all.extend(printed_rights(setup, has_policies));
    Ok(all)
}

/// The definitions with their rules, and with the address of who converts.
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
        let bare = json!({
            "apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": {"name": name}, "spec": spec,
        });
        all.push(with_rules(&bare, source.rules));
    }
    Ok(all)
}

/// What the definition is to say of conversion; an error where it has a version that nobody converts.
fn told_who_converts(
    kind: &ConvertedKind,
    found: &Value,
    asked: &Asked<'_>,
) -> Result<Value, String> {
    if let Some(missing) = kind.missing_between(&versions(found)) {
        return Err(missing);
    }
    let client = client_config(&asked.client, &kind.path(), &asked.bundle);
    Ok(conversion(&client))
}

/// The roles for what the operator writes itself, as it is set now.
fn printed_rights(setup: &AdmissionSetup<'_>, has_policies: bool) -> Vec<Value> {
    let admission = &setup.settings.admission;
    let secret = secret_of(setup).filter(|_| admission.certificate_file.is_none());
    let secret = secret
        .as_ref()
        .and_then(|it| Some((it.namespace.as_deref()?, it.name.as_str())));
    let has = |kind| {
        let mut all = setup.handlers.iter().filter_map(|it| it.admission());
        all.any(|it| it.kind == kind)
    };
    let kinds = [
        (AdmissionKind::Mutate, "mutatingwebhookconfigurations"),
        (AdmissionKind::Validate, "validatingwebhookconfigurations"),
    ];
    let kinds = kinds.into_iter().filter(|(kind, _)| has(*kind));
    let kinds: Vec<_> = kinds.map(|(_, plural)| plural).collect();
    let managed = admission.managed.as_deref();
    let converted = setup.conversions.kinds().iter();
    let definitions: Vec<_> = converted
        .filter(|_| managed.is_some())
        .map(|it| it.name.clone())
        .collect();
    rights(RightsSource {
        operator: setup.operator,
        secret,
        configurations: managed.map(|name| (name, kinds.as_slice())),
        definitions: &definitions,
        migrates: admission.storage_migration,
        has_policies,
    })
}

fn printed_webhooks(
    setup: &AdmissionSetup<'_>,
    asked: &Asked<'_>,
    resources: &[Resource],
    namespaces: Option<&BTreeSet<String>>,
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
        namespaces,
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
