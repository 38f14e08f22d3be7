//! Builds the client stack for a server: connection, TLS, proxy and credentials, in as few layers as possible.
//!
//! This module does not know where the configuration comes from.

use std::time::Duration;

use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use tower::{BoxError, Layer, ServiceExt};

use crate::cluster::access::header::basic;
use crate::cluster::access::{Access, Authorization};
use crate::cluster::cause::chain;
use crate::cluster::proxy::{ProxyKind, ProxyUrl};
use crate::cluster::server_url::shown_url;
#[cfg(feature = "cli")]
use crate::cluster::stack::authorized::Authorizing;
use crate::cluster::stack::route::Route;
use crate::cluster::stack::traced::Traced;

#[cfg(feature = "cli")]
mod authorized;
mod route;
mod tls;
mod traced;

/// The time limit for connecting.
const CONNECT: Duration = Duration::from_secs(10);
/// The TCP keep-alive interval, so that the kernel detects dead peers, too.
const KEEPALIVE: Duration = Duration::from_secs(30);

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_connect_timeout(Some(CONNECT));
    tcp
}

/// Builds a client of the server, direct or through a proxy. Runs a plugin once at the start, so that its error shows early.
pub(super) async fn stack(access: Access) -> Result<Client, String> {
    #[cfg(feature = "cli")]
    if let Authorization::Plugin(plugin) = &access.authorization {
        plugin.token(&Handle::current()).await?;
    }
    let tls = tls::tls(&access)?;
    let name = server_name(access.server_name.as_deref())?;
    let server = shown_url(&access.server.to_string());
    let server = server.trim_end_matches('/').to_owned();
    let proxy = access.proxy.before(&access.server)?;
    let Some(proxy) = proxy else {
        let connector = secured(Route::Straight(tcp()), &tls, name.as_ref());
        return client(access, None, connector, server).map_err(|error| chain(&error));
    };
    tracing::debug!("{server} is reached through the proxy {proxy}");
    let to_proxy = |tcp| secured(tcp, &tls, name.as_ref());
    let route = Route::through(&proxy, &access.server, tcp(), to_proxy)?;
    let connector = secured(route, &tls, name.as_ref());
    let place = format!("{server} (through the proxy {proxy})");
    client(access, Some(&proxy), connector, place).map_err(|error| chain(&error))
}

fn server_name(name: Option<&str>) -> Result<Option<ServerName<'static>>, String> {
    let name = name.map(|name| {
        let parsed = ServerName::try_from(name.to_owned());
        parsed.map_err(|_| {
            format!("tls-server-name is \"{name}\"; expected the name of a host or an IP address")
        })
    });
    name.transpose()
}

/// Adds TLS if the URL asks for it.
fn secured<C>(connector: C, tls: &ClientConfig, name: Option<&ServerName<'static>>) -> HttpsConnector<C> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone());
    let builder = builder.https_or_http();
    let builder = match name {
        Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name.clone())),
        None => builder,
    };
    builder.enable_http1().wrap_connector(connector)
}

/// Builds the client with few layers: no retries, which callers implement, and spans only if traces are collected. `place` names the server
/// in error messages.
///
/// Connections live on the runtime that makes the client, so that blocked threads of another runtime do not delay responses.
fn client(
    access: Access,
    proxy: Option<&ProxyUrl>,
    connector: HttpsConnector<Route>,
    place: String,
) -> kube::Result<Client> {
    let mut config = Config::new(access.server);
    config.headers = access.headers;
    if let Authorization::Fixed(value) = &access.authorization {
        config.headers.push((AUTHORIZATION, value.clone()));
    }
    // A tunnel sends the credentials of the proxy in its own CONNECT request.
    let is_forwarded = config.cluster_url.scheme_str() == Some("http");
    let login = proxy.filter(|it| is_forwarded && it.kind == ProxyKind::Http);
    if let Some(value) = login.and_then(|it| basic(it.login.as_ref()?)) {
        config.headers.push((PROXY_AUTHORIZATION, value));
    }
    let http = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let http = http.map_err(move |source| BoxError::from(AtServer { server: place.clone(), source }));
    let http = config.extra_headers_layer()?.layer(http);
    #[cfg(feature = "cli")]
    let http = tower::util::option_layer(Authorizing::of(&access.authorization)).layer(http);
    let service = config.base_uri_layer().layer(http);
    let home = Handle::current();
    let service = service.map_future(move |answer| on_client_runtime(home.clone(), answer));
    let host = config.cluster_url.host().unwrap_or_default();
    let service = Traced::new(service, host);
    Ok(Client::new(service, access.namespace))
}

/// Awaits a response on the runtime `home`: a request from another runtime becomes a task there.
async fn on_client_runtime<T: Send + 'static>(
    home: Handle,
    answer: impl Future<Output = Result<T, BoxError>> + Send + 'static,
) -> Result<T, BoxError> {
    if Handle::try_current().is_ok_and(|here| here.id() == home.id()) {
        return answer.await;
    }
    AbortOnDropHandle::new(home.spawn(answer)).await?
}

/// Adds the server to the message of an error.
#[derive(Debug, thiserror::Error)]
#[error("{server}")]
struct AtServer {
    server: String,
    source: legacy::Error,
}
