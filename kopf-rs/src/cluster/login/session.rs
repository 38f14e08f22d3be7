//! A connection made of what a login handler has returned.
//!
//! Must not know logins.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderValue};
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster,
    NamedContext,
};
use kube::{Client, Config};

use crate::cluster::credentials::ConnectionInfo;
use crate::cluster::stack::proxy::ProxyChoice;
use crate::cluster::stack::{chain, stack};

/// How the only parts of the configuration are called.
const NAME: &str = "login";

/// A client of that server, which shows it that. Sends nothing yet.
pub(super) async fn connect(info: &ConnectionInfo) -> Result<Client, String> {
    let config = config(info).await?;
    let proxy = match &info.proxy_url {
        Some(url) => ProxyChoice::Url(url),
        None if info.trust_env => ProxyChoice::Environment,
        None => ProxyChoice::None,
    };
    stack(&config, &proxy)
}

async fn config(info: &ConnectionInfo) -> Result<Config, String> {
    one_of("ca", info.ca_path.is_some(), info.ca_data.is_some())?;
    let both = (
        info.certificate_path.is_some(),
        info.certificate_data.is_some(),
    );
    one_of("certificate", both.0, both.1)?;
    let both = (
        info.private_key_path.is_some(),
        info.private_key_data.is_some(),
    );
    one_of("private_key", both.0, both.1)?;
    let kubeconfig = kubeconfig(info)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|error| chain(&error))?;
    config.root_cert_file.clone_from(&info.ca_path);
    if let Some(value) = authorization(info) {
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| "they hold characters that no header can have".to_owned())?;
        value.set_sensitive(true);
        config.headers.push((AUTHORIZATION, value));
    }
    Ok(config)
}

fn one_of(item: &str, has_path: bool, has_data: bool) -> Result<(), String> {
    if has_path && has_data {
        return Err(format!("both {item}_path and {item}_data are given"));
    }
    Ok(())
}

fn kubeconfig(info: &ConnectionInfo) -> Result<Kubeconfig, String> {
    let text = |path: &Option<std::path::PathBuf>| {
        let path = path.as_ref();
        let text = path.map(|path| path.to_str().ok_or("a path is no text"));
        text.transpose().map(|it| it.map(str::to_owned))
    };
    let cluster = Cluster {
        server: Some(info.server.clone()),
        insecure_skip_tls_verify: Some(info.insecure),
        certificate_authority: text(&info.ca_path)?,
        certificate_authority_data: info.ca_data.as_deref().map(in_base64),
        ..Cluster::default()
    };
    let user = AuthInfo {
        client_certificate: text(&info.certificate_path)?,
        client_certificate_data: info.certificate_data.as_deref().map(in_base64),
        client_key: text(&info.private_key_path)?,
        client_key_data: info
            .private_key_data
            .as_deref()
            .map(|it| in_base64(it).into()),
        ..AuthInfo::default()
    };
    Ok(Kubeconfig {
        clusters: vec![NamedCluster {
            name: NAME.to_owned(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: NAME.to_owned(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: NAME.to_owned(),
            context: Some(Context {
                cluster: NAME.to_owned(),
                user: Some(NAME.to_owned()),
                ..Context::default()
            }),
            ..NamedContext::default()
        }],
        current_context: Some(NAME.to_owned()),
        ..Kubeconfig::default()
    })
}

/// PEM text in base64; what is in base64 already stays as it is.
fn in_base64(data: &str) -> String {
    if data.contains("-----BEGIN") {
        STANDARD.encode(data)
    } else {
        data.to_owned()
    }
}

/// The header, by Kopf's order of precedence.
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
            (
                info.clone().username("me").password("pw").token("t"),
                Some("Basic bWU6cHc="),
            ),
            (info.username("me"), None),
        ] {
            assert_eq!(authorization(&info).as_deref(), header);
        }
    }

    #[tokio::test]
    async fn what_cannot_be_used_is_said() {
        let info = ConnectionInfo::new("https://127.0.0.1:1");
        for (info, part) in [
            (
                info.clone().ca_path("/a").ca_data("b"),
                "both ca_path and ca_data are given",
            ),
            (info.clone().ca_path("/no/such/file"), "/no/such/file"),
            (
                info.clone().token("a\nb"),
                "characters that no header can have",
            ),
            (
                info.clone().proxy_url("socks5://x"),
                "expected http://HOST:PORT",
            ),
        ] {
            let error = connect(&info).await.map(|_| ()).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
        assert!(connect(&info.insecure().token("t")).await.is_ok());
    }
}
