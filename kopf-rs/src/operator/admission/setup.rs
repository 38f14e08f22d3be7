//! The parts that admission webhooks need, and their place in the cluster.
//!
//! Must not know what is served.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::sync::watch;

use crate::admission::configuration::{Found, shared_path};
use crate::admission::rights::{RightsSource, rights};
use crate::admission::rules::{PolicySource, needs_policies};
use crate::cluster::Cluster;
use crate::conversion::graph::Conversions;
use crate::engine::conversion::Definitions;
use crate::handler::definition::Handler;
use crate::handler::validation_rule::DeclaredRule;
use crate::handler::webhook::AdmissionKind;
use crate::object::resource::Resource;
use crate::object::rights::Rights;
use crate::operator::admission::managed_object::KeptObject;
use crate::operator::settings::admission::AdmissionServer;
use crate::operator::settings::{Admission, Settings};
use crate::rt::clock::Clock;
use crate::state::naming;

/// The parts that admission webhooks need.
pub(crate) struct AdmissionSetup {
    pub(crate) operator: String,
    pub(crate) handlers: Vec<Arc<Handler>>,
    pub(crate) conversions: Arc<Conversions>,
    pub(crate) settings: Settings,
    pub(crate) cluster: Cluster,
    pub(crate) clock: Clock,
    /// `None` until discovery has ended.
    pub(crate) found: watch::Receiver<Option<Found>>,
    /// The operator ends when no work is left, so it must not wait without limit.
    pub(crate) once: bool,
    /// Passes the definitions of converted kinds to the converter.
    pub(crate) definitions: Definitions,
}

impl AdmissionSetup {
    /// Returns the server to start; `None` if none is needed.
    pub(super) fn server(&self) -> Result<Option<&AdmissionServer>, String> {
        if let Some(problem) = shared_path(&self.handlers) {
            return Err(problem);
        }
        match &self.settings.admission.server {
            None if self.handlers.is_empty() && self.conversions.is_empty() => Ok(None),
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

    /// Returns whether the operator runs in a cluster, where other instances or a restarted one need its webhooks.
    pub(super) fn persists(&self) -> bool {
        !self.once && self.own_namespace().is_some()
    }

    /// Returns the namespace of an operator with webhooks, as far as it is known.
    pub(super) fn own_namespace(&self) -> Option<&str> {
        let server = self.settings.admission.server.as_ref()?;
        server.namespace().or_else(|| self.cluster.own_namespace())
    }

    /// Returns the Secret that stores the certificates; `None` if they are kept in memory.
    pub(super) fn secret(&self) -> Option<KeptObject> {
        let admission = &self.settings.admission;
        let namespace = admission.server.as_ref()?.namespace()?;
        let name = admission.secret.clone();
        Some(KeptObject {
            resource: Arc::new(Resource::built_in("", "Secret", true)),
            namespace: Some(namespace.to_owned()),
            name: name.unwrap_or_else(|| format!("{}-webhook", self.operator)),
        })
    }

    /// Returns the permissions for the objects that the operator writes itself, by its present settings: also its certificate, unless
    /// cert-manager creates that.
    pub(crate) fn needed_rights(
        &self,
        rules: &[Arc<DeclaredRule>],
        found: &Found,
        has_cert_manager: bool,
    ) -> Rights {
        let admission = &self.settings.admission;
        let has_files = admission.certificate_file.is_some() || has_cert_manager;
        let secret = self.secret().filter(|_| !has_files);
        let secret = secret.as_ref().and_then(|it| Some((it.namespace.as_deref()?, it.name.as_str())));
        let has = |kind| {
            let mut all = self.handlers.iter().filter_map(|it| it.admission());
            all.any(|it| it == kind)
        };
        let kinds = [
            (AdmissionKind::Mutate, "mutatingwebhookconfigurations"),
            (AdmissionKind::Validate, "validatingwebhookconfigurations"),
        ];
        let kinds = kinds.into_iter().filter(|(kind, _)| has(*kind));
        let kinds: Vec<_> = kinds.map(|(_, plural)| plural).collect();
        let managed = admission.managed.as_deref();
        let converted = self.conversions.kinds().iter();
        let definitions: Vec<_> = converted.filter(|_| managed.is_some()).map(|it| it.name.clone()).collect();
        let domain = naming::prefix(&self.operator);
        rights(RightsSource {
            secret,
            configurations: managed.map(|name| (name, kinds.as_slice())),
            owner: self.own_namespace().filter(|_| self.persists()),
            definitions: &definitions,
            migrates: admission.storage_migration,
            has_policies: needs_policies(PolicySource { rules, found, domain: &domain }),
        })
    }
}

/// Returns the addresses to listen on.
pub(super) fn addresses(server: &AdmissionServer, admission: &Admission) -> Result<Vec<SocketAddr>, String> {
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

pub(super) fn not_served_at(address: &str, error: &std::io::Error) -> String {
    format!(
        "admission webhooks cannot be served at {address}: {error}; choose another address by `settings.admission.listen`"
    )
}

/// Returns the port of an endpoint that is not started yet.
#[cfg(any(feature = "cli", test))]
pub(crate) fn port_to_be(server: &AdmissionServer, admission: &Admission) -> Result<u16, String> {
    let addresses = addresses(server, admission)?;
    let port = addresses.first().map_or(0, SocketAddr::port);
    match server {
        AdmissionServer::Host(_) if port == 0 => Err(
            "nobody knows yet at which port admission webhooks will be served: set `settings.admission.listen`, such as `0.0.0.0:9443`"
                .to_owned(),
        ),
        AdmissionServer::Detected | AdmissionServer::Tunnel(_) => Err(format!(
            "the setting `admission.server` is `{server}`, whose address is known only while the operator runs: expected a Service \
             (`service:NAMESPACE/NAME`) for manifests"
        )),
        _ => Ok(port),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the parts of an operator without handlers.
    pub(in crate::operator::admission) fn setup(cluster: Cluster) -> AdmissionSetup {
        AdmissionSetup {
            operator: "op".to_owned(),
            handlers: Vec::new(),
            conversions: Arc::default(),
            settings: Settings::default(),
            cluster,
            clock: Clock::start(),
            found: watch::channel(None).1,
            once: false,
            definitions: Definitions::default(),
        }
    }
}
