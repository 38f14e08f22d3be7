//! Chooses the proxy between this process and the server by the rules of Go's clients, so that settings for kubectl work here, too.
//!
//! `proxy-url` of the kubeconfig takes precedence and applies to every server. Otherwise `HTTPS_PROXY`, `HTTP_PROXY`
//! and `NO_PROXY` apply, or their lower-case forms if these are empty, but never for a server on this machine.
//! `ALL_PROXY` is ignored. This module must not depend on the protocol of a proxy.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use http::uri::{PathAndQuery, Scheme};
use ipnet::IpNet;

use crate::cluster::server_url::{Login, parted, port_of};

/// The source of the proxy configuration.
#[derive(Clone, Debug)]
pub(in crate::cluster) enum ProxyChoice {
    /// The proxy of the kubeconfig or of a login handler.
    Url(ProxyUrl),
    /// The proxy of the environment variables.
    Environment,
    None,
}

/// The address of a proxy. Displays without the password.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::cluster) struct ProxyUrl {
    pub(in crate::cluster) kind: ProxyKind,
    /// The address of the proxy itself, with its port and without its user.
    pub(in crate::cluster) address: Uri,
    pub(in crate::cluster) login: Option<Login>,
}

/// The protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum ProxyKind {
    /// HTTP, over TCP or TLS depending on the URL.
    Http,
    /// SOCKS 5; the proxy resolves the name of the server.
    Socks,
}

/// The environment variables that configure proxies.
#[derive(Debug, Default)]
pub(in crate::cluster) struct ProxyVariables {
    http: String,
    https: String,
    except: String,
    is_cgi: bool,
}

// === impl ProxyUrl ===

impl ProxyUrl {
    /// Parses `proxy-url` of a kubeconfig. The error names the expected form, and contains no password.
    pub(in crate::cluster) fn parse(url: &str) -> Result<Self, String> {
        let expected = "expected http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT";
        let Some((scheme, _)) = url.split_once("://") else {
            return Err(format!("it has no scheme; {expected}"));
        };
        let kind = match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => ProxyKind::Http,
            "socks5" | "socks5h" => ProxyKind::Socks,
            scheme => return Err(format!("its scheme is \"{scheme}\"; {expected}")),
        };
        let wrong = |why| format!("{why}; {expected}");
        let (url, login) = parted(url).map_err(wrong)?;
        let port = port_of(&url)?.unwrap_or(match (kind, url.scheme_str()) {
            (ProxyKind::Socks, _) => 1080,
            (_, Some("https")) => 443,
            _ => 80,
        });
        let host = url.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| wrong("it has no host".to_owned()))?;
        let authority = format!("{host}:{port}");
        let mut parts = url.clone().into_parts();
        let authority = authority.parse();
        parts.authority = Some(authority.map_err(|_| wrong("its host is not valid".to_owned()))?);
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
        let address = Uri::from_parts(parts);
        let address = address.map_err(|_| wrong("it is not valid".to_owned()))?;
        Ok(Self { kind, address, login })
    }

    /// Parses the value of a variable, in which the scheme may be missing.
    fn of_variable(value: &str) -> Result<Option<Self>, String> {
        match value {
            "" => Ok(None),
            value if value.contains("://") => Self::parse(value).map(Some),
            value => Self::parse(&format!("http://{value}")).map(Some),
        }
    }
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl ProxyChoice ===

impl ProxyChoice {
    /// Returns the proxy in front of this server. The error describes the mistake in the proxy's configuration.
    pub(in crate::cluster) fn before(&self, server: &Uri) -> Result<Option<ProxyUrl>, String> {
        match self {
            Self::None => Ok(None),
            Self::Url(url) => Ok(Some(url.clone())),
            Self::Environment => ProxyVariables::here().before(server),
        }
    }
}

// === impl ProxyVariables ===

impl ProxyVariables {
    fn here() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&str; 2]| {
            let mut values = names.into_iter().filter_map(&variable);
            values.find(|it| !it.is_empty()).unwrap_or_default()
        };
        Self {
            http: first(["HTTP_PROXY", "http_proxy"]),
            https: first(["HTTPS_PROXY", "https_proxy"]),
            except: first(["NO_PROXY", "no_proxy"]),
            is_cgi: variable("REQUEST_METHOD").is_some_and(|it| !it.is_empty()),
        }
    }

    fn before(&self, server: &Uri) -> Result<Option<ProxyUrl>, String> {
        let is_https = server.scheme() == Some(&Scheme::HTTPS);
        let (name, value) = if is_https { ("HTTPS_PROXY", &self.https) } else { ("HTTP_PROXY", &self.http) };
        let port = server.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        if value.is_empty() || self.excepts(server.host().unwrap_or_default(), port) {
            return Ok(None);
        }
        if !is_https && self.is_cgi {
            return Err(
                "$HTTP_PROXY is not used where $REQUEST_METHOD is set, because a web server may have made it of a request's header `Proxy`: unset one of them"
                    .to_owned(),
            );
        }
        let proxy = ProxyUrl::of_variable(value);
        proxy.map_err(|why| {
            format!(
                "the proxy in ${name} cannot be used: {why}; or name the server in $NO_PROXY if it needs none"
            )
        })
    }

    /// Returns true if the server is reached without a proxy.
    fn excepts(&self, host: &str, port: u16) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let ip: Option<IpAddr> = host.parse().ok();
        let ip = ip.map(|ip| ip.to_canonical());
        if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
            return true;
        }
        let host = host.to_lowercase();
        let entries = self.except.split(',');
        let mut entries = entries.map(|entry| entry.trim().to_lowercase());
        entries.any(|entry| entry == "*" || names(&entry, &host, ip, port))
    }
}

/// Returns true if an entry of `NO_PROXY` matches the server. Entries are `IP`, `IP/BITS`, `DOMAIN` including its subdomains, and `.DOMAIN`
/// or `*.DOMAIN` for the subdomains only. All but a range may have a `:PORT`.
fn names(entry: &str, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
    if let Ok(range) = entry.parse::<IpNet>() {
        return ip.is_some_and(|ip| range.contains(&ip));
    }
    let (name, entry_port) = host_and_port(entry);
    if !entry_port.is_empty() && entry_port != port.to_string() {
        return false;
    }
    if let Ok(address) = name.parse::<IpAddr>() {
        return ip == Some(address.to_canonical());
    }
    if ip.is_some() || name.is_empty() {
        return false;
    }
    let name = name.strip_prefix('*').filter(|it| it.starts_with('.')).unwrap_or(name);
    match name.strip_prefix('.') {
        Some(_) => host.ends_with(name),
        None => host == name || host.strip_suffix(name).is_some_and(|it| it.ends_with('.')),
    }
}

/// Splits `HOST:PORT` and `[IP]:PORT`; everything else is a host.
fn host_and_port(entry: &str) -> (&str, &str) {
    match entry.rsplit_once(':') {
        Some((host, port)) if host.starts_with('[') && host.ends_with(']') => {
            (&host[1..host.len() - 1], port)
        }
        Some((host, port)) if !host.contains(':') => (host, port),
        _ => (entry, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excepts(except: &str, host: &str, port: u16) -> bool {
        let variables = ProxyVariables { except: except.to_owned(), ..ProxyVariables::default() };
        variables.excepts(host, port)
    }

    #[test]
    fn no_proxy_is_read_as_by_go() {
        for (except, host, port, is_excepted) in [
            ("example.com", "example.com", 443, true),
            ("example.com", "api.example.com", 443, true),
            ("example.com", "badexample.com", 443, false),
            (".example.com", "example.com", 443, false),
            (".example.com", "api.example.com", 443, true),
            ("*.example.com", "example.com", 443, false),
            ("*.example.com", "api.example.com", 443, true),
            ("EXAMPLE.com", "api.Example.COM", 443, true),
            ("example.com:6443", "example.com", 6443, true),
            ("example.com:6443", "example.com", 443, false),
            (" a.b , example.com", "example.com", 443, true),
            ("10.0.0.0/8", "10.1.2.3", 443, true),
            ("10.0.0.0/8", "11.1.2.3", 443, false),
            ("10.1.2.3", "10.1.2.3", 443, true),
            ("10.1.2.3:6443", "10.1.2.3", 6443, true),
            ("10.1.2.3:6443", "10.1.2.3", 443, false),
            ("fd00::/8", "[fd00::1]", 443, true),
            ("[fd00::1]:6443", "[fd00::1]", 6443, true),
            ("fd00::1", "[fd00::1]", 6443, true),
            ("*", "example.com", 443, true),
            ("", "example.com", 443, false),
            (":443,,", "example.com", 443, false),
            ("", "localhost", 443, true),
            ("", "127.0.0.2", 443, true),
            ("", "[::1]", 443, true),
        ] {
            let case = format!("NO_PROXY={except} {host}:{port}");
            assert_eq!(excepts(except, host, port), is_excepted, "{case}");
        }
    }

    #[test]
    fn proxies_are_distinguished_without_their_password() {
        for (url, expected) in [
            ("http://me:secret@a:1", Ok("http://a:1/")),
            ("HTTP://a", Ok("http://a:80/")),
            ("https://a", Ok("https://a:443/")),
            ("socks5://a", Ok("socks5://a:1080/")),
            ("socks5://[::1]:9", Ok("socks5://[::1]:9/")),
            ("a:1", Err("it has no scheme")),
            ("socks4://me:secret@a:1", Err("its scheme is \"socks4\"")),
            ("http://", Err("it is not a valid URL")),
            ("http://me:secret@a:b", Err("its port is b")),
            ("http://a:99999", Err("99999")),
        ] {
            let parsed = ProxyUrl::parse(url).map(|it| it.to_string());
            match expected {
                Ok(expected) => assert_eq!(parsed.as_deref(), Ok(expected)),
                Err(part) => {
                    let error = parsed.expect_err(url);
                    assert!(error.contains(part) && !error.contains("secret"), "{error}");
                }
            }
        }
    }

    #[test]
    fn a_variable_in_small_letters_counts_where_the_other_one_is_empty() {
        let variables = ProxyVariables::of(|name| {
            let value = match name {
                "HTTPS_PROXY" | "NO_PROXY" => "",
                "https_proxy" => "proxy:3128",
                "no_proxy" => "example.com",
                "ALL_PROXY" => "http://never:1",
                _ => return None,
            };
            Some(value.to_owned())
        });
        let before = |server: &str| {
            let proxy = variables.before(&server.parse().unwrap());
            proxy.unwrap().map(|it| it.to_string())
        };
        assert_eq!(before("https://a:1").as_deref(), Some("http://proxy:3128/"));
        assert_eq!(before("https://example.com:1"), None);
        assert_eq!(before("http://a:1"), None);
    }
}
