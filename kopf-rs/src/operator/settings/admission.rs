//! Settings of admission webhooks: their address, their certificate, and the management of their configurations.
//!
//! Must not know the component that serves them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::admission::configuration::ClientConfig;

/// The address at which the API server reaches the admission handlers of an operator.
///
/// In a file or a variable: `auto`, `local`, `k3d`, `minikube`, `docker-desktop`, `host:NAME`, `https://HOST:PORT/PATH`, `tunnel:COMMAND` or
/// `service:NAMESPACE/NAME:PORT`.
///
/// ```
/// use kopf_rs::{AdmissionServer, Settings};
///
/// let settings = Settings::with(|settings| {
///     settings.admission.server = Some(AdmissionServer::service("team", "my-operator"));
///     settings.admission.managed = Some("my-operator.example.com".to_owned());
/// });
/// # assert_eq!(settings.admission.server.unwrap().to_string(), "service:team/my-operator:443");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmissionServer {
    /// As the local cluster reaches the operator's machine: the operator detects k3d, kind, minikube, Docker Desktop, and an API server on its
    /// machine by the first node, which it must be allowed to `list`.
    Detected,
    /// By this name of the operator's machine, at the port on which the operator listens.
    Host(String),
    /// By this URL, `https://HOST:PORT/PATH`, for example through a tunnel.
    Url(String),
    /// Through a tunnel, which this command of the shell opens and keeps: it gets the port of the operator's endpoint, which speaks TLS, as
    /// `$PORT`, and prints the tunnel's URL (`https://HOST/PATH`) on standard output. The tunnel presents a certificate of its own, which the
    /// API server's machine trusts. The operator ends when the command does.
    Tunnel(String),
    /// Through a Service in the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The port of the Service, which maps to that of the operator.
        port: u16,
    },
}

/// The port at which an operator behind a Service listens.
const PORT_OF_PODS: u16 = 9443;

const LOCAL: &str = "localhost";

/// The word for a detected cluster.
const AUTO: &str = "auto";

/// The names that machines have in the networks of local clusters.
const HOSTS: [(&str, &str); 4] = [
    ("local", LOCAL),
    ("k3d", "host.k3d.internal"),
    ("minikube", "host.minikube.internal"),
    ("docker-desktop", "host.docker.internal"),
];

impl AdmissionServer {
    /// Returns the address for an API server on this machine.
    #[must_use]
    pub fn local() -> Self {
        Self::Host(LOCAL.to_owned())
    }

    /// Returns the address for a k3d cluster on this machine.
    #[must_use]
    pub fn k3d() -> Self {
        Self::Host("host.k3d.internal".to_owned())
    }

    /// Returns the address for a minikube cluster on this machine.
    #[must_use]
    pub fn minikube() -> Self {
        Self::Host("host.minikube.internal".to_owned())
    }

    /// Returns the address for the Docker Desktop cluster on this machine.
    #[must_use]
    pub fn docker_desktop() -> Self {
        Self::Host("host.docker.internal".to_owned())
    }

    /// Returns the address for an operator in the cluster: through port 443 of this Service.
    #[must_use]
    pub fn service(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self::Service { namespace: namespace.into(), name: name.into(), port: 443 }
    }

    /// Parses the form in a file or a variable; `None` if it is invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some((_, host)) = HOSTS.iter().find(|(name, _)| *name == text) {
            return Some(Self::Host((*host).to_owned()));
        }
        if text == AUTO {
            return Some(Self::Detected);
        }
        if let Some(command) = text.strip_prefix("tunnel:") {
            return Some(Self::Tunnel(command.trim().to_owned())).filter(Self::is_clear);
        }
        let host = text.strip_prefix("host:").map(str::to_owned);
        if let Some(host) = host {
            return Some(Self::Host(host)).filter(Self::is_clear);
        }
        if let Some(service) = text.strip_prefix("service:") {
            let (namespace, rest) = service.split_once('/')?;
            let (name, port) = match rest.split_once(':') {
                Some((name, port)) => (name, port.parse().ok()?),
                None => (rest, 443),
            };
            let service = Self::Service { namespace: namespace.to_owned(), name: name.to_owned(), port };
            return Some(service).filter(Self::is_clear);
        }
        Some(Self::Url(text.to_owned())).filter(Self::is_clear)
    }

    fn is_clear(&self) -> bool {
        match self {
            Self::Detected => true,
            Self::Tunnel(command) => !command.is_empty(),
            Self::Host(host) => !host.is_empty() && !host.contains(['/', ' ']),
            Self::Service { namespace, name, port } => {
                let is_name =
                    |it: &str| !it.is_empty() && it.chars().all(|it| it.is_ascii_alphanumeric() || it == '-');
                is_name(namespace) && is_name(name) && *port > 0
            }
            Self::Url(_) => self.url_parts().is_some(),
        }
    }

    /// Returns the host, the port and the path of the URL, which must have no other parts.
    fn url_parts(&self) -> Option<(String, u16, String)> {
        let Self::Url(url) = self else {
            return None;
        };
        let uri: http::Uri = url.parse().ok()?;
        let authority = uri.authority()?;
        let is_plain = uri.scheme_str() == Some("https")
            && uri.query().is_none()
            && !url.contains('#')
            && !authority.as_str().contains('@');
        let host = authority.host().trim_matches(['[', ']']);
        let path = uri.path().trim_end_matches('/');
        let port = match authority.port_u16() {
            Some(port) => port,
            None if authority.as_str() == authority.host() => 443,
            None => return None,
        };
        is_plain.then(|| (host.to_owned(), port, path.to_owned()))
    }

    /// Returns the problem if the address cannot be used.
    pub(crate) fn problem(&self) -> Option<String> {
        (!self.is_clear()).then(|| format!("the admission server `{self}` cannot be used: {EXPECTED}"))
    }

    /// Returns the default address to listen on.
    pub(crate) fn default_address(&self) -> SocketAddr {
        // On Linux, this accepts addresses of both families.
        let any = IpAddr::from([0u16; 8]);
        match self {
            Self::Host(host) if host == LOCAL => (IpAddr::from([127, 0, 0, 1]), 0).into(),
            // The command runs on this machine.
            Self::Tunnel(_) => (IpAddr::from([127, 0, 0, 1]), 0).into(),
            Self::Host(_) | Self::Detected => (any, 0).into(),
            Self::Url(_) => {
                let port = self.url_parts().map_or(0, |(_, port, _)| port);
                (any, port).into()
            }
            Self::Service { .. } => (any, PORT_OF_PODS).into(),
        }
    }

    /// Returns the client configuration for the API server, for an endpoint at this port.
    pub(crate) fn client_config(&self, port: u16) -> ClientConfig {
        match self {
            Self::Host(host) if host.contains(':') => ClientConfig::Url(format!("https://[{host}]:{port}")),
            Self::Host(host) => ClientConfig::Url(format!("https://{host}:{port}")),
            Self::Url(url) => ClientConfig::Url(url.clone()),
            // Resolved before anything is configured.
            Self::Detected | Self::Tunnel(_) => ClientConfig::Url(format!("https://{LOCAL}:{port}")),
            Self::Service { namespace, name, port } => {
                ClientConfig::Service { namespace: namespace.clone(), name: name.clone(), port: *port }
            }
        }
    }

    /// Returns the prefix of the paths of requests.
    pub(crate) fn root(&self) -> String {
        self.url_parts().map_or_else(String::new, |(_, _, path)| path)
    }

    /// Returns the names and addresses for which a certificate must be valid.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = match self {
            Self::Detected | Self::Tunnel(_) => vec![LOCAL, "127.0.0.1", "::1"],
            Self::Host(host) if host == LOCAL => vec![LOCAL, "127.0.0.1", "::1"],
            Self::Host(host) => vec![host.as_str()],
            Self::Url(_) => {
                return self.url_parts().map(|(host, _, _)| host).into_iter().collect();
            }
            Self::Service { namespace, name, .. } => {
                let full = format!("{name}.{namespace}.svc");
                return vec![
                    format!("{full}.cluster.local"),
                    full,
                    format!("{name}.{namespace}"),
                    name.clone(),
                ];
            }
        };
        names.into_iter().map(str::to_owned).collect()
    }

    /// Returns the namespace of the Service.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Service { namespace, .. } => Some(namespace),
            Self::Host(_) | Self::Url(_) | Self::Detected | Self::Tunnel(_) => None,
        }
    }
}

pub(crate) const EXPECTED: &str = "expected auto, local, k3d, minikube, docker-desktop, host:NAME, https://HOST:PORT/PATH, \
                                   tunnel:COMMAND or service:NAMESPACE/NAME:PORT";

impl fmt::Display for AdmissionServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => {
                let known = HOSTS.iter().find(|(_, name)| name == host);
                match known {
                    Some((word, _)) => f.write_str(word),
                    None => write!(f, "host:{host}"),
                }
            }
            Self::Url(url) => f.write_str(url),
            Self::Detected => f.write_str(AUTO),
            Self::Tunnel(command) => write!(f, "tunnel:{command}"),
            Self::Service { namespace, name, port } => write!(f, "service:{namespace}/{name}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_they_are_shown() {
        for text in [
            "auto",
            "tunnel:ngrok http https://localhost:$PORT",
            "local",
            "k3d",
            "minikube",
            "docker-desktop",
            "host:10.0.0.7",
            "host:fd00::7",
            "https://hooks.example.com/team",
            "https://[::1]:9443",
            "service:team/hooks:8443",
        ] {
            let read = AdmissionServer::parse(text);
            assert_eq!(read.unwrap().to_string(), text);
        }
        for text in [
            "",
            "remote",
            "http://a:1",
            "https://u@a:1",
            "https://a:99999",
            "https://a:1?b",
            "https://a#b",
            "service:hooks",
            "service:a/b:0",
            "service:a/b.c",
            "host:",
            "tunnel: ",
        ] {
            assert_eq!(AdmissionServer::parse(text), None, "{text}");
        }
        let wrong = AdmissionServer::Url("http://a".to_owned());
        let problem = wrong.problem().unwrap();
        assert!(problem.starts_with("the admission server `http://a` cannot be used: expected auto, local"));
    }

    #[test]
    fn each_server_has_its_address_and_its_names() {
        let of = |text: &str| AdmissionServer::parse(text).unwrap();
        let url = |text: &str| ClientConfig::Url(text.to_owned());
        assert_eq!(of("local").default_address().to_string(), "127.0.0.1:0");
        assert_eq!(of("local").names(), ["localhost", "127.0.0.1", "::1"]);
        assert_eq!(of("local").client_config(7), url("https://localhost:7"));
        assert_eq!(of("k3d").client_config(7), url("https://host.k3d.internal:7"));
        assert_eq!(of("host:::1").client_config(7), url("https://[::1]:7"));
        let hooks = of("https://[::1]:8443/a/");
        assert_eq!(hooks.names(), ["::1"]);
        assert_eq!(hooks.default_address().port(), 8443);
        assert_eq!((hooks.root().as_str(), of("local").root().as_str()), ("/a", ""));
        let service = of("service:team/hooks");
        assert_eq!(service.default_address().port(), 9443);
        assert!(service.names().contains(&"hooks.team.svc".to_owned()));
    }
}
