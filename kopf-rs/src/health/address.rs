//! The liveness URL: the address on which the operator listens, and the path for probes.

use std::fmt;
use std::io::ErrorKind;
use std::net::{TcpListener, ToSocketAddrs};

/// The paths of the operator's built-in endpoints.
pub(crate) const OWN_PATHS: [&str; 4] = ["/livez", "/readyz", "/readyz/webhooks", "/statusz"];

/// A parsed liveness URL. Displays as the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The endpoint's purpose, for messages.
    noun: &'static str,
    is_tls: bool,
    host: String,
    port: u16,
    pub(crate) path: String,
}

/// The error for an invalid liveness URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the liveness URL `{url}` cannot be used: {problem}; expected http://HOST:PORT/PATH, such as http://0.0.0.0:8080/healthz"
)]
pub struct BadLiveness {
    url: String,
    problem: String,
}

/// The path of the metrics.
#[cfg(feature = "metrics")]
pub(crate) const METRICS: &str = "/metrics";

/// The error for an invalid metrics address.
#[cfg(feature = "metrics")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the metrics address `{address}` cannot be used: {problem}; expected HOST:PORT, such as 0.0.0.0:9090 or [::1]:9090, or https://HOST:PORT for TLS"
)]
pub struct BadMetricsAddress {
    address: String,
    problem: String,
}

impl Address {
    /// Parses a URL by Kopf's rules: the host defaults to `localhost`, and the port to 80.
    pub(crate) fn parse(url: &str) -> Result<Self, BadLiveness> {
        Self::read(url).map_err(|problem| BadLiveness { url: url.to_owned(), problem })
    }

    fn read(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or("it has no scheme")?;
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(format!("its scheme is `{scheme}`, and only http is served"));
        }
        if rest.contains(['?', '#', '@']) || rest.contains(char::is_whitespace) {
            return Err("only a host, a port and a path can be served".to_owned());
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        if OWN_PATHS.contains(&path) {
            return Err(format!("{path} is answered by the operator itself"));
        }
        let (host, port) = host_and_port(authority)?;
        Ok(Self {
            noun: "liveness",
            is_tls: false,
            host: if host.is_empty() { "localhost" } else { host }.to_owned(),
            port,
            path: path.to_owned(),
        })
    }

    /// Parses the address of the metrics, as `HOST:PORT` or as the whole URL, on one or all addresses of this machine.
    #[cfg(feature = "metrics")]
    pub(crate) fn of_metrics(text: &str) -> Result<Self, BadMetricsAddress> {
        let refused = |problem: String| BadMetricsAddress { address: text.to_owned(), problem };
        let secured = text.strip_prefix("https://");
        let is_tls = secured.is_some();
        let place = secured.or_else(|| text.strip_prefix("http://")).unwrap_or(text);
        let place = place.strip_suffix(METRICS).unwrap_or(place);
        if place.contains(['/', '?', '#', '@']) || place.contains(char::is_whitespace) {
            return Err(refused("only a host and a port can be given".to_owned()));
        }
        if !place.trim_end_matches(']').contains(':') || place.ends_with(']') {
            return Err(refused("it has no port".to_owned()));
        }
        let (host, port) = host_and_port(place).map_err(refused)?;
        Ok(Self {
            noun: "metrics",
            is_tls,
            host: if host.is_empty() { "localhost" } else { host }.to_owned(),
            port,
            path: METRICS.to_owned(),
        })
    }

    /// Returns the address of the web page: no other host than this machine.
    #[cfg(feature = "web")]
    pub(crate) fn of_web(port: u16) -> Self {
        Self { noun: "web", host: "127.0.0.1".to_owned(), port, path: "/".to_owned(), is_tls: false }
    }

    /// Returns whether clients connect over TLS.
    #[cfg(any(feature = "metrics", feature = "cli", test))]
    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls
    }

    #[cfg(any(feature = "cli", test))]
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the host, without brackets.
    #[cfg(feature = "metrics")]
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns true if one listener can serve both: they have the same host and port, and neither or both of them TLS.
    #[cfg(feature = "metrics")]
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        let place = |it: &Self| (it.is_tls, it.host.clone(), it.port);
        self.port != 0 && place(self) == place(other)
    }

    /// Listens on all addresses of the host. The error describes the remedy.
    pub(crate) fn bind(&self) -> Result<Vec<TcpListener>, String> {
        let failed = |error: &std::io::Error| {
            let hint = match error.kind() {
                ErrorKind::AddrInUse => {
                    ": another program listens there, or another operator; choose another port"
                }
                ErrorKind::PermissionDenied => ": choose a port above 1023",
                _ => "",
            };
            let noun = self.noun;
            format!("the {noun} endpoint {self} cannot be served: {error}{hint}")
        };
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let mut sockets = Vec::new();
        let mut first_error = None;
        for address in found.map_err(|error| failed(&error))? {
            let bound =
                TcpListener::bind(address).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
            match bound {
                Ok(socket) => sockets.push(socket),
                // A host may have an address of a family that this machine lacks.
                Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(failed(&error)),
                Err(error) => first_error = first_error.or(Some(error)),
            }
            if self.port == 0 && !sockets.is_empty() {
                // Each further socket would get a different port.
                break;
            }
        }
        match first_error {
            Some(error) if sockets.is_empty() => Err(failed(&error)),
            _ => Ok(sockets),
        }
    }

    pub(crate) fn noun(&self) -> &'static str {
        self.noun
    }

    /// Returns the address with the actual port if the system has chosen it.
    pub(crate) fn chosen(&self, sockets: &[TcpListener]) -> Self {
        let chosen = sockets.first().and_then(|it| it.local_addr().ok());
        Self { port: chosen.map_or(self.port, |it| it.port()), ..self.clone() }
    }
}

fn host_and_port(authority: &str) -> Result<(&str, u16), String> {
    // An IPv6 address contains colons and is therefore in brackets.
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("its bracket is not closed")?;
            (host, port.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = match port {
        None | Some("") => 80,
        Some(port) => {
            port.parse().map_err(|_| format!("`{port}` is no port: expected a number up to 65535"))?
        }
    };
    Ok((host, port))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, path, .. } = self;
        let scheme = if self.is_tls { "https" } else { "http" };
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]:{port}{path}")
        } else {
            write!(f, "{scheme}://{host}:{port}{path}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_kopf_reads_them() {
        for (url, read) in [
            ("http://0.0.0.0:8080/healthz", "http://0.0.0.0:8080/healthz"),
            ("http://:8080/healthz", "http://localhost:8080/healthz"),
            ("HTTP://example.com", "http://example.com:80/"),
            ("http://[::1]:8080/a/b", "http://[::1]:8080/a/b"),
            ("http://[::]", "http://[::]:80/"),
            ("http:///x", "http://localhost:80/x"),
        ] {
            let address = Address::parse(url).map(|it| it.to_string());
            assert_eq!(address.as_deref(), Ok(read), "{url}");
        }
    }

    #[test]
    fn problems_with_a_url_are_named() {
        for (url, problem) in [
            ("8080", "it has no scheme"),
            ("https://x/", "its scheme is `https`, and only http is served"),
            ("http://x:many/", "`many` is no port: expected a number up to 65535"),
            ("http://x:65536/", "`65536` is no port: expected a number up to 65535"),
            ("http://x/?a=b", "only a host, a port and a path can be served"),
            ("http://[::1", "its bracket is not closed"),
            ("http://x/livez", "/livez is answered by the operator itself"),
        ] {
            let error = Address::parse(url).expect_err(url);
            assert_eq!(error.problem, problem, "{url}");
            assert!(error.to_string().contains("expected http://HOST:PORT/PATH"));
        }
    }

    #[cfg(feature = "metrics")]
    #[test]
    fn addresses_of_metrics_are_hosts_and_ports() {
        for (text, read) in [
            ("0.0.0.0:9090", "http://0.0.0.0:9090/metrics"),
            (":9090", "http://localhost:9090/metrics"),
            ("[::1]:0", "http://[::1]:0/metrics"),
            ("http://127.0.0.1:1/metrics", "http://127.0.0.1:1/metrics"),
            ("https://:9443", "https://localhost:9443/metrics"),
        ] {
            let address = Address::of_metrics(text).map(|it| it.to_string());
            assert_eq!(address.as_deref(), Ok(read), "{text}");
        }
        for (text, problem) in [
            ("9090", "it has no port"),
            ("[::1]", "it has no port"),
            ("", "it has no port"),
            ("x:many", "`many` is no port: expected a number up to 65535"),
            ("x:1/y", "only a host and a port can be given"),
            ("ftp://x:1", "only a host and a port can be given"),
        ] {
            let error = Address::of_metrics(text).expect_err(text);
            assert_eq!(error.problem, problem, "{text}");
        }
    }

    #[test]
    fn a_port_in_use_is_reported() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let address = Address::parse(&format!("http://127.0.0.1:{port}/healthz")).unwrap();
        let error = address.bind().unwrap_err();
        assert!(error.contains("another program listens there"), "{error}");
        let any = Address::parse("http://127.0.0.1:0/healthz").unwrap();
        let sockets = any.bind().unwrap();
        assert_ne!(any.chosen(&sockets).port, 0);
    }
}
