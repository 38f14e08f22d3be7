//! Checks the cluster and the user of a context as client-go does, and converts them to the parts of a connection.
//!
//! Unused parts are not checked. This module must not depend on the other contexts.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{HeaderName, HeaderValue};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::access::header::{basic, bearer};
use crate::cluster::access::identity::identity;
use crate::cluster::access::plugin::{Interaction, Plugin, PluginConfig};
use crate::cluster::access::{Access, Authorization, Trust};
use crate::cluster::connect::kubeconfig::file::{AuthProvider, Cluster, Exec, User};
use crate::cluster::proxy::{ProxyChoice, ProxyUrl};
use crate::cluster::server_url::{Login, server_url};

/// The extension of a cluster that is passed to plugins.
const FOR_PLUGINS: &str = "client.authentication.k8s.io/exec";
/// The API versions that plugins may use.
const VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

/// The parts of a context.
pub(in crate::cluster::connect::kubeconfig) struct Chosen<'a> {
    pub(in crate::cluster::connect::kubeconfig) namespace: &'a str,
    pub(in crate::cluster::connect::kubeconfig) cluster_name: &'a str,
    pub(in crate::cluster::connect::kubeconfig) cluster: &'a Cluster,
    pub(in crate::cluster::connect::kubeconfig) user_name: &'a str,
    pub(in crate::cluster::connect::kubeconfig) user: User,
}

impl Chosen<'_> {
    pub(in crate::cluster::connect::kubeconfig) fn access(
        &self,
        pod: Option<&str>,
    ) -> Result<Access, String> {
        let of_cluster = |why| format!("cluster \"{}\": {why}", self.cluster_name);
        let of_user = |why| format!("user \"{}\": {why}", self.user_name);
        self.user.check().map_err(of_user)?;
        let (server, login) =
            server_url(&self.cluster.server, "http").map_err(|why| of_cluster(format!("`server`: {why}")))?;
        let mut access = Access::to(server);
        let namespace = Some(self.namespace).filter(|it| !it.is_empty()).or(pod);
        if let Some(namespace) = namespace {
            namespace.clone_into(&mut access.namespace);
        }
        access.proxy = self.cluster.proxy().map_err(of_cluster)?;
        self.cluster.check().map_err(of_cluster)?;
        access.headers = self.user.impersonation().map_err(of_user)?;
        // As in client-go: without TLS, no credentials are sent, because others on the network could read them.
        if access.server.scheme_str() == Some("https") {
            access.trust = self.cluster.trust().map_err(of_cluster)?;
            access.server_name = text(&self.cluster.tls_server_name);
            access.identity = self.user.identity().map_err(of_user)?;
            let authorization = self.authorization(access.identity.is_some());
            access.authorization = authorization.map_err(of_user)?;
        }
        if let Some(login) = login.as_ref().and_then(basic) {
            access.authorization = Authorization::Fixed(login);
        }
        Ok(access)
    }

    fn authorization(&self, has_identity: bool) -> Result<Authorization, String> {
        let user = &self.user;
        let plugin = user.exec.as_ref().map(|exec| self.plugin(exec));
        let plugin = plugin.transpose()?;
        let provider = user.auth_provider.as_ref().map(provided).transpose()?;
        let has_token = !user.token.is_empty() || !user.token_file.is_empty();
        if has_token && !user.username.is_empty() {
            return Err("a token and a username are given; keep one of them".to_owned());
        }
        if !user.token_file.is_empty() {
            return user.token_in_file();
        }
        if !user.token.is_empty() {
            return bearer(&user.token).map(Authorization::Fixed);
        }
        if !user.username.is_empty() {
            let login = Login { user: user.username.clone(), password: user.password.clone() };
            let header = basic(&login).ok_or("the username cannot be sent")?;
            return Ok(Authorization::Fixed(header));
        }
        match (provider, plugin) {
            (Some(token), _) => bearer(&token?).map(Authorization::Fixed),
            (None, Some(plugin)) if !has_identity => Ok(Authorization::Plugin(Arc::new(Plugin::new(plugin)))),
            _ => Ok(Authorization::None),
        }
    }

    fn plugin(&self, exec: &Exec) -> Result<PluginConfig, String> {
        if !VERSIONS.contains(&exec.api_version.as_str()) {
            return Err(format!(
                "`exec.apiVersion` is \"{}\"; expected {}",
                exec.api_version,
                VERSIONS.join(" or ")
            ));
        }
        let variables = exec.env.iter().map(|it| (it.name.clone(), it.value.clone()));
        let cluster = exec.provide_cluster_info.then(|| self.cluster.info());
        Ok(PluginConfig {
            command: exec.command.clone(),
            args: exec.args.clone(),
            env: variables.collect(),
            version: exec.api_version.clone(),
            mode: exec.mode()?,
            hint: exec.install_hint.clone(),
            cluster: cluster.transpose()?,
        })
    }
}

impl Cluster {
    fn proxy(&self) -> Result<ProxyChoice, String> {
        if self.proxy_url.is_empty() {
            return Ok(ProxyChoice::Environment);
        }
        let url = ProxyUrl::parse(&self.proxy_url);
        url.map(ProxyChoice::Url).map_err(|why| format!("`proxy-url`: {why}"))
    }

    /// Checks for mistakes that are errors with any server.
    fn check(&self) -> Result<(), String> {
        let file = &self.certificate_authority;
        if !file.is_empty() && !self.certificate_authority_data.is_empty() {
            return Err(
                "`certificate-authority` and `certificate-authority-data` are both given; keep one of them"
                    .to_owned(),
            );
        }
        if file.is_empty() {
            return Ok(());
        }
        open("certificate-authority", file)
    }

    fn trust(&self) -> Result<Trust, String> {
        let data = &self.certificate_authority_data;
        let file = &self.certificate_authority;
        match (data.is_empty(), file.is_empty()) {
            (true, true) if self.insecure_skip_tls_verify => Ok(Trust::Anybody),
            (true, true) => Ok(Trust::System),
            _ if self.insecure_skip_tls_verify => Err(
                "`insecure-skip-tls-verify` is set beside authorities, which it would disable; keep one of them"
                    .to_owned(),
            ),
            (false, _) => Ok(Trust::Authorities(data.clone())),
            (true, false) => Ok(Trust::File(PathBuf::from(file))),
        }
    }

    /// Returns the cluster information for a plugin.
    fn info(&self) -> Result<Value, String> {
        let mut info = json!({"server": self.server});
        let data = if self.certificate_authority.is_empty() {
            self.certificate_authority_data.clone()
        } else {
            read("certificate-authority", &self.certificate_authority)?
        };
        for (name, value) in [
            ("tls-server-name", &self.tls_server_name),
            ("certificate-authority-data", &STANDARD.encode(data)),
            ("proxy-url", &self.proxy_url),
        ] {
            if !value.is_empty() {
                info[name] = value.as_str().into();
            }
        }
        for (name, is_set) in [
            ("insecure-skip-tls-verify", self.insecure_skip_tls_verify),
            ("disable-compression", self.disable_compression),
        ] {
            if is_set {
                info[name] = true.into();
            }
        }
        let mut extensions = self.extensions.iter();
        let config = extensions.find(|it| it.name == FOR_PLUGINS);
        if let Some(config) = config {
            info["config"] = config.extension.clone();
        }
        Ok(info)
    }
}

impl User {
    /// Checks for mistakes that are errors with any server.
    fn check(&self) -> Result<(), String> {
        let has_basic = !self.username.is_empty() || !self.password.is_empty();
        if has_basic && !self.token.is_empty() {
            return Err("a token and a username are given; keep one of them".to_owned());
        }
        if !self.client_certificate.is_empty() || !self.client_certificate_data.is_empty() {
            self.check_certificate()?;
        }
        if let Some(exec) = &self.exec {
            if self.auth_provider.is_some() {
                return Err("`auth-provider` and `exec` are both given; keep one of them".to_owned());
            }
            exec.check()?;
        }
        let is_more = !self.as_uid.is_empty() || !self.as_groups.is_empty() || !self.as_user_extra.is_empty();
        if is_more && self.r#as.is_empty() {
            return Err(
                "`as-uid`, `as-groups` and `as-user-extra` say more of the user in `as`, which is not given"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn check_certificate(&self) -> Result<(), String> {
        let both = |name: &str| format!("`{name}` and `{name}-data` are both given; keep one of them");
        let has_data = (!self.client_certificate_data.is_empty(), !self.client_key_data.is_empty());
        if !self.client_certificate.is_empty() && has_data.0 {
            return Err(both("client-certificate"));
        }
        if !self.client_key.is_empty() && has_data.1 {
            return Err(both("client-key"));
        }
        if self.client_key.is_empty() && !has_data.1 {
            return Err(
                "a client certificate is given without its key; expected `client-key` or `client-key-data`"
                    .to_owned(),
            );
        }
        if !self.client_certificate.is_empty() {
            open("client-certificate", &self.client_certificate)?;
        }
        if !self.client_key.is_empty() {
            open("client-key", &self.client_key)?;
        }
        Ok(())
    }

    fn identity(&self) -> Result<Option<Arc<rustls::sign::CertifiedKey>>, String> {
        let given = |name: &str, file: &str, data: &[u8]| {
            if data.is_empty() && !file.is_empty() {
                return read(name, file);
            }
            Ok(data.to_vec())
        };
        let certificate =
            given("client-certificate", &self.client_certificate, &self.client_certificate_data)?;
        if self.client_certificate.is_empty() && certificate.is_empty() {
            return Ok(None);
        }
        let key = given("client-key", &self.client_key, &self.client_key_data)?;
        identity(&certificate, &key).map(Some)
    }

    fn token_in_file(&self) -> Result<Authorization, String> {
        let name = "tokenFile";
        let text = String::from_utf8(read(name, &self.token_file)?);
        let text = text.unwrap_or_default();
        let first = match text.trim() {
            "" if self.token.is_empty() => {
                return Err(format!("`{name}`: {} has no token", self.token_file));
            }
            "" => bearer(&self.token)?,
            token => bearer(token)?,
        };
        Ok(Authorization::File { path: PathBuf::from(&self.token_file), first })
    }

    fn impersonation(&self) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        if self.r#as.is_empty() {
            return Ok(Vec::new());
        }
        let mut headers = Vec::new();
        let mut add = |name: &str, field: &str, value: &str| {
            let name = HeaderName::try_from(name.to_owned());
            let value = HeaderValue::from_bytes(value.as_bytes());
            let (Ok(name), Ok(value)) = (name, value) else {
                return Err(format!(
                    "`{field}` has a line break or another control character, which HTTP headers cannot contain"
                ));
            };
            headers.push((name, value));
            Ok(())
        };
        add("impersonate-user", "as", &self.r#as)?;
        if !self.as_uid.is_empty() {
            add("impersonate-uid", "as-uid", &self.as_uid)?;
        }
        for group in &self.as_groups {
            add("impersonate-group", "as-groups", group)?;
        }
        for (key, values) in &self.as_user_extra {
            let name = format!("impersonate-extra-{}", escaped_key(key));
            for value in values {
                add(&name, "as-user-extra", value)?;
            }
        }
        Ok(headers)
    }
}

impl Exec {
    fn check(&self) -> Result<(), String> {
        if self.command.is_empty() {
            return Err("`exec` has no `command`".to_owned());
        }
        if self.api_version.is_empty() {
            return Err(format!("`exec` has no `apiVersion`; expected {}", VERSIONS.join(" or ")));
        }
        if self.env.iter().any(|it| it.name.is_empty()) {
            return Err("an entry of `exec.env` has no `name`".to_owned());
        }
        self.mode().map(drop)
    }

    /// Returns the interactive mode, which older versions of the interface may omit.
    fn mode(&self) -> Result<Interaction, String> {
        let expected = "expected Never, IfAvailable or Always";
        match self.interactive_mode.as_str() {
            "Never" => Ok(Interaction::Never),
            "IfAvailable" => Ok(Interaction::IfAvailable),
            "Always" => Ok(Interaction::Always),
            "" if self.api_version != VERSIONS[0] => Ok(Interaction::IfAvailable),
            "" => Err(format!("`exec` has no `interactiveMode`; {expected}")),
            mode => Err(format!("`exec.interactiveMode` is \"{mode}\"; {expected}")),
        }
    }
}

/// Returns the token of an auth provider that client-go still supports. The outer error is about the provider, the inner one about the token.
fn provided(provider: &AuthProvider) -> Result<Result<String, String>, String> {
    let hint = "use a credential plugin in `exec`";
    match provider.name.as_str() {
        "oidc" => Ok(id_token(provider)),
        "gcp" => Err(format!(
            "the `auth-provider` gcp has been removed from Kubernetes clients: {hint}, gke-gcloud-auth-plugin"
        )),
        "azure" => Err(format!(
            "the `auth-provider` azure has been removed from Kubernetes clients: {hint}, kubelogin"
        )),
        name => Err(format!("the `auth-provider` \"{name}\" is not known: {hint}")),
    }
}

fn id_token(provider: &AuthProvider) -> Result<String, String> {
    let hint = "log in again, or use a credential plugin in `exec` that does so, such as kubelogin";
    let token = provider.config.get("id-token");
    let token = token.filter(|it| !it.is_empty());
    let token = token.ok_or_else(|| format!("the `auth-provider` oidc has no id-token: {hint}"))?;
    let claims = token.split('.').nth(1).and_then(|claims| {
        let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
        serde_json::from_slice::<Value>(&claims).ok()
    });
    let expires = claims.and_then(|it| it["exp"].as_f64());
    let expires = expires.ok_or_else(|| format!("the id-token of oidc is not a valid token: {hint}"))?;
    let now = Timestamp::now().as_second();
    #[expect(clippy::cast_precision_loss, reason = "seconds are far below 2^53")]
    if expires < now as f64 {
        return Err(format!("the id-token of oidc has expired: {hint}"));
    }
    Ok(token.clone())
}

/// Escapes a key as client-go does: characters that a header name cannot contain, and the percent sign.
fn escaped_key(key: &str) -> String {
    let mut escaped = String::new();
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

fn text(value: &str) -> Option<String> {
    Some(value).filter(|it| !it.is_empty()).map(str::to_owned)
}

fn read(field: &str, path: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("`{field}`: {path} cannot be read: {error}"))
}

fn open(field: &str, path: &str) -> Result<(), String> {
    let opened = std::fs::File::open(Path::new(path));
    opened.map(drop).map_err(|error| format!("`{field}`: {path} cannot be read: {error}"))
}
