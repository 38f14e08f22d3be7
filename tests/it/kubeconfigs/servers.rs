//! Local servers and proxies that answer every request with 403, and record the requests with their route and credentials.
//!
//! This module must not depend on kubeconfigs.

mod connection;
mod keys;

use std::collections::BTreeMap;
use std::net::TcpListener as Listener;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopf_rs_tests::runtime;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use connection::{Connection, Role};
use keys::Keys;

/// The servers, which run until the process ends.
pub(super) struct Servers {
    keys: Arc<Keys>,
    ports: BTreeMap<&'static str, u16>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Servers {
    pub(super) fn start() -> Self {
        let keys = Arc::new(Keys::generate());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut listeners = Vec::new();
        let mut ports = BTreeMap::new();
        let roles = [
            ("tls", Role::Server, Some(&keys.good)),
            ("selfsigned", Role::Server, Some(&keys.selfsigned)),
            ("expired", Role::Server, Some(&keys.expired)),
            ("plain", Role::Server, None),
            ("proxy", Role::Proxy, None),
            ("secure-proxy", Role::Proxy, Some(&keys.good)),
            ("socks", Role::Socks, None),
        ];
        for (name, role, pair) in roles {
            let listener = Listener::bind("127.0.0.1:0").expect("there is a free port");
            listener.set_nonblocking(true).expect("it need not block");
            let port = listener.local_addr().expect("it has an address").port();
            ports.insert(name, port);
            let connection = Connection {
                name,
                role,
                tls: pair.map(|pair| TlsAcceptor::from(pair.config())),
                behind: TlsAcceptor::from(keys.good.config()),
                seen: seen.clone(),
                keys: keys.clone(),
            };
            listeners.push((listener, connection));
        }
        std::thread::spawn(move || {
            runtime().block_on(async move {
                for (listener, connection) in listeners {
                    let listener = TcpListener::from_std(listener).expect("a runtime");
                    tokio::spawn(connection.serve(listener));
                }
                std::future::pending::<()>().await;
            });
        });
        Self { keys, ports, seen }
    }

    /// Returns the requests since the last call.
    pub(super) fn seen(&self) -> Vec<String> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = std::mem::take(&mut *seen);
        // Retries count once.
        let mut known = std::collections::BTreeSet::new();
        lines.retain(|line| known.insert(line.clone()));
        lines
    }

    /// Returns the files that kubeconfigs refer to.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        let Keys { authority, client, other, selfsigned, .. } = &*self.keys;
        [
            ("ca.crt", authority.as_str()),
            ("selfsigned.crt", &selfsigned.certificate),
            ("client.crt", &client.certificate),
            ("client.key", &client.key),
            ("other.key", &other.key),
            ("p521.crt", include_str!("../../kubeconfigs/p521.crt")),
            ("p521.key", include_str!("../../kubeconfigs/p521.key")),
            ("p521-sec1.key", include_str!("../../kubeconfigs/p521-sec1.key")),
        ]
        .into_iter()
    }

    /// Replaces the placeholders in a text by ports, paths and keys.
    pub(super) fn fill(&self, text: &str, folder: &Path) -> String {
        let packed = |text: &str| STANDARD.encode(text);
        let client = &self.keys.client;
        let broken = packed(&client.certificate);
        let broken = broken.as_bytes().chunks(60).map(String::from_utf8_lossy);
        let broken = broken.collect::<Vec<_>>().join("\\n");
        let mut filled = text.to_owned();
        for (name, value) in [
            ("folder", folder.display().to_string()),
            ("ca", packed(&self.keys.authority)),
            ("client", packed(&client.certificate)),
            ("client-broken", broken),
            ("client-key", packed(&client.key)),
        ] {
            filled = filled.replace(&format!("%{name}%"), &value);
        }
        for (name, port) in &self.ports {
            filled = filled.replace(&format!("%{name}%"), &port.to_string());
        }
        filled
    }

    /// Replaces ports and paths in a text by placeholders.
    pub(super) fn unfill(&self, text: &str, folder: &Path) -> String {
        let mut bare = text.replace(&folder.display().to_string(), "%folder%");
        for (name, port) in &self.ports {
            bare = bare.replace(&port.to_string(), &format!("%{name}%"));
        }
        bare
    }
}
