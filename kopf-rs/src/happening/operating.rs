//! Happenings of the operator as a whole: its Lease, peering, logins, health endpoints, and posting of Kubernetes
//! Events.

use std::sync::Arc;
use std::time::Duration;

use crate::happening::meter::WhyLeftOut;
use crate::happening::{DEBUG, ERROR, INFO, WARN, happenings, to_permit};
use crate::object::collection::Collection;
use crate::object::login::{LoginReason, LoginSetback};

happenings! {
    /// A happening of the Lease with this name (`namespace/name`), which the operator's instances share.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Leasing {
        /// This instance is the leader.
        Holds { lease: String } => INFO, "This instance is the leader: it holds the Lease {lease}.";
        /// This instance has created the Lease and will lead after a wait, so that the holder of a former Lease can
        /// notice.
        Begins { lease: String, wait: Duration }
            => INFO, "This instance has created the Lease {lease} and becomes the leader in {} seconds, so that the holder of a \
            former Lease stops first.", wait.as_secs();
        /// This instance is a standby of the current leader.
        StandsBy { lease: String, holder: String } => INFO, "Standing by: the Lease {lease} is held by {holder}.";
        /// The Lease could not be renewed for this long, so this instance is not the leader until it gets a response.
        Lapsed { lease: String, after: Duration }
            => WARN, "Handlers are paused, since the Lease {lease} could not be renewed for {} seconds: another instance may take it.",
            after.as_secs();
        /// Another instance has taken the Lease.
        Lost { lease: String, holder: String }
            => WARN, "This instance has lost the Lease {lease}, and stands by: it is held by {holder}.";
        /// The Lease was deleted; this instance recreates it after a wait.
        Deleted { lease: String, wait: Duration }
            => WARN, "The Lease {lease} was deleted, so no instance is the leader: this one creates it again in {} seconds.", wait.as_secs();
        /// The Lease belongs to another operator.
        OfOther { lease: String, operator: String }
            => WARN, "Handlers are not called, since the Lease {lease} belongs to the operator '{operator}', as its label kopf.rs/operator says: \
            give this operator a Lease of its own by --lease=NAME, or settings.lease.name.";
        /// The Lease has a `strategy`, so an external controller selects its holder, and handlers stay paused.
        Given { lease: String }
            => WARN, "Handlers are not called, since the Lease {lease} has a strategy, so another controller selects its holder: remove \
            `spec.strategy`, or choose another Lease by --lease=NAME.";
        /// The Lease cannot be read or written. Carries the RBAC rule that would permit it, or an empty text for other
        /// causes.
        Refused { lease: String, error: String, rule: String }
            => WARN, "Handlers are not called, since the Lease {lease} cannot be read and written; will retry: {error}{}", to_permit(rule);
        /// The term has ended during a call of a handler (`Handler 'id'`), whose outcome is dropped.
        CutOff { handler: String }
            => WARN, "{handler} is cancelled, since this instance may not be the leader any more. The leader calls it again.";
        /// This instance has released the Lease.
        Released { lease: String } => INFO, "This instance has released the Lease {lease}.";
        /// This instance could not release the Lease.
        Kept { lease: String, after: Duration }
            => WARN, "The Lease {lease} could not be released within {} seconds: other instances wait until it expires.", after.as_secs();
    }
}

happenings! {
    /// A happening among several operators of the same objects.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Peering {
        /// The operator is paused in favour of these peers.
        Paused { in_favour_of: Vec<String> } => INFO, "Pausing operations in favour of [{}].", in_favour_of.join(", ");
        /// The operator is paused until the peering object with this name exists.
        Awaited { name: String }
            => WARN, "Pausing operations until there is a peering object '{name}': peering is mandatory (--peering, or \
            settings.peering.mandatory).";
        /// The operator is no longer paused.
        Resumed => INFO, "Resuming operations after the pause. Conflicting operators with the same priority are gone.";
        /// Kopf operators with the same priority are running.
        Rivals { peers: Vec<String> }
            => WARN, "Possibly conflicting operators with the same priority: [{}]. They are Kopf operators, which pause; this one goes on.",
            peers.join(", ");
        /// The operator has sent a keep-alive to the peering object, which may not exist.
        KeptAlive { name: String, of: Arc<Collection>, is_there: bool }
            => DEBUG, "Keep-alive in '{name}' {}: {}.", match &of.namespace {
                Some(namespace) => format!("in '{namespace}'"),
                None => "cluster-wide".to_owned(),
            }, if *is_there { "ok" } else { "not found" };
        /// The server rejects a keep-alive. Carries the RBAC rule that would permit it, or an empty text for other
        /// causes.
        Refused { name: String, of: Arc<Collection>, error: String, rule: String }
            => WARN, "The peering object '{name}' of {of} cannot be written, so other operators do not see this one; will retry: {error}{}",
            to_permit(rule);
        /// The operator could not remove its record at shutdown.
        Left { name: String, error: String }
            => WARN, "The operator's record cannot be taken away from the peering object '{name}'; the others wait until its lifetime is over: \
            {error}";
    }
}

happenings! {
    /// A happening of a login by user-defined handlers. Kopf's texts, plus the reason of a repeated login.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Login {
        /// The operator calls the login handlers.
        Initiated { why: LoginReason }
            => INFO, "{} has been initiated{}", title(why), match why {
                LoginReason::First => ".".to_owned(),
                LoginReason::Expired(id) => format!(": the credentials of '{id}' have expired."),
                LoginReason::Refused(id) => format!(": the server has refused the credentials of '{id}'."),
                LoginReason::Distrusted(id) =>
                    format!(": the certificate of the server is signed by none of the authorities that '{id}' has given."),
            };
        /// The handlers have returned new credentials.
        Finished { why: LoginReason } => INFO, "{} has finished.", title(why);
        /// The handlers have returned no credentials.
        Empty { why: LoginReason }
            => WARN, "{} has failed: no credentials were retrieved from the login handlers.", title(why);
        /// The handlers' result cannot be used; they are called again after a pause.
        Setback { setback: LoginSetback, pause: Duration }
            => match setback {
                LoginSetback::Refused { times: MANY.., .. } | LoginSetback::ShortLived { times: MANY.., .. } => ERROR,
                _ => WARN,
            }, "{}; the next login is in {:.1} seconds", match setback {
                LoginSetback::Refused { id, times } => format!("The server has refused the credentials of login handler '{id}' {times} times in a \
                row (401), others each time: check whether they are for this cluster (its issuer, audience and user), whether they are valid \
                already, and the clock of this machine"),
                LoginSetback::ShortLived { id, times, lived } => format!("The credentials of login handler '{id}' have expired {times} times in a \
                row as soon as they were there, the last ones after {:.3} seconds: check their expiration, and the clock of this machine",
                lived.as_secs_f64()),
                LoginSetback::Unusable(reason) => reason.clone(),
            }, pause.as_secs_f64();
        /// There are no credentials during shutdown, so failing cleanup handlers are not retried.
        CleanupWithout
            => WARN, "There are no credentials, and the login handlers give no others: cleanup handlers that fail are not called again.";
    }
}

/// The number of repetitions in a row at which the level is raised.
const MANY: u32 = 5;

fn title(why: &LoginReason) -> &'static str {
    match why {
        LoginReason::First => "Initial authentication",
        _ => "Re-authentication",
    }
}

happenings! {
    /// A happening of a health endpoint.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Health {
        /// The endpoint for `health status`, `metrics` or `the web page` listens.
        Served { what: &'static str, url: String } => INFO, "Serving {what} at {url}";
        /// The endpoint has reported a failure for the first time. Carries the failing checks with their reasons.
        Fails { endpoint: String, failing: Vec<String> } => WARN, "{endpoint} fails: {}.", failing.join("; ");
        /// All checks pass again.
        Passes { endpoint: String } => INFO, "{endpoint} passes.";
    }
}

#[cfg(feature = "metrics")]
happenings! {
    /// A happening of the certificate for metrics.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum MetricsCertificate {
        /// The endpoint serves a different certificate from now on.
        Served => INFO, "Another certificate is served for metrics.";
        /// The certificate cannot be renewed.
        Failed { problem: String }
            => WARN, "The certificate for metrics cannot be renewed; the former one is served: {problem}";
    }
}

happenings! {
    /// A happening of posting Kubernetes Events.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Posting {
        /// The server rejects an Event.
        Refused { error: String } => WARN, "Failed to post an Event. Ignoring and continuing: {error}";
        /// The Event has no valid destination any more: its namespace is terminating, or the Event to update was deleted.
        Vain { error: String } => DEBUG, "Failed to post an Event. Ignoring and continuing: {error}";
        /// The permission to post Events is missing. Carries the RBAC rule that would grant it.
        Forbidden { error: String, rule: String }
            => WARN, "Events may not be posted; what handlers do goes on without: {error}\nTo permit it, add {rule}";
        /// This many Events were dropped for this reason.
        LeftOut { events: u64, why: WhyLeftOut }
            => WARN, "{} not posted: {}", match events {
                1 => "1 Event was".to_owned(),
                many => format!("{many} Events were"),
            }, match why {
                WhyLeftOut::QueueFull => "more come in than the server takes.",
                WhyLeftOut::TooMany => "about one object, 25 different ones are posted at a time, and one more every five minutes.",
                WhyLeftOut::Stop => "the operator ends, and the server has not taken them in time.",
            };
    }
}
