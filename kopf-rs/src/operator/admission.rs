//! Admission webhooks of an operator: the endpoint, its certificates, and the objects that configure the API server.
//!
//! Decides their order: first the certificate, then the endpoint, then the configuration of the API server; at the end in reverse. Must not
//! know which handlers are called.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use crate::admission::configuration::{ClientConfig, shared_path};
use crate::cluster::Cluster;
use crate::conversion::graph::Conversions;
use crate::engine::conversion::Definitions;
use crate::engine::report::report_of_operator;
use crate::handler::definition::Handler;
use crate::handler::webhook::AdmissionKind;
use crate::happening::webhooks::AdmissionServing;
use crate::object::resource::Resource;
use crate::operator::admission::definitions::{Definition, DefinitionSetup};
use crate::operator::admission::driver::{Driver, Drivers};
use crate::operator::admission::endpoint::{Endpoint, EndpointSetup, Identity, Responder};
use crate::operator::admission::files::{CertificateFiles, ClientAuthorities, FollowedFiles, Publication};
use crate::operator::admission::keeper::{Keeper, KeeperSetup};
use crate::operator::admission::managed::{Configuration, Found, ManagedSetup};
use crate::operator::admission::managed_object::KeptObject;
use crate::operator::admission::migration::{MigrationSetup, StorageMigration};
use crate::operator::admission::publishing::{Published, Publishing, Trust};
use crate::operator::admission::sharing::Sharing;
use crate::operator::settings::admission::AdmissionServer;
use crate::operator::settings::{Admission, Settings, host_name};
use crate::rt::clock::Clock;
use crate::state::naming;

#[cfg(feature = "cli")]
pub(crate) mod cleaning;
mod contest;
mod definitions;
pub(crate) mod driver;
pub(crate) mod endpoint;
mod files;
mod keeper;
mod making;
pub(crate) mod managed;
mod managed_object;
mod migration;
pub(crate) mod policies;
#[cfg(any(feature = "cli", test))]
pub(crate) mod printed;
mod publishing;
mod sharing;
mod tls;

/// The parts that admission webhooks need.
pub(crate) struct AdmissionSetup<'a> {
    pub(crate) operator: &'a str,
    pub(crate) handlers: Vec<Arc<Handler>>,
    pub(crate) conversions: Arc<Conversions>,
    pub(crate) settings: &'a Settings,
    pub(crate) cluster: Cluster,
    pub(crate) clock: Clock,
    /// The served resources; `None` until discovery has reported them.
    pub(crate) found: watch::Receiver<Option<Found>>,
    /// The operator ends when no work is left, so it must not wait without limit.
    pub(crate) once: bool,
    /// Passes the definitions of converted kinds to the converter.
    pub(crate) definitions: Definitions,
}

/// Running admission webhooks. Dropping it ends them at once.
pub(crate) struct AdmissionWebhooks {
    endpoint: Endpoint,
    /// Keep the configurations and definitions up to date.
    drivers: Drivers,
    propagation: Duration,
    /// The certificate generation that all configurations contain, after which the API server can call all webhooks.
    published: watch::Receiver<Published>,
    /// The time for which the endpoint continues to answer after the request to end, if instances of the operator are replaced behind a Service.
    grace: Option<Duration>,
    _certificates: AbortOnDropHandle<()>,
}

/// The longest wait at the end for API servers to notice that webhooks are gone.
const LONGEST_END: Duration = Duration::from_secs(5);

impl AdmissionWebhooks {
    /// Starts to answer, with a certificate. Returns `None` if there is nothing to serve.
    ///
    /// # Errors
    ///
    /// Returns the reason why webhooks cannot be served, and the remedy.
    pub(crate) async fn start(
        setup: AdmissionSetup<'_>,
        responder: Responder,
    ) -> Result<Option<Self>, String> {
        let admission = &setup.settings.admission;
        let Some(server) = server_of(&setup)? else {
            return Ok(None);
        };
        let socket = bind(server, admission)?;
        let port = port_of(&socket)?;
        let trust = watch::Sender::new(Trust::default());
        let publishing = Publishing::new();
        let trusted = trust.subscribe();
        let (identity, certificates) = certificates(&setup, server, trust, publishing.subscribe()).await?;
        let endpoint = EndpointSetup {
            socket,
            identity,
            root: server.root(),
            demands_certificate: admission.client_authority_file.is_some(),
            responder,
        };
        let endpoint = Endpoint::start(endpoint).map_err(|error| error.to_string())?;
        let at = server.to_string();
        report_of_operator(&AdmissionServing::Served { port, at });
        let persists = persists(&setup, server);
        let client = server.client_config(port);
        let trust = (&trusted, &publishing);
        let drivers = drivers(&setup, &client, trust, &sharing(&setup, port), persists);
        Ok(Some(Self {
            endpoint,
            drivers,
            propagation: admission.propagation.min(LONGEST_END),
            published: publishing.subscribe(),
            grace: persists.then_some(admission.shutdown_grace),
            _certificates: certificates,
        }))
    }

    /// Completes when all webhooks that the operator manages are configured.
    pub(crate) fn are_told(&self) -> impl Future<Output = ()> + use<> {
        let mut published = self.published.clone();
        async move {
            // Fails only if there is no publisher.
            let _ = published.wait_for(Option::is_some).await;
        }
    }

    /// Waits until configurations or definitions would do harm or may not be written. Returns the reason.
    pub(crate) async fn failed(&mut self) -> String {
        self.drivers.failed().await
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

/// Returns the server to start; `None` if none is needed.
fn server_of<'a>(setup: &AdmissionSetup<'a>) -> Result<Option<&'a AdmissionServer>, String> {
    if let Some(problem) = shared_path(&setup.handlers) {
        return Err(problem);
    }
    let admission = &setup.settings.admission;
    match &admission.server {
        None if setup.handlers.is_empty() && setup.conversions.is_empty() => Ok(None),
        None => Err(
            "there are admission handlers or conversions, and nothing says how the API server is to reach them: expected the setting `admission.server`: \
             `local` for an API server on this machine, or `service:NAMESPACE/NAME` for a Service in the cluster; and in `admission.managed` the \
             name of the configurations that the operator is to write. In a settings file (--settings): \
             `admission: {server: local, managed: my-operator.example.com}`; as variables: KOPF_RS_ADMISSION_SERVER and KOPF_RS_ADMISSION_MANAGED; in \
             code: `settings.admission.server = Some(AdmissionServer::local())` and `settings.admission.managed = Some(name)`"
                .to_owned(),
        ),
        Some(server) => match server.problem() {
            Some(problem) => Err(problem),
            None => Ok(Some(server)),
        },
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

/// Returns the addresses to listen on.
fn addresses(server: &AdmissionServer, admission: &Admission) -> Result<Vec<SocketAddr>, String> {
    let Some(listen) = &admission.listen else {
        let address = server.default_address();
        // A host without IPv6 refuses to listen at `::`.
        let is_any = address.ip().is_unspecified();
        let ipv4 = is_any.then(|| (Ipv4Addr::UNSPECIFIED, address.port()).into());
        return Ok([address].into_iter().chain(ipv4).collect());
    };
    let found = listen.to_socket_addrs();
    let found = found.map_err(|error| not_served_at(listen, &error))?;
    Ok(found.collect())
}

fn not_served_at(address: &str, error: &std::io::Error) -> String {
    format!(
        "admission webhooks cannot be served at {address}: {error}; choose another address by `settings.admission.listen`"
    )
}

/// Returns the port of an endpoint that is not started yet.
#[cfg(any(feature = "cli", test))]
fn port_to_be(server: &AdmissionServer, admission: &Admission) -> Result<u16, String> {
    let addresses = addresses(server, admission)?;
    let port = addresses.first().map_or(0, SocketAddr::port);
    match server {
        AdmissionServer::Host(_) if port == 0 => Err(
            "nobody knows yet at which port admission webhooks will be served: set `settings.admission.listen`, such as `0.0.0.0:9443`"
                .to_owned(),
        ),
        _ => Ok(port),
    }
}

/// Returns the first certificate, and the task that renews it.
async fn certificates(
    setup: &AdmissionSetup<'_>,
    server: &AdmissionServer,
    trust: watch::Sender<Trust>,
    published: watch::Receiver<Published>,
) -> Result<(Identity, AbortOnDropHandle<()>), String> {
    let admission = &setup.settings.admission;
    let files = match (&admission.certificate_file, &admission.key_file) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some(CertificateFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            authority: admission.authority_file.clone(),
            client_authority: admission.client_authority_file.clone(),
        }),
        _ => {
            return Err(
                "`settings.admission.certificate_file` and `settings.admission.key_file` belong together: give both, or none"
                    .to_owned(),
            );
        }
    };
    if let Some(files) = files {
        let publication = Publication {
            is_awaited: admission.managed.is_some(),
            published,
            propagation: admission.propagation,
        };
        let (files, identity) = FollowedFiles::first(files, trust, publication).await?;
        let following = AbortOnDropHandle::new(tokio::spawn(files.run()));
        return Ok((identity, following));
    }
    let client_authorities = ClientAuthorities::first(admission.client_authority_file.clone()).await?;
    let keeper = KeeperSetup {
        cluster: setup.cluster.clone(),
        secret: secret_of(setup),
        names: server.names(),
        life: admission.certificate_life,
        propagation: admission.propagation,
        client_authorities,
        clock: setup.clock,
        published,
    };
    let keeper = Keeper::new(keeper, trust);
    let first = keeper.first(setup.once, backoff(setup.settings));
    let (identity, mut driver) = first.await?;
    let keeping = tokio::spawn(async move { drop(driver.run().await) });
    let keeping = AbortOnDropHandle::new(keeping);
    Ok((identity, keeping))
}

/// Starts to keep everything up to date that the API server must know: definitions of converted kinds, which are only read if the operator does
/// not manage them, the objects of these kinds, and webhook configurations.
fn drivers(
    setup: &AdmissionSetup<'_>,
    client: &ClientConfig,
    (trust, publishing): (&watch::Receiver<Trust>, &Arc<Publishing>),
    sharing: &Sharing,
    persists: bool,
) -> Drivers {
    let (admission, cluster) = (&setup.settings.admission, &setup.cluster);
    let backoff = backoff(setup.settings);
    let is_asked = !setup.handlers.is_empty() || setup.conversions.is_empty();
    let server = admission.server.as_ref();
    let managed = admission.managed.as_ref().filter(|_| is_asked);
    let managed = managed.map(|name| ManagedSetup {
        cluster: cluster.clone(),
        handlers: setup.handlers.clone(),
        name: name.clone(),
        client: client.clone(),
        own_namespace: server.and_then(|it| own_namespace(it, cluster)),
        sharing: sharing.clone(),
        persists,
        found: setup.found.clone(),
        trust: trust.clone(),
    });
    let kinds = setup.conversions.kinds();
    let definitions = kinds.iter().map(|kind| DefinitionSetup {
        cluster: cluster.clone(),
        kind: kind.clone(),
        client: client.clone(),
        trust: trust.clone(),
        publisher: admission.managed.is_some().then(|| publishing.publisher()),
        known: setup.definitions.clone(),
        sharing: sharing.clone(),
    });
    // All publishers must exist before the first one reports.
    let definitions: Vec<_> = definitions.map(Definition::new).collect();
    let configurations = managed.map(|managed| {
        [AdmissionKind::Mutate, AdmissionKind::Validate]
            .map(|kind| Configuration::new(managed.clone(), kind, publishing.publisher()))
    });
    let mut drivers = Drivers::new();
    for definition in definitions {
        drivers.start(Driver::new(definition, cluster, backoff));
    }
    for configuration in configurations.into_iter().flatten() {
        drivers.start(Driver::new(configuration, cluster, backoff));
    }
    for kind in kinds.iter().filter(|_| admission.storage_migration) {
        let migration = StorageMigration::new(MigrationSetup {
            cluster: cluster.clone(),
            kind: kind.clone(),
            rate: admission.migration_rate,
            propagation: admission.propagation,
            backoff,
        });
        drivers.start(Driver::new(migration, cluster, backoff));
    }
    drivers
}

fn port_of(socket: &TcpListener) -> Result<u16, String> {
    let address = socket.local_addr().map_err(|error| error.to_string())?;
    Ok(address.port())
}

/// Returns whether the operator runs in a cluster, where other instances or a restarted one need its webhooks.
fn persists(setup: &AdmissionSetup<'_>, server: &AdmissionServer) -> bool {
    !setup.once && (server.namespace().is_some() || setup.cluster.own_namespace().is_some())
}

fn sharing(setup: &AdmissionSetup<'_>, port: u16) -> Sharing {
    let name = instance_name(port, std::process::id());
    Sharing::new(&naming::prefix(setup.operator), &name, setup.clock)
}

/// Identifies this instance among those that share configurations. The name of a Pod and the id of its process stay when its containers restart.
/// A port alone does not identify a process on one machine: a later process may get the port of a killed one, and would inherit its age.
fn instance_name(port: u16, process: u32) -> String {
    let host = host_name().filter(|it| !it.is_empty());
    let host = host.as_deref().unwrap_or("operator");
    format!("{host}:{port}-{process}")
}

/// Returns the Secret that stores the certificates; `None` if they are kept in memory.
fn secret_of(setup: &AdmissionSetup<'_>) -> Option<KeptObject> {
    let admission = &setup.settings.admission;
    let namespace = admission.server.as_ref()?.namespace()?;
    let name = admission.secret.clone();
    Some(KeptObject {
        resource: Arc::new(Resource::built_in("", "Secret", true)),
        namespace: Some(namespace.to_owned()),
        name: name.unwrap_or_else(|| format!("{}-webhook", setup.operator)),
    })
}

/// Returns the namespace of the operator, as far as it is known.
fn own_namespace(server: &AdmissionServer, cluster: &Cluster) -> Option<String> {
    let service = server.namespace().map(str::to_owned);
    service.or_else(|| cluster.own_namespace().map(str::to_owned))
}

fn backoff(settings: &Settings) -> (Duration, Duration) {
    let networking = &settings.networking;
    (networking.first_backoff, networking.longest_backoff)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, TcpStream};

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
