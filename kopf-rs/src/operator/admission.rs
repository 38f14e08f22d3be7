//! Admission webhooks of an operator: the endpoint, its certificates, and the objects that configure the API server.
//!
//! Decides their order: first the certificate, then the endpoint, then the configuration of the API server; at the end in reverse. Must not
//! know which handlers are called.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::admission::configuration::ClientConfig;
use crate::engine::report::report_of_operator;
use crate::handler::webhook::AdmissionKind;
use crate::happening::webhooks::AdmissionServing;
use crate::operator::admission::definitions::Definition;
use crate::operator::admission::detection::detected;
use crate::operator::admission::driver::Drivers;
use crate::operator::admission::endpoint::{Endpoint, Responder};
use crate::operator::admission::files::{ClientAuthorities, FollowedFiles};
use crate::operator::admission::keeper::Keeper;
use crate::operator::admission::managed::{Configuration, configuration};
use crate::operator::admission::managed_object::{KeptObject, SharedObject};
use crate::operator::admission::migration::StorageMigration;
use crate::operator::admission::publishing::Publishing;
use crate::operator::admission::setup::{AdmissionSetup, addresses, not_served_at};
use crate::operator::admission::sharing::Sharing;
use crate::operator::admission::tunnel::Tunnel;
use crate::operator::settings::admission::AdmissionServer;
use crate::operator::settings::{Admission, named_host};
use crate::rt::task;
use crate::rt::tls::Identity;
use crate::state::naming;

#[cfg(feature = "cli")]
pub(crate) mod cleaning;
mod contest;
mod definitions;
mod detection;
pub(crate) mod driver;
pub(crate) mod endpoint;
pub(super) mod files;
mod keeper;
pub(super) mod making;
mod managed;
mod managed_object;
mod migration;
pub(crate) mod policies;
#[cfg(any(feature = "cli", test))]
pub(crate) mod printed;
mod publishing;
pub(crate) mod setup;
mod sharing;
mod tls;
mod tunnel;

/// Running admission webhooks. Dropping it ends them at once.
pub(crate) struct AdmissionWebhooks {
    endpoint: Endpoint,
    /// Keep the configurations and definitions up to date.
    drivers: Drivers,
    /// Closed once each definition of a converted kind is written, or a retry cannot help.
    unwritten: mpsc::Receiver<Infallible>,
    propagation: Duration,
    /// The certificate generation that all configurations contain, after which the API server can call all webhooks.
    publishing: Arc<Publishing>,
    /// The time for which the endpoint continues to answer after the request to end, if instances of the operator are replaced behind a Service.
    grace: Option<Duration>,
    /// Through which the API server reaches the endpoint, if it needs one.
    tunnel: Option<Tunnel>,
    _certificates: AbortOnDropHandle<()>,
}

/// The time limit for configurations to be written before the operator handles objects.
pub(crate) const CONFIGURED: Duration = Duration::from_secs(10);
/// The longest wait at the end for API servers to notice that webhooks are gone.
const LONGEST_END: Duration = Duration::from_secs(5);

impl AdmissionWebhooks {
    /// Starts to answer, with a certificate. Returns `None` if there is nothing to serve.
    ///
    /// # Errors
    ///
    /// Returns the reason why webhooks cannot be served, and the remedy.
    pub(crate) async fn start(
        setup: Arc<AdmissionSetup>,
        responder: Responder,
    ) -> Result<Option<Self>, String> {
        let admission = &setup.settings.admission;
        let Some(server) = setup.server()? else {
            return Ok(None);
        };
        let server = match server {
            AdmissionServer::Detected => detected(&setup.cluster).await?,
            server => server.clone(),
        };
        let socket = bind(&server, admission)?;
        let port = port_of(&socket)?;
        let publishing = Publishing::new();
        let (identity, certificates) = certificates(&setup, &server, &publishing).await?;
        let (server, client, tunnel) = match &server {
            AdmissionServer::Tunnel(command) => {
                let (tunnel, server) = Tunnel::start(command, port).await?;
                let client = ClientConfig::Tunnel(server.to_string());
                (server, client, Some(tunnel))
            }
            _ => (server.clone(), server.client_config(port), None),
        };
        let demands_certificate = admission.client_authority_file.is_some();
        let endpoint = Endpoint::start(socket, identity, server.root(), demands_certificate, responder);
        let endpoint = endpoint.map_err(|error| error.to_string())?;
        let at = server.to_string();
        report_of_operator(&AdmissionServing::Served { port, at });
        let (unwritten_by, unwritten) = mpsc::channel(1);
        Ok(Some(Self {
            endpoint,
            drivers: drivers(&setup, &client, &publishing, &sharing(&setup, port), &unwritten_by),
            unwritten,
            propagation: admission.propagation.min(LONGEST_END),
            publishing,
            grace: setup.persists().then_some(admission.shutdown_grace),
            tunnel,
            _certificates: certificates,
        }))
    }

    /// Waits until the definitions of converted kinds name this operator, for 10 seconds at most: objects that are read before have the content
    /// of another version, and handlers would take the conversion for a change.
    pub(crate) async fn wait_for_definitions(&mut self) {
        // Fails if a write takes too long. The objects are handled nevertheless, and the log names the obstacle.
        let _ = timeout(CONFIGURED, self.unwritten.recv()).await;
    }

    /// Completes when all webhooks that the operator manages are configured.
    pub(crate) fn are_configured(&self) -> impl Future<Output = ()> + use<> {
        self.publishing.all_published()
    }

    /// Waits until configurations or definitions would do harm or may not be written, or the tunnel ends. Returns the reason.
    pub(crate) async fn failed(&mut self) -> String {
        let Some(tunnel) = &mut self.tunnel else {
            return self.drivers.failed().await;
        };
        tokio::select! {
            failed = self.drivers.failed() => failed,
            ended = tunnel.ended() => ended,
        }
    }

    /// Ends the webhooks. In a cluster, the Service leads to this instance until all nodes know that it is no longer ready, so the endpoint
    /// answers for that long. Elsewhere, the configuration of the API server is removed first, so that it does not call in vain.
    pub(crate) async fn finish(self) {
        let begun = Instant::now();
        self.endpoint.leave();
        let taken = self.drivers.finish().await;
        match self.grace {
            Some(grace) => sleep_until(begun + grace).await,
            None if taken => sleep(self.propagation).await,
            None => {}
        }
        self.endpoint.finish().await;
    }
}

fn bind(server: &AdmissionServer, admission: &Admission) -> Result<TcpListener, String> {
    let addresses = addresses(server, admission)?;
    let socket = TcpListener::bind(&addresses[..]);
    let socket = socket.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    socket.map_err(|error| {
        let shown: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        not_served_at(&shown.join(", "), &error)
    })
}

/// Returns the first certificate, and the task that renews it.
async fn certificates(
    setup: &Arc<AdmissionSetup>,
    server: &AdmissionServer,
    publishing: &Arc<Publishing>,
) -> Result<(Identity, AbortOnDropHandle<()>), String> {
    let admission = &setup.settings.admission;
    match (&admission.certificate_file, &admission.key_file) {
        (None, None) => {}
        (Some(certificate), Some(key)) => {
            let files = (certificate.clone(), key.clone());
            let (files, identity) = FollowedFiles::first(files, setup.clone(), publishing.clone()).await?;
            return Ok((identity, AbortOnDropHandle::new(task::spawn(files.run()))));
        }
        _ => {
            return Err(
                "`settings.admission.certificate_file` and `settings.admission.key_file` belong together: give both, or none"
                    .to_owned(),
            );
        }
    }
    let client_authorities = ClientAuthorities::first(admission.client_authority_file.clone()).await?;
    let keeper = Keeper::new(setup.clone(), server.names(), client_authorities, publishing.clone());
    let (identity, mut driver) = keeper.first().await?;
    let keeping = task::spawn(async move { drop(driver.run().await) });
    Ok((identity, AbortOnDropHandle::new(keeping)))
}

/// Starts to keep everything up to date that the API server must know: definitions of converted kinds, which are only read if the operator does
/// not manage them, the objects of these kinds, and webhook configurations.
fn drivers(
    setup: &Arc<AdmissionSetup>,
    client: &ClientConfig,
    publishing: &Arc<Publishing>,
    sharing: &Sharing,
    unwritten: &mpsc::Sender<Infallible>,
) -> Drivers {
    let admission = &setup.settings.admission;
    let shared = |kept| SharedObject::new(kept, &setup.cluster, sharing.clone());
    let kinds = setup.conversions.kinds();
    let definitions = kinds.iter().map(|kind| Definition {
        kind: kind.clone(),
        client: client.clone(),
        trust: publishing.trust(),
        publisher: admission.managed.is_some().then(|| publishing.publisher()),
        known: setup.definitions.clone(),
        object: shared(KeptObject::definition(&kind.name)),
        missing: None,
        unwritten: admission.managed.is_some().then(|| unwritten.clone()),
    });
    // All publishers must exist before the first one reports.
    let definitions: Vec<_> = definitions.collect();
    let is_asked = !setup.handlers.is_empty() || setup.conversions.is_empty();
    let managed = admission.managed.as_ref().filter(|_| is_asked);
    let configurations = managed.map(|name| {
        [AdmissionKind::Mutate, AdmissionKind::Validate].map(|kind| Configuration {
            setup: setup.clone(),
            found: setup.found.clone(),
            trust: publishing.trust(),
            publisher: publishing.publisher(),
            client: client.clone(),
            kind,
            object: shared(configuration(kind, name)),
            is_ours: false,
        })
    });
    let mut drivers = Drivers::new(&setup.cluster, setup.settings.networking.backoff());
    for definition in definitions {
        drivers.start(definition);
    }
    for configuration in configurations.into_iter().flatten() {
        drivers.start(configuration);
    }
    for kind in kinds.iter().filter(|_| admission.storage_migration) {
        drivers.start(StorageMigration::new(setup.clone(), kind.clone()));
    }
    drivers
}

fn port_of(socket: &TcpListener) -> Result<u16, String> {
    let address = socket.local_addr().map_err(|error| error.to_string())?;
    Ok(address.port())
}

fn sharing(setup: &AdmissionSetup, port: u16) -> Sharing {
    let name = instance_name(port, std::process::id());
    Sharing::new(&naming::prefix(&setup.operator), &name, setup.clock)
}

/// Identifies this instance among those that share configurations. The name of a Pod and the id of its process stay when its containers restart.
/// A port alone does not identify a process on one machine: a later process may get the port of a killed one, and would inherit its age.
fn instance_name(port: u16, process: u32) -> String {
    format!("{}:{port}-{process}", named_host("operator"))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, TcpStream};

    use super::*;

    fn server(text: &str) -> AdmissionServer {
        AdmissionServer::parse(text).unwrap()
    }

    #[test]
    fn what_others_reach_listens_at_addresses_of_both_families() {
        let listening = |text: &str| {
            let found = addresses(&server(text), &Admission::default()).unwrap();
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let hooks = ["[::]:9443", "0.0.0.0:9443"];
        assert_eq!(listening("service:team/hooks"), hooks);
        let hooks = ["[::]:8443", "0.0.0.0:8443"];
        assert_eq!(listening("https://[fd00::7]:8443/a"), hooks);
        assert_eq!(listening("host:fd00::7"), ["[::]:0", "0.0.0.0:0"]);
        assert_eq!(listening("local"), ["127.0.0.1:0"]);
    }

    #[test]
    fn who_gets_the_port_of_a_killed_instance_is_another_one() {
        assert_eq!(instance_name(9443, 7), instance_name(9443, 7));
        assert_ne!(instance_name(9443, 7), instance_name(9443, 8));
        assert_ne!(instance_name(9443, 7), instance_name(9444, 7));
    }

    #[test]
    fn whoever_asks_comes_by_any_family_that_the_host_has() {
        let socket = bind(&server("k3d"), &Admission::default()).unwrap();
        let port = port_of(&socket).unwrap();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let has_ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
        if has_ipv6 {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
        }
    }
}
