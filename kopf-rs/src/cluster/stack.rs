//! The way to a server: connection, TLS, a proxy, credentials, in the leanest layers.
//!
//! Must not know where the configuration is from.

use std::time::Duration;

use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use tower::{BoxError, Layer, ServiceExt};

use crate::cluster::server_url::shown_url;
use crate::cluster::stack::proxy::{Proxy, ProxyChoice};
use crate::cluster::stack::traced::Traced;

pub(super) mod proxy;
mod traced;

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
pub(super) fn stack(config: &Config, proxy: &ProxyChoice<'_>) -> Result<Client, String> {
    // Two providers in one program would make rustls panic on its first use: the first one installed stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let failed = |error: kube::Error| chain(&error);
    let server = shown_url(&config.cluster_url.to_string());
    let server = server.trim_end_matches('/');
    let Some(proxy) = Proxy::before(&config.cluster_url, proxy)? else {
        let tls = config.rustls_https_connector_with_connector(tcp());
        return client(config, tls.map_err(failed)?, server.to_owned()).map_err(failed);
    };
    tracing::debug!("{server} is reached {proxy}");
    let tls = config.rustls_https_connector_with_connector(proxy.tunnel(tcp()));
    client(config, tls.map_err(failed)?, format!("{server} ({proxy})")).map_err(failed)
}

/// The leanest layers: no retries, and spans only where traces are collected. Retrying is ours. `place` is the server in error messages.
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
    let host = config.cluster_url.host().unwrap_or_default();
    let service = Traced::new(service, host);
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

/// Whether a request has failed because the server's certificate is signed by none of the authorities.
pub(super) fn is_distrust(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_of_certificate = error.to_string().contains("invalid peer certificate");
    is_of_certificate || error.source().is_some_and(is_distrust)
}

/// The chain of causes in one line, outermost first.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
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
