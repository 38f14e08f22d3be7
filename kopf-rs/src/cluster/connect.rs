//! Finding the cluster: a kubeconfig, a context, or the service account of the Pod.
//!
//! Promises that every failure says what was looked for, where, what was found, and what to do.

use std::path::PathBuf;

use kube::config::{Cluster as NamedServer, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde::Deserialize;

use crate::cluster::Cluster;
use crate::cluster::connect::error::{ConnectError, Origin, shown};
pub(crate) use crate::cluster::connect::place::ConnectOptions;
use crate::cluster::connect::place::{Place, Surroundings};
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::request::Call;
use crate::cluster::stack::proxy::ProxyChoice;
use crate::cluster::stack::{chain, stack};

mod error;
mod place;
#[cfg(test)]
mod tests;

/// A client, and the URL of the server that it is for.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) server: String,
}

/// Find the cluster and make a client for it. Sends nothing yet: see [`Cluster::check`].
///
/// Must be called within a tokio runtime.
pub(crate) async fn connect(options: &ConnectOptions) -> Result<Connection, ConnectError> {
    let (config, proxy) = match place::find(options, &Surroundings::here())? {
        Place::Files(paths, origin) => {
            let label = label(&paths);
            let kubeconfig = read(&paths, origin)?;
            if kubeconfig.contexts.is_empty() {
                return Err(ConnectError::NoContexts { path: label });
            }
            configure(kubeconfig, options.context.as_deref(), &label).await?
        }
        Place::Pod => {
            if let Some(context) = &options.context {
                return Err(ConnectError::ContextInPod(context.clone()));
            }
            tracing::debug!("Using the service account of this Pod.");
            let config = Config::incluster();
            let config = config.map_err(|error| ConnectError::ServiceAccount(chain(&error)))?;
            (config, None)
        }
    };
    let server = config.cluster_url.to_string();
    let proxy = match proxy.as_deref() {
        Some(url) if !url.is_empty() => ProxyChoice::Url(url),
        _ => ProxyChoice::Environment,
    };
    match stack(&config, &proxy) {
        Ok(client) => Ok(Connection { client, server }),
        Err(reason) => Err(ConnectError::Client { server, reason }),
    }
}

impl Cluster {
    /// Ask for the server's version, so that a server that is not there, a certificate that does not fit and credentials that
    /// are refused are told apart before anything is started.
    pub(crate) async fn check(&self) -> Result<String, ClusterError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            git_version: String,
        }
        let asked = Asked {
            verbs: &["get"],
            resource: None,
            namespace: None,
            subresource: None,
        };
        let call = Call::get("/version".to_owned(), asked);
        let reply = self.exchange(&call).await.map_err(|error| match error {
            ClusterError::Invalid(message) => ClusterError::Invalid(format!(
                "{} (check the server in the kubeconfig)",
                message.trim_end_matches('.')
            )),
            ClusterError::NotFound(_) => ClusterError::Invalid(
                "there is no /version: no Kubernetes API server is there; check the server in the kubeconfig".to_owned(),
            ),
            ClusterError::Unauthorized(message) => ClusterError::Unauthorized(format!(
                "{message} (the server does not know these credentials: are those in the kubeconfig right, and not expired?)"
            )),
            error => error,
        })?;
        let version = serde_json::from_slice::<Version>(&reply).map_err(|_| {
            ClusterError::Invalid(
                "the answer to /version is not a Kubernetes API server's: check the server in the kubeconfig".to_owned(),
            )
        })?;
        Ok(version.git_version)
    }
}

fn read(paths: &[PathBuf], origin: Origin) -> Result<Kubeconfig, ConnectError> {
    let mut whole = Kubeconfig::default();
    for path in paths {
        let malformed = |error: &KubeconfigError| ConnectError::Malformed {
            path: path.display().to_string(),
            origin,
            reason: chain(error),
        };
        let part = Kubeconfig::read_from(path).map_err(|error| match &error {
            KubeconfigError::ReadConfig(reason, _) => ConnectError::Unreadable {
                path: path.display().to_string(),
                origin,
                reason: reason.to_string(),
            },
            error => malformed(error),
        })?;
        whole = whole.merge(part).map_err(|error| malformed(&error))?;
    }
    Ok(whole)
}

async fn configure(
    kubeconfig: Kubeconfig,
    context: Option<&str>,
    path: &str,
) -> Result<(Config, Option<String>), ConnectError> {
    let known = known_contexts(&kubeconfig);
    let wanted = context
        .map(str::to_owned)
        .or(kubeconfig.current_context.clone());
    let Some(wanted) = wanted.filter(|name| !name.is_empty()) else {
        let path = path.to_owned();
        return Err(ConnectError::NoCurrentContext { path, known });
    };
    if !kubeconfig
        .contexts
        .iter()
        .any(|context| context.name == wanted)
    {
        let path = path.to_owned();
        return Err(ConnectError::NoContext {
            wanted,
            path,
            known,
        });
    }
    let proxy = proxy_url(&kubeconfig, &wanted);
    let authority = authority_file(&kubeconfig, &wanted);
    let options = KubeConfigOptions {
        context: Some(wanted.clone()),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| ConnectError::Unusable {
        path: path.to_owned(),
        reason: chain(&error),
    })?;
    config.root_cert_file = authority;
    tracing::debug!(
        "Using context {wanted} of kubeconfig {path}: {}",
        config.cluster_url
    );
    if config.accept_invalid_certs {
        tracing::warn!(
            "The certificate of {} is not verified, because the kubeconfig sets insecure-skip-tls-verify.",
            config.cluster_url
        );
    }
    Ok((config, proxy))
}

/// What the cluster of this context says; kube would mix it with the environment.
fn proxy_url(kubeconfig: &Kubeconfig, context: &str) -> Option<String> {
    cluster_of(kubeconfig, context)?.proxy_url.clone()
}

/// The file with the certificates of its authorities, which may be replaced while the operator runs.
fn authority_file(kubeconfig: &Kubeconfig, context: &str) -> Option<PathBuf> {
    let cluster = cluster_of(kubeconfig, context)?;
    let is_inline = cluster.certificate_authority_data.is_some();
    let file = cluster.certificate_authority.as_ref();
    file.filter(|_| !is_inline).map(PathBuf::from)
}

fn cluster_of<'a>(kubeconfig: &'a Kubeconfig, context: &str) -> Option<&'a NamedServer> {
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|named| named.name == context)?;
    let name = &context.context.as_ref()?.cluster;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|named| named.name == *name)?;
    cluster.cluster.as_ref()
}

fn known_contexts(kubeconfig: &Kubeconfig) -> String {
    let contexts = kubeconfig.contexts.iter();
    let names: Vec<_> = contexts
        .map(|context| format!("\"{}\"", context.name))
        .collect();
    names.join(", ")
}

fn label(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path: &PathBuf| shown(path)).collect();
    paths.join(", ")
}
