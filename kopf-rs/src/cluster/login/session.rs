//! Makes a connection from the result of a login handler.
//!
//! This module must not depend on logins.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use rustls::sign::CertifiedKey;

use crate::cluster::access::header::{basic, header};
use crate::cluster::access::identity::identity;
use crate::cluster::access::{Access, Authorization, Trust};
use crate::cluster::credentials::ConnectionInfo;
use crate::cluster::pod;
use crate::cluster::proxy::{ProxyChoice, ProxyUrl};
use crate::cluster::server_url::server_url;
use crate::cluster::stack::stack;

/// Returns a client that presents these credentials to the server. Sends no request yet.
pub(super) async fn connect(info: &ConnectionInfo) -> Result<Client, String> {
    stack(access(info)?).await
}

fn access(info: &ConnectionInfo) -> Result<Access, String> {
    if !info.server.contains("://") {
        // Without a scheme it is unclear whether the credentials may be sent without TLS.
        return Err("the server has no scheme; expected https://HOST:PORT".to_owned());
    }
    let url = server_url(&info.server, "https");
    let (server, login) = url.map_err(|why| format!("the URL of the server: {why}"))?;
    let authorization = match authorization(info) {
        Some(value) => Some(header(value).ok_or(
            "they contain a line break or another control character, which HTTP headers cannot contain",
        )?),
        None => login.as_ref().and_then(basic),
    };
    let proxy = match &info.proxy_url {
        Some(url) => ProxyUrl::parse(url).map(ProxyChoice::Url).map_err(|why| format!("proxy_url: {why}"))?,
        None if info.trust_env => ProxyChoice::Environment,
        None => ProxyChoice::None,
    };
    Ok(Access {
        trust: trust(info)?,
        identity: shown(info)?,
        authorization: authorization.map_or(Authorization::None, Authorization::Fixed),
        proxy,
        namespace: pod::namespace().unwrap_or_else(|| "default".to_owned()),
        ..Access::to(server)
    })
}

fn trust(info: &ConnectionInfo) -> Result<Trust, String> {
    if info.insecure {
        return Ok(Trust::Anybody);
    }
    match (&info.ca_path, &info.ca_data) {
        (Some(_), Some(_)) => Err("both ca_path and ca_data are given".to_owned()),
        (Some(path), None) => Ok(Trust::File(path.clone())),
        (None, Some(data)) => Ok(Trust::Authorities(pem("ca_data", data)?)),
        (None, None) => Ok(Trust::System),
    }
}

fn shown(info: &ConnectionInfo) -> Result<Option<Arc<CertifiedKey>>, String> {
    let certificate =
        given("certificate", info.certificate_path.as_deref(), info.certificate_data.as_deref())?;
    let key = given("private_key", info.private_key_path.as_deref(), info.private_key_data.as_deref())?;
    match (certificate, key) {
        (Some(certificate), Some(key)) => identity(&certificate, &key).map(Some),
        (None, None) => Ok(None),
        (Some(_), None) => Err("a certificate is given without its private key".to_owned()),
        (None, Some(_)) => Err("a private key is given without its certificate".to_owned()),
    }
}

fn given(name: &str, path: Option<&Path>, data: Option<&str>) -> Result<Option<Vec<u8>>, String> {
    match (path, data) {
        (Some(_), Some(_)) => Err(format!("both {name}_path and {name}_data are given")),
        (Some(path), None) => {
            let read = std::fs::read(path).map(Some);
            read.map_err(|error| format!("{} cannot be read: {error}", path.display()))
        }
        (None, Some(data)) => pem(&format!("{name}_data"), data).map(Some),
        (None, None) => Ok(None),
    }
}

/// Returns PEM, decoded from base64 if necessary.
fn pem(name: &str, data: &str) -> Result<Vec<u8>, String> {
    if data.contains("-----BEGIN") {
        return Ok(data.as_bytes().to_vec());
    }
    let packed: String = data.split_whitespace().collect();
    let plain = STANDARD.decode(packed);
    plain.map_err(|_| format!("{name} is neither PEM nor base64 of PEM"))
}

/// Returns the header, by Kopf's order of precedence.
fn authorization(info: &ConnectionInfo) -> Option<String> {
    match (&info.username, &info.password, &info.scheme, &info.token) {
        (Some(username), Some(password), _, _) => {
            let both = STANDARD.encode(format!("{username}:{password}"));
            Some(format!("Basic {both}"))
        }
        (_, _, Some(scheme), Some(token)) => Some(format!("{scheme} {token}")),
        (_, _, Some(scheme), None) => Some(scheme.clone()),
        (_, _, None, Some(token)) => Some(format!("Bearer {token}")),
        (_, _, None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_made_as_in_kopf() {
        let info = ConnectionInfo::new("http://x");
        for (info, header) in [
            (info.clone(), None),
            (info.clone().token("t"), Some("Bearer t")),
            (info.clone().scheme("Digest").token("t"), Some("Digest t")),
            (info.clone().scheme("Negotiate"), Some("Negotiate")),
            (info.clone().username("me").password("pw").token("t"), Some("Basic bWU6cHc=")),
            (info.username("me"), None),
        ] {
            assert_eq!(authorization(&info).as_deref(), header);
        }
    }

    #[tokio::test]
    async fn unusable_credentials_are_explained() {
        let info = ConnectionInfo::new("https://127.0.0.1:1");
        for (info, part) in [
            (info.clone().ca_path("/a").ca_data("b"), "both ca_path and ca_data are given"),
            (info.clone().ca_path("/no/such/file"), "/no/such/file"),
            (info.clone().token("a\nb"), "a line break or another control character"),
            (ConnectionInfo::new("127.0.0.1:6443"), "the server has no scheme; expected https://HOST:PORT"),
            (ConnectionInfo::new(""), "the server has no scheme"),
            (ConnectionInfo::new("https://a:b"), "its port is b"),
            (info.clone().certificate_data("x"), "certificate_data is neither PEM nor base64 of PEM"),
            (
                info.clone().proxy_url("socks4://x"),
                "proxy_url: its scheme is \"socks4\"; expected http://HOST:PORT",
            ),
        ] {
            let error = connect(&info).await.map(|_| ()).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
        assert!(connect(&info.insecure().token("t")).await.is_ok());
    }
}
