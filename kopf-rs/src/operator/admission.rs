//! Admission webhooks of an operator: the endpoint, its certificates, and what the API server is told of both.
//!
//! Decides their order: first there is a certificate, then somebody answers, then the API server is told; at the end the other way round. Must
//! not know what handlers are asked.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, select_all};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::admission::configuration::{ClientConfig, shared_path};
use crate::cluster::Cluster;
use crate::cluster::watch::WatchPace;
use crate::conversion::graph::Conversions;
use crate::engine::report::report_of_operator;
use crate::handler::definition::Handler;
use crate::happening::Happening;
use crate::happening::admission::AdmissionServing;
use crate::object::resource::Resource;
use crate::operator::admission::definitions::{Definition, DefinitionSetup};
use crate::operator::admission::endpoint::{Endpoint, EndpointSetup, Identity, Responder};
use crate::operator::admission::files::{
    CertificateFiles, ClientAuthorities, FollowedFiles, Publication,
};
use crate::operator::admission::keeper::{Keeper, KeeperSetup};
use crate::operator::admission::looked_after::KeptObject;
use crate::operator::admission::managed::{Found, Managed, ManagedSetup};
use crate::operator::admission::migration::{MigrationSetup, StorageMigration};
use crate::operator::admission::publishing::{Published, Publishing, Trust};
use crate::operator::settings::Settings;
use crate::operator::settings::admission::{Admission, AdmissionServer};
use crate::rt::clock::Clock;

mod contest;
mod definitions;
pub(crate) mod endpoint;
mod files;
mod keeper;
mod looked_after;
mod making;
pub(crate) mod managed;
mod migration;
pub(crate) mod policies;
#[cfg(any(feature = "cli", test))]
pub(crate) mod printed;
mod publishing;
mod tls;

/// What admission webhooks are made of.
pub(crate) struct AdmissionSetup<'a> {
    pub(crate) operator: &'a str,
    pub(crate) handlers: Vec<Arc<Handler>>,
    pub(crate) conversions: Arc<Conversions>,
    pub(crate) settings: &'a Settings,
    pub(crate) cluster: Cluster,
    pub(crate) clock: Clock,
    /// What the cluster serves, once that is known.
    pub(crate) found: watch::Receiver<Option<Found>>,
    /// The operator ends when there is nothing left to do: it waits for nothing that may never come.
    pub(crate) once: bool,
}

/// Admission webhooks at work. Dropping it ends them at once.
pub(crate) struct AdmissionWebhooks {
    endpoint: Endpoint,
    managed: Option<Managed>,
    definitions: Vec<Definition>,
    migrations: Vec<StorageMigration>,
    propagation: Duration,
    _certificates: AbortOnDropHandle<()>,
}

/// The end waits so long at most until API servers have seen that webhooks are gone.
const LONGEST_END: Duration = Duration::from_secs(5);

impl AdmissionWebhooks {
    /// Begin to answer, with a certificate; `None` where there is nothing to serve. The error says what keeps it from that, and what to do.
    pub(crate) async fn start(
        setup: AdmissionSetup<'_>,
        responder: Responder,
    ) -> Result<Option<Self>, String> {
        let admission = &setup.settings.admission;
        let Some(server) = server_of(&setup)? else {
            return Ok(None);
        };
        let socket = bind(server, admission)?;
        let port = socket.local_addr().map_err(|error| error.to_string())?;
        let port = port.port();
        let trust = watch::Sender::new(Trust::default());
        let publishing = Publishing::new();
        let trusted = trust.subscribe();
        let (identity, certificates) =
            certificates(&setup, server, trust, publishing.subscribe()).await?;
        let endpoint = EndpointSetup {
            socket,
            identity,
            root: server.root(),
            demands_certificate: admission.client_authority_file.is_some(),
            responder,
        };
        let endpoint = Endpoint::start(endpoint).map_err(|error| error.to_string())?;
        let at = server.to_string();
        let told = AdmissionServing::Served { port, at };
        report_of_operator(&Happening::Admission(told));
        let definitions = definitions(&setup, &server.client_config(port), &trusted, &publishing);
        let migrations = migrations(&setup);
        let is_asked = !setup.handlers.is_empty() || setup.conversions.is_empty();
        let managed = admission.managed.clone().filter(|_| is_asked);
        let managed = managed.map(|name| {
            Managed::new(ManagedSetup {
                name,
                client: server.client_config(port),
                own_namespace: own_namespace(server, &setup.cluster),
                backoff: backoff(setup.settings),
                pace: WatchPace::default(),
                found: setup.found,
                trust: trusted,
                publisher: publishing.publisher(),
                cluster: setup.cluster,
                handlers: setup.handlers,
            })
        });
        Ok(Some(Self {
            endpoint,
            managed,
            definitions,
            migrations,
            propagation: admission.propagation.min(LONGEST_END),
            _certificates: certificates,
        }))
    }

    /// Keep configurations and definitions right. Ends only where they would do harm, or may not be written: why.
    pub(crate) async fn run(&mut self) -> String {
        let definitions = self.definitions.iter_mut();
        let mut all: Vec<BoxFuture<'_, String>> = definitions.map(|it| it.run().boxed()).collect();
        all.extend(self.migrations.iter_mut().map(|it| it.run().boxed()));
        all.extend(self.managed.iter_mut().map(|it| it.run().boxed()));
        if all.is_empty() {
            return std::future::pending().await;
        }
        let (why, ..) = select_all(all).await;
        why
    }

    /// End: the API server is told first, so that nobody asks in vain.
    pub(crate) async fn finish(mut self) {
        self.endpoint.leave();
        if let Some(managed) = &mut self.managed
            && managed.leave().await
        {
            tokio::time::sleep(self.propagation).await;
        }
        self.endpoint.finish().await;
    }
}

/// The server to be, or why there cannot be one.
fn server_of<'a>(setup: &AdmissionSetup<'a>) -> Result<Option<&'a AdmissionServer>, String> {
    if let Some(problem) = shared_path(&setup.handlers) {
        return Err(problem);
    }
    let admission = &setup.settings.admission;
    match &admission.server {
        None if setup.handlers.is_empty() && setup.conversions.is_empty() => Ok(None),
        None => Err(
            "there are admission handlers or conversions, and nothing says how the API server is to reach them: set `settings.admission.server`, such as \
             `AdmissionServer::local()` for an API server on this machine, or `AdmissionServer::service(\"namespace\", \"name\")` for a \
             Service in the cluster, and `settings.admission.managed` to the name of the configurations that are to be written"
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

/// Where to listen.
fn addresses(server: &AdmissionServer, admission: &Admission) -> Result<Vec<SocketAddr>, String> {
    let Some(listen) = &admission.listen else {
        return Ok(vec![server.default_address()]);
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

/// The port of an endpoint that is not there yet.
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

/// The first certificate, and what looks after it.
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
    let client_authorities =
        ClientAuthorities::first(admission.client_authority_file.clone()).await?;
    let keeper = KeeperSetup {
        cluster: setup.cluster.clone(),
        secret: secret_of(setup),
        names: server.names(),
        life: admission.certificate_life,
        propagation: admission.propagation,
        client_authorities,
        backoff: backoff(setup.settings),
        pace: WatchPace::default(),
        clock: setup.clock,
        published,
    };
    let mut keeper = Keeper::new(keeper, trust);
    let identity = keeper.first(setup.once).await?;
    let keeping = AbortOnDropHandle::new(tokio::spawn(keeper.run()));
    Ok((identity, keeping))
}

/// What keeps the definitions of converted kinds right, if that is for the operator to do.
fn definitions(
    setup: &AdmissionSetup<'_>,
    client: &ClientConfig,
    trust: &watch::Receiver<Trust>,
    publishing: &Arc<Publishing>,
) -> Vec<Definition> {
    if setup.settings.admission.managed.is_none() {
        return Vec::new();
    }
    let kinds = setup.conversions.kinds().iter();
    let definitions = kinds.map(|kind| {
        Definition::new(DefinitionSetup {
            cluster: setup.cluster.clone(),
            kind: kind.clone(),
            client: client.clone(),
            backoff: backoff(setup.settings),
            pace: WatchPace::default(),
            trust: trust.clone(),
            publisher: publishing.publisher(),
        })
    });
    definitions.collect()
}

/// What writes objects of converted kinds again, if that is wanted.
fn migrations(setup: &AdmissionSetup<'_>) -> Vec<StorageMigration> {
    let admission = &setup.settings.admission;
    if !admission.storage_migration {
        return Vec::new();
    }
    let kinds = setup.conversions.kinds().iter();
    let migrations = kinds.map(|kind| {
        StorageMigration::new(MigrationSetup {
            cluster: setup.cluster.clone(),
            kind: kind.clone(),
            rate: admission.migration_rate,
            propagation: admission.propagation,
            backoff: backoff(setup.settings),
            pace: WatchPace::default(),
        })
    });
    migrations.collect()
}

/// Where certificates are kept, unless that is in memory.
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

/// The namespace that the operator is in, as far as it is known.
fn own_namespace(server: &AdmissionServer, cluster: &Cluster) -> Option<String> {
    let service = server.namespace().map(str::to_owned);
    service.or_else(|| cluster.own_namespace().map(str::to_owned))
}

fn backoff(settings: &Settings) -> (Duration, Duration) {
    let networking = &settings.networking;
    (networking.first_backoff, networking.longest_backoff)
}
