//! Finding the cluster: a kubeconfig, a context, or the service account of the Pod.
//!
//! Promises that every failure says what was looked for, where, what was found, and what to do.

use std::path::PathBuf;
use std::time::Duration;

use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use tower::{BoxError, Layer, ServiceExt};

use crate::cluster::Cluster;
use crate::cluster::connect::error::{ConnectError, Origin, shown};
pub(crate) use crate::cluster::connect::place::ConnectOptions;
use crate::cluster::connect::place::{Place, Surroundings};
use crate::cluster::connect::proxy::Proxy;
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::request::Call;

mod error;
mod place;
mod proxy;
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
    // Two providers in one program would make rustls panic on its first use: the first one installed stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = config.cluster_url.to_string();
    match stack(&config, proxy.as_deref()) {
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
    let options = KubeConfigOptions {
        context: Some(wanted.clone()),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config = config.map_err(|error| ConnectError::Unusable {
        path: path.to_owned(),
        reason: chain(&error),
    })?;
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
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|named| named.name == context)?;
    let name = &context.context.as_ref()?.cluster;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|named| named.name == *name)?;
    cluster.cluster.as_ref()?.proxy_url.clone()
}

fn known_contexts(kubeconfig: &Kubeconfig) -> String {
    let contexts = kubeconfig.contexts.iter();
    let names: Vec<_> = contexts
        .map(|context| format!("\"{}\"", context.name))
        .collect();
    names.join(", ")
}

/// Where connecting takes longer, nobody is there.
const CONNECT: Duration = Duration::from_secs(10);
/// Dead peers are found by the kernel, too.
const KEEPALIVE: Duration = Duration::from_secs(30);

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_connect_timeout(Some(CONNECT));
    tcp
}

/// The way to the server: straight, or through a proxy.
fn stack(config: &Config, proxy_url: Option<&str>) -> Result<Client, String> {
    let failed = |error: kube::Error| chain(&error);
    let server = config.cluster_url.to_string();
    let server = server.trim_end_matches('/');
    let Some(proxy) = Proxy::before(&config.cluster_url, proxy_url)? else {
        let tls = config.rustls_https_connector_with_connector(tcp());
        return client(config, tls.map_err(failed)?, server.to_owned()).map_err(failed);
    };
    tracing::debug!("{server} is reached {proxy}");
    let tls = config.rustls_https_connector_with_connector(proxy.tunnel(tcp()));
    client(config, tls.map_err(failed)?, format!("{server} ({proxy})")).map_err(failed)
}

/// The leanest layers: no retries, no spans. Retrying is ours. `place` is the server in error messages.
///
/// Connections live on the runtime that makes the client: whatever threads another one's tasks block, requests are answered.
fn client<C>(config: &Config, connector: C, place: String) -> kube::Result<Client>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let http = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let http = http.map_err(move |source| {
        BoxError::from(AtServer {
            server: place.clone(),
            source,
        })
    });
    let http = config.extra_headers_layer()?.layer(http);
    let service = tower::util::option_layer(config.auth_layer()?).layer(http);
    let service = config.base_uri_layer().layer(service);
    let home = Handle::current();
    let service = service.map_future(move |answer| at_home(home.clone(), answer));
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// Await an answer on the runtime `home`: what is sent from elsewhere is a task there.
async fn at_home<T: Send + 'static>(
    home: Handle,
    answer: impl Future<Output = Result<T, BoxError>> + Send + 'static,
) -> Result<T, BoxError> {
    if Handle::try_current().is_ok_and(|here| here.id() == home.id()) {
        return answer.await;
    }
    AbortOnDropHandle::new(home.spawn(answer)).await?
}

/// Says which server it was.
#[derive(Debug, thiserror::Error)]
#[error("{server}")]
struct AtServer {
    server: String,
    source: legacy::Error,
}

fn label(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path: &PathBuf| shown(path)).collect();
    paths.join(", ")
}

/// The chain of causes in one line, outermost first.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !line.contains(&words) {
            line = format!("{line}: {words}");
        }
        cause = error.source();
    }
    line
}
