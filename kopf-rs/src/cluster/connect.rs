//! Finding the cluster: a kubeconfig, a context, or the service account of the Pod.
//!
//! Promises that every failure says what was looked for, where, what was found, and what to do.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use kube::config::{Cluster as NamedServer, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde::Deserialize;
use tokio::runtime::Handle;

use crate::cluster::Cluster;
use crate::cluster::connect::error::{ConnectError, Origin, shown};
pub(crate) use crate::cluster::connect::place::ConnectOptions;
use crate::cluster::connect::place::{Place, Surroundings};
use crate::cluster::connect::renewal::{Credentials, Renewal};
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::request::Call;
use crate::cluster::server_url::shown_url;
use crate::cluster::stack::proxy::ProxyChoice;
use crate::cluster::stack::{chain, stack};

mod error;
mod place;
mod renewal;
#[cfg(test)]
mod tests;

/// A client, and the URL of the server that it is for.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) server: String,
}

/// What the client is made of.
struct Configured {
    config: Config,
    proxy: Option<String>,
    /// Where it was read, for people.
    label: String,
}

/// Find the cluster and make a client for it. Sends nothing yet: see [`Cluster::check`]. Where the server refuses the credentials later, they
/// are read again: a kubeconfig may have been replaced, and plugins may give others.
///
/// Must be called within a tokio runtime.
pub(crate) async fn connect(options: &ConnectOptions) -> Result<Connection, ConnectError> {
    let configured = configured(options).await?;
    let server = shown_url(&configured.config.cluster_url.to_string());
    let namespace = configured.config.default_namespace.clone();
    let first = match configured.credentials() {
        Ok(first) => first,
        Err(reason) => return Err(ConnectError::Client { server, reason }),
    };
    let (options, home) = (options.clone(), Handle::current());
    let read = move |former| read_again(options.clone(), home.clone(), former).boxed();
    let renewal = Arc::new(Renewal::new(first, Box::new(read)));
    let service = tower::service_fn(move |request| {
        let renewal = renewal.clone();
        async move { renewal.send(request).await }
    });
    let client = Client::new(service, namespace);
    Ok(Connection { client, server })
}

async fn configured(options: &ConnectOptions) -> Result<Configured, ConnectError> {
    match place::find(options, &Surroundings::here())? {
        Place::Files(paths, origin) => {
            let label = label(&paths);
            let kubeconfig = read(&paths, origin)?;
            if kubeconfig.contexts.is_empty() {
                return Err(ConnectError::NoContexts { path: label });
            }
            let (config, proxy) = configure(kubeconfig, options.context.as_deref(), &label).await?;
            let label = format!("kubeconfig {label}");
            Ok(Configured {
                config,
                proxy,
                label,
            })
        }
        Place::Pod => {
            if let Some(context) = &options.context {
                return Err(ConnectError::ContextInPod(context.clone()));
            }
            tracing::debug!("Using the service account of this Pod.");
            let config = Config::incluster();
            let config = config.map_err(|error| ConnectError::ServiceAccount(chain(&error)))?;
            Ok(Configured {
                config,
                proxy: None,
                label: "the service account of this Pod".to_owned(),
            })
        }
    }
}

/// What is to be shown to the server now, where that is not the same as before.
async fn read_again(options: ConnectOptions, home: Handle, former: String) -> Option<Credentials> {
    let configured = match configured(&options).await {
        Ok(configured) => configured,
        Err(error) => {
            // Files may be in the middle of being replaced.
            tracing::debug!("The credentials cannot be read again: {error}");
            return None;
        }
    };
    // A plugin may give other ones each time it is asked.
    let asks = configured.config.auth_info.exec.is_some();
    if !asks && configured.digest() == former {
        return None;
    }
    tracing::info!(
        "The server has refused the credentials of {}, or its certificate is not trusted any more; they have been read again.",
        configured.label
    );
    // A plugin is a program that runs until it has an answer; connections belong to the operator's own runtime.
    let made = home.spawn_blocking(move || configured.credentials());
    match made.await {
        Ok(Ok(credentials)) => Some(credentials),
        Ok(Err(reason)) => {
            tracing::warn!("The new credentials cannot be used: {reason}");
            None
        }
        Err(_) => None,
    }
}

impl Configured {
    /// Waits for a plugin, where there is one.
    fn credentials(&self) -> Result<Credentials, String> {
        let proxy = match self.proxy.as_deref() {
            Some(url) if !url.is_empty() => ProxyChoice::Url(url),
            _ => ProxyChoice::Environment,
        };
        Ok(Credentials {
            client: stack(&self.config, &proxy)?,
            digest: self.digest(),
        })
    }

    /// A digest of the server and of all that a request shows it.
    fn digest(&self) -> String {
        let Config {
            cluster_url,
            root_cert,
            auth_info,
            ..
        } = &self.config;
        let files = [
            &auth_info.token_file,
            &auth_info.client_certificate,
            &auth_info.client_key,
        ];
        let files = files.map(|path| std::fs::read(path.as_ref()?).ok());
        let shown = serde_json::to_string(auth_info).unwrap_or_default();
        format!("{cluster_url} {root_cert:?} {shown} {files:?}")
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
    let server = shown_url(&config.cluster_url.to_string());
    tracing::debug!("Using context {wanted} of kubeconfig {path}: {server}");
    if config.accept_invalid_certs {
        tracing::warn!(
            "The certificate of {server} is not verified, because the kubeconfig sets insecure-skip-tls-verify."
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
