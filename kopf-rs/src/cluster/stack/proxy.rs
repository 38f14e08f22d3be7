//! The proxy between this process and the server, if there is one.
//!
//! `proxy-url` of the kubeconfig wins; else `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` count as they do for Go's clients, who never ask
//! a proxy for what is on this machine. Promises a tunnel, so that TLS is spoken with the server itself. Must not know credentials of
//! the server.

use std::fmt;

use http::Uri;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

/// Which proxy is meant.
pub(in crate::cluster) enum ProxyChoice<'a> {
    Url(&'a str),
    /// What the environment says.
    Environment,
    None,
}

/// Displays as `through the proxy URL`, without credentials.
pub(super) struct Proxy(Intercept);

impl Proxy {
    /// What stands before the server; the error says what is wrong with a proxy.
    pub(super) fn before(server: &Uri, choice: &ProxyChoice<'_>) -> Result<Option<Self>, String> {
        match choice {
            ProxyChoice::None => Ok(None),
            ProxyChoice::Url(url) => Self::of(&Matcher::builder().all(*url).build(), server)?
                .ok_or_else(|| {
                    "the proxy-url of the kubeconfig is no URL: expected http://HOST:PORT"
                        .to_owned()
                })
                .map(Some),
            ProxyChoice::Environment if is_here(server) => Ok(None),
            ProxyChoice::Environment => Self::of(&Matcher::from_env(), server),
        }
    }

    fn of(matcher: &Matcher, server: &Uri) -> Result<Option<Self>, String> {
        let Some(found) = matcher.intercept(server) else {
            return Ok(None);
        };
        match found.uri().scheme_str() {
            Some("http") => Ok(Some(Self(found))),
            _ => Err(format!(
                "the proxy {} is of an unknown sort: expected http://HOST:PORT in proxy-url, HTTPS_PROXY or ALL_PROXY \
                 (exclude the server in NO_PROXY if it needs none)",
                found.uri()
            )),
        }
    }

    pub(super) fn tunnel<C>(&self, connector: C) -> Tunnel<C> {
        let tunnel = Tunnel::new(self.0.uri().clone(), connector);
        match self.0.basic_auth() {
            Some(credentials) => tunnel.with_auth(credentials.clone()),
            None => tunnel,
        }
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "through the proxy {}", self.0.uri())
    }
}

/// Whether the server is on this machine.
fn is_here(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}
