//! Finds the cluster: by a kubeconfig, a context, or the service account of the Pod.
//!
//! This module guarantees that every failure states where the configuration was searched, the result, and how to fix
//! it.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use kube::Client;
use serde::Deserialize;
use tokio::runtime::Handle;

use crate::cluster::Cluster;
use crate::cluster::access::header::bearer;
use crate::cluster::access::{Access, Authorization, Trust};
use crate::cluster::connect::error::ConnectError;
use crate::cluster::connect::kubeconfig::Kubeconfig;
pub(crate) use crate::cluster::connect::place::ConnectOptions;
use crate::cluster::connect::place::{Place, Surroundings};
use crate::cluster::connect::renewal::{Credentials, Renewal};
use crate::cluster::error::{Asked, ClusterError};
use crate::cluster::pod;
use crate::cluster::proxy::ProxyChoice;
use crate::cluster::request::Call;
use crate::cluster::server_url::server_url;
use crate::cluster::stack::stack;

mod error;
mod kubeconfig;
mod place;
mod renewal;
#[cfg(test)]
mod tests;

/// A client, and the URL of its server.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) server: String,
}

/// The configuration from which a client is made.
struct Configured {
    access: Access,
    /// The source of the configuration, for messages.
    label: String,
}

/// Finds the cluster and makes a client for it. Sends no request yet: see [`Cluster::check`]. When the server refuses the credentials later,
/// they are read again, because the kubeconfig may have been replaced and plugins may return new ones.
///
/// Must be called within a tokio runtime.
pub(crate) async fn connect(options: &ConnectOptions) -> Result<Connection, ConnectError> {
    let configured = configured(options)?;
    let label = configured.label.clone();
    let server = configured.access.server.to_string();
    let namespace = configured.access.namespace.clone();
    if matches!(configured.access.trust, Trust::Anybody) {
        tracing::warn!(
            "The certificate of {server} is not verified, because the kubeconfig sets insecure-skip-tls-verify."
        );
    }
    let first = match configured.credentials().await {
        Ok(first) => first,
        Err(reason) => {
            return Err(ConnectError::Client { server, label, reason });
        }
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

fn configured(options: &ConnectOptions) -> Result<Configured, ConnectError> {
    let namespace = pod::namespace();
    match place::find(options, &Surroundings::here())? {
        Place::Files(paths, origin) => {
            let kubeconfig = Kubeconfig::read(&paths, origin)?;
            let context = options.context.as_deref();
            let mut access = kubeconfig.access(context, namespace.as_deref())?;
            access.minimum_tls = options.minimum_tls;
            let label = format!("kubeconfig {}", kubeconfig.label());
            tracing::debug!("Using {label}: {}", access.server);
            Ok(Configured { access, label })
        }
        Place::Pod => {
            if let Some(context) = &options.context {
                return Err(ConnectError::ContextInPod(context.clone()));
            }
            tracing::debug!("Using the service account of this Pod.");
            let access = access_in_pod(|name| std::env::var(name).ok(), namespace);
            let access = access.map_err(ConnectError::ServiceAccount)?;
            Ok(Configured {
                access: Access { minimum_tls: options.minimum_tls, ..access },
                label: "the service account of this Pod".to_owned(),
            })
        }
    }
}

/// Builds the access from the service account of the Pod.
fn access_in_pod(
    variable: impl Fn(&str) -> Option<String>,
    namespace: Option<String>,
) -> Result<Access, String> {
    let [host, port] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"].map(|name| {
        let value = variable(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("${name} is not set; Kubernetes sets it in each container"))
    });
    let (host, port) = (host?, port?);
    let is_v6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    let host = if is_v6 { format!("[{host}]") } else { host };
    let url = server_url(&format!("https://{host}:{port}"), "https");
    let (server, _) = url
        .map_err(|why| format!("$KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT make no URL: {why}"))?;
    let token = std::fs::read_to_string(pod::TOKEN);
    let token = token.map_err(|error| format!("{} cannot be read: {error}", pod::TOKEN))?;
    Ok(Access {
        trust: Trust::File(PathBuf::from(pod::AUTHORITIES)),
        authorization: Authorization::File {
            path: PathBuf::from(pod::TOKEN),
            first: bearer(token.trim()).map_err(|why| format!("{}: {why}", pod::TOKEN))?,
        },
        proxy: ProxyChoice::Environment,
        namespace: namespace.unwrap_or_else(|| "default".to_owned()),
        ..Access::to(server)
    })
}

/// Reads the credentials again, and returns them if they have changed.
async fn read_again(options: ConnectOptions, home: Handle, former: String) -> Option<Credentials> {
    let configured = match configured(&options) {
        Ok(configured) => configured,
        Err(error) => {
            // Files may be in the middle of being replaced.
            tracing::debug!("The credentials cannot be read again: {error}");
            return None;
        }
    };
    // A plugin may return other credentials on each call.
    let asks = matches!(configured.access.authorization, Authorization::Plugin(_));
    if !asks && configured.access.digest() == former {
        return None;
    }
    tracing::info!(
        "The server has refused the credentials of {}, or its certificate is not trusted any more; they have been read again.",
        configured.label
    );
    // Connections belong to the operator's own runtime.
    let made = home.spawn(configured.credentials());
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
    /// Builds the client, and waits for a plugin if there is one.
    async fn credentials(self) -> Result<Credentials, String> {
        let digest = self.access.digest();
        Ok(Credentials { client: stack(self.access).await?, digest })
    }
}

impl Cluster {
    /// Asks for the server's version. This distinguishes an unreachable server, a certificate that does not match and refused
    /// credentials before anything else starts.
    pub(crate) async fn check(&self) -> Result<String, ClusterError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            git_version: String,
        }
        let asked = Asked { verbs: &["get"], resource: None, namespace: None, subresource: None };
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
                "the answer to /version is not a Kubernetes API server's: check the server in the kubeconfig"
                    .to_owned(),
            )
        })?;
        Ok(version.git_version)
    }
}
