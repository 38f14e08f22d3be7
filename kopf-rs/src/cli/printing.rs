//! `--manifests`: prints everything that installs the operator, as YAML.
//!
//! Without `--kubeconfig` and `--context`, the kinds come from the Rust types of handlers, from files, and from Kubernetes itself: an API
//! server in this process serves them. This module does not know which objects an operator needs.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use kopf_rs_flags::{Flags, LogFormat, Scope};
use serde_json::Value;

use crate::cli::connecting::{checked_connection, complete};
use crate::cli::embedded;
use crate::cli::manifests;
use crate::cli::observing;
use crate::cluster::{Client, Cluster};
use crate::operator::run::Operator;
use crate::operator::run::manifests::Install;
use crate::operator::settings::configuration::variables;

/// The default of `--log-refkey`.
const DEFAULT_REFKEY: &str = "object";

/// Prints the objects in the order in which they are to be applied.
pub(super) fn print(operator: Operator, flags: &Flags, scope: &Scope) -> Result<ExitCode, Box<dyn Error>> {
    let mut definitions = operator.definitions();
    let files = manifests::read(&flags.cluster.apply)?.into_iter().map(|it| it.object);
    definitions.extend(files.filter(|it| it["kind"] == "CustomResourceDefinition"));
    let wanted = &flags.manifests;
    let install = Install {
        namespace: wanted.install_namespace.clone(),
        image: wanted.image.clone(),
        replicas: wanted.replicas,
        args: args(flags, scope),
        variables: variables(),
        settings: settings(flags)?,
        definitions,
    };
    let declared = operator.declared_rights();
    let printed = complete(async {
        let client = client(flags, &install.definitions).await?;
        Ok(operator.manifests(client, install).await?)
    })?;
    if !printed.undefined.is_empty() {
        return Err(undefined(&printed.undefined, asks_server(flags)).into());
    }
    if let Some(folder) = &wanted.observed {
        return observing::report(folder, &printed.rights, &declared);
    }
    let text = serde_saphyr::to_string_multiple(&printed.objects)?;
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the text of the settings file.
fn settings(flags: &Flags) -> std::io::Result<Option<String>> {
    let file = flags.settings.settings.as_ref().filter(|it| !it.as_os_str().is_empty());
    file.map(std::fs::read_to_string).transpose()
}

fn asks_server(flags: &Flags) -> bool {
    flags.cluster.connection.kubeconfig.is_some() || flags.cluster.connection.context.is_some()
}

/// Returns a client of a server that serves the kinds of the operator.
async fn client(flags: &Flags, definitions: &[Value]) -> Result<Client, Box<dyn Error>> {
    if asks_server(flags) {
        return Ok(checked_connection(&flags.cluster.connection).await?.client);
    }
    let client = embedded::in_memory()?;
    let cluster = Cluster::new(client.clone());
    for definition in definitions {
        let applied = cluster.apply_manifest(definition).await;
        applied.map_err(|error| {
            format!("the definition {} is refused: {error}", definition["metadata"]["name"])
        })?;
    }
    Ok(client)
}

/// Returns the error for kinds that nothing defines.
fn undefined(kinds: &[String], asks_server: bool) -> String {
    let kinds = kinds.join(", ");
    if asks_server {
        return format!(
            "the server does not serve {kinds}: create the definitions first, or fix the names in the handlers"
        );
    }
    format!(
        "nothing defines {kinds}: expected a Rust type that derives `kube::CustomResource` in the attribute of a handler, such as \
         `#[on_create(MyApp)]`, or a file with the definition (--apply crd.yaml); --kubeconfig or --context asks a server that has it"
    )
}

/// Returns the flags that the operator needs in the cluster, too.
fn args(flags: &Flags, scope: &Scope) -> Vec<String> {
    let Flags { state, peering, lease, health, log, .. } = flags;
    let on = |name: &str, is_on: bool| is_on.then(|| name.to_owned());
    let given = |name: &str, value: Option<&str>| value.map(|value| format!("{name}={value}"));
    let scope: Vec<String> = match scope {
        Scope::Unsaid => Vec::new(),
        Scope::Cluster => vec!["--all-namespaces".to_owned()],
        Scope::Namespaces(patterns) => patterns.iter().map(|it| format!("--namespace={it}")).collect(),
    };
    let format = log.log_format.to_possible_value().filter(|_| log.log_format != LogFormat::default());
    let refkey = Some(&*log.log_refkey).filter(|it| *it != DEFAULT_REFKEY);
    let priority = peering.priority().map(|it| it.to_string());
    let lease = lease.lease.as_deref().map(|name| match name {
        "" => "--lease".to_owned(),
        name => format!("--lease={name}"),
    });
    let others = [
        given("--name", state.name.as_deref()),
        on("--kopf-compatible", state.kopf_compatible),
        on("--standalone", peering.standalone),
        given("--peering", peering.peering.as_deref()),
        given("--priority", priority.as_deref()),
        lease,
        given("--metrics", health.metrics.as_deref()),
        on("--verbose", log.verbose),
        on("--debug", log.debug),
        on("--quiet", log.quiet),
        given("--log-format", format.as_ref().map(PossibleValue::get_name)),
        given("--log-refkey", refkey),
        on("--log-prefix", log.log_prefix == Some(true)),
        on("--no-log-prefix", log.no_log_prefix),
    ];
    scope.into_iter().chain(others.into_iter().flatten()).collect()
}
