//! Happenings of the webhooks: their endpoint and configurations, admission reviews, validation rules, conversions and
//! storage migrations. Kopf has no such lines, except about the endpoint.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::handler::definition::Handler;
use crate::happening::{ERROR, INFO, ObjectEvent, WARN, happenings};

happenings! {
    /// A happening of the endpoint for admission webhooks, or of its configuration in the API server.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum AdmissionServing {
        /// The endpoint listens on this port; the API server reaches it at this address.
        Served { port: u16, at: String } => INFO, "Admission webhooks are served at port {port}, with `admission.server: {at}`";
        /// A certificate was generated. Carries its generation number and its validity.
        CertificateMade { number: u32, life: Duration }
            => INFO, "A certificate for admission webhooks is made: number {number}, valid for {:.1} days.", life.as_secs_f64() / 86400.0;
        /// The endpoint serves a different certificate from now on.
        CertificateServed { number: u32 } => INFO, "Certificate number {number} is served for admission webhooks.";
        /// The Secret's content was invalid. The operator has written its in-memory certificate back, or has generated a
        /// new one.
        SecretMended { secret: String, problem: String }
            => WARN, "The Secret {secret} with the certificates for admission webhooks was repaired: {problem}.";
        /// The certificates cannot be stored or renewed; the endpoint keeps the current one.
        CertificatesFailed { problem: String, pause: Duration }
            => WARN, "The certificates for admission webhooks cannot be kept; will retry in {:.1} seconds: {problem}", pause.as_secs_f64();
        /// The certificate files cannot be used; the endpoint keeps the current certificate.
        FilesFailed { problem: String }
            => WARN, "The certificate for admission webhooks cannot be read again; the former one is served: {problem}";
        /// A webhook configuration with this many webhooks was written.
        Configured { configuration: String, webhooks: usize } => INFO, "{configuration} is written: {webhooks} webhooks.";
        /// A webhook configuration cannot be written.
        ConfigurationFailed { configuration: String, error: String, pause: Duration }
            => WARN, "{configuration} cannot be written; will retry in {:.1} seconds: {error}", pause.as_secs_f64();
        /// A webhook configuration could not be changed at shutdown, so its webhooks may remain.
        ConfigurationLeft { configuration: String, error: String }
            => WARN, "{configuration} may still have webhooks that no operator answers, since it could not be changed at the end of the operator. \
            The next start corrects that; if the operator will not start again, delete the configuration: {error}";
        /// Other writers keep changing a configuration that the operator restores. Carries the field manager of the last
        /// change (empty if unknown), the number of changes in a row, and the maximum back-off, which applies from now on.
        Contested { what: String, by: String, times: u32, longest: Duration }
            => WARN, "{what} was corrected {times} times in a row, and each time it was changed again, last by `{}`. From now on it is corrected \
            after pauses of up to {} seconds. Does another operator write the same object, for instance with the same `settings.admission.managed`?",
            if by.is_empty() { "somebody else" } else { by }, longest.as_secs();
    }
}

happenings! {
    /// A happening of an admission review, except the attempts themselves.
    #[derive(Clone, Debug)]
    enum Reviewing {
        /// The handler has denied the request, which is a regular outcome.
        Denied { handler: Arc<Handler>, message: String } => INFO, "{handler} has denied the request: {message}";
        /// The handler has exceeded the deadline. It was cancelled, or continues without effect. `awaits` describes the
        /// request that the handler was waiting for, if that request in turn waits for the handler.
        OutOfTime { handler: Arc<Handler>, after: Duration, awaits: Option<String> }
            => ERROR, "{handler} has not returned within {:.1} seconds{}. The request fails, or is carried out if the failures of the handler are \
            ignored.", after.as_secs_f64(), awaits.as_ref().map(|awaits| format!(": {awaits}")).unwrap_or_default();
        /// The handler has changed fields that it must not change.
        ChangeRefused { handler: Arc<Handler>, reason: String } => ERROR, "{handler} has changed the object in vain: {reason}.";
        /// One of its filters has panicked.
        FilterPanicked { handler: Arc<Handler>, panic: String }
            => ERROR, "{handler} is not called, and the request fails: {panic}";
        /// The handler has denied the request with an HTTP code that is not an error code.
        OddCode { handler: Arc<Handler>, code: u16 }
            => WARN, "{handler} has denied the request with the code {code}, which is none of an error: expected 400 to 599. It counts as 500.";
    }
}

happenings! {
    /// A happening of the policies and CRDs that enforce validation rules.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum RuleServing {
        /// A policy or a binding was created or updated.
        Written { policy: String, is_new: bool } => INFO, "{policy} is {}.", if *is_new { "created" } else { "changed" };
        /// A policy was deleted, since no rule has its name any more.
        Deleted { policy: String } => INFO, "{policy} is deleted: its rule does not exist any more.";
        /// A policy with the name of a rule exists, but was not created by this operator.
        Taken { rule: String, policy: String }
            => WARN, "The validation rule `{rule}` is not enforced: {policy} is there already, and was not made by this operator. Give the rule \
            another `id`, or delete that one.";
        /// A CRD lacks a rule.
        Missing { rule: String, definition: String }
            => WARN, "The validation rule `{rule}` is not enforced: the definition {definition} lacks it. Register it by `register_crd`, or apply \
            what `--manifests` prints.";
        /// The policies cannot be written.
        Failed { error: String, pause: Duration }
            => WARN, "The policies of validation rules cannot be written; will retry in {:.1} seconds: {error}", pause.as_secs_f64();
    }
}

happenings! {
    /// A happening of the conversion of objects between versions, or of their CRD.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Converting {
        /// A part of the object does not fit into this version and is left empty. Its content is preserved in an
        /// annotation.
        Kept { version: String, problem: String }
            => WARN, "The object cannot be converted to {version}; what cannot be converted is kept in an annotation: {problem}";
        /// The object is shown in this version without a part that is too large to preserve. The Event is posted even if
        /// log lines are not.
        Omitted { version: String, omitted: String }
            => WARN, "The object is shown in {version} without all of its fields, and cannot be changed in that version: {omitted}. Read, write \
            and delete it in the stored version."
            => event ObjectEvent { action: "Convert", reason: "ConversionIncomplete", text: None };
        /// The object cannot be shown in this version or stored, since data would be lost.
        Refused { version: String, problem: String } => ERROR, "The object is not converted to {version}: {problem}";
        /// Objects of a kind were not converted within the timeout.
        OutOfTime { kind: String, within: Duration }
            => ERROR, "Objects of {kind} are not converted within {:.1} seconds. A function with #[on_convert] does not return, or is too slow.",
            within.as_secs_f64();
        /// A CRD now points the API server to the operator's conversion webhook.
        Configured { definition: String }
            => INFO, "CustomResourceDefinition {definition} is written: the operator converts its objects.";
        /// A CRD cannot be written as required.
        DefinitionFailed { definition: String, error: String, pause: Duration }
            => WARN, "CustomResourceDefinition {definition} cannot be written; will retry in {:.1} seconds: {error}", pause.as_secs_f64();
        /// A CRD cannot be read, so its schemas are unknown.
        DefinitionUnread { definition: String, error: String, pause: Duration }
            => WARN, "CustomResourceDefinition {definition} cannot be read, so its schemas are unknown; until then conversions restore \
            nothing that annotations carry; will retry in {:.1} seconds: {error}", pause.as_secs_f64();
        /// A CRD has versions that this release cannot convert; it converts the others.
        Unreachable { definition: String, missing: String }
            => WARN, "CustomResourceDefinition {definition} has a version that this release of the operator does not convert; all others are \
            converted: {missing}";
    }
}

happenings! {
    /// A happening of a storage migration, which rewrites objects so that they are stored in the newest version.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Migrating {
        /// The migration starts after a delay, and rewrites this many objects per second.
        Planned { of: MigratedKind, from: Vec<String>, after: Duration, rate: u32 }
            => INFO, "{of}: objects may be stored as {}; in {:.0} seconds, all are written again, {rate} a second.",
            from.join(", "), after.as_secs_f64();
        /// The cluster migrates by itself.
        LeftToCluster { of: MigratedKind }
            => INFO, "{of}: it is left to the cluster, which does it by itself (StorageMigrating).";
        /// This many objects were checked; all are stored in the storage version.
        Done { of: MigratedKind, objects: usize }
            => INFO, "{of}: done; {objects} objects were looked at, and status.storedVersions names {} alone.", of.version;
        /// The CRD has changed meanwhile; the migration starts again.
        Changed { of: MigratedKind } => INFO, "{of}: the definition was changed meanwhile; the migration starts again.";
        /// The server has dropped the list's continuation after this many objects. The migration lists again and
        /// continues after the last object.
        Listed { of: MigratedKind, objects: usize }
            => INFO, "{of}: the server has forgotten the list after {objects} objects; it is asked for again, and the migration goes on after the \
            last of them.";
        /// One object cannot be written.
        ObjectFailed { of: MigratedKind, object: String, error: String } => WARN, "{of}: {object} cannot be written: {error}";
        /// This many objects could not be written, so others may remain in former versions.
        Incomplete { of: MigratedKind, failed: usize, pause: Duration }
            => WARN, "{of}: {failed} objects cannot be written, so status.storedVersions stays; will retry in {:.0} seconds.",
            pause.as_secs_f64();
        /// The objects cannot be listed.
        Failed { of: MigratedKind, error: String, pause: Duration }
            => WARN, "{of}: it cannot go on; will retry in {:.1} seconds: {error}", pause.as_secs_f64();
    }
}

/// The kind that is migrated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MigratedKind {
    /// The name of the CRD.
    pub(crate) definition: String,
    /// The storage version; empty if the CRD cannot be read.
    pub(crate) version: String,
}

impl fmt::Display for MigratedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage migration of {}", self.definition)?;
        match &*self.version {
            "" => Ok(()),
            version => write!(f, " to {version}"),
        }
    }
}
