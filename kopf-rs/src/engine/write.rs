//! Bringing effects to the object: one PATCH, repeated until it is done, refused for good, or void.
//!
//! A finished handler's outcome is never lost here: only the write is repeated.

use std::time::Duration;

use serde_json::Value;
use tracing::Level;

use crate::cluster::error::ClusterError;
use crate::engine::invoke::guarded;
use crate::engine::memory::Version;
use crate::engine::worker::{Due, Trouble, Worker};
use crate::object::operations::Operations;
use crate::object::patch::{Patch, apply as merge};
use crate::object::raw::Raw;
use crate::reaction::settle::Effects;
use crate::rt::backoff::Backoff;

/// How a write has ended.
enum Written {
    /// The object as it is now.
    Landed(Raw),
    /// The object is no more.
    Gone,
    /// Another state, or another object, stands there.
    Conflict,
    /// The content was refused, and would be again.
    Refused(String),
    /// It became pointless while waiting for the server.
    Void,
}

impl Worker {
    /// Write what there is to write; when to look at the object again.
    pub(super) async fn deliver(&mut self, effects: Effects) -> Due {
        let wake = self.wake_at(&effects);
        if effects.patch.is_empty() {
            self.memory.seen = effects.seen;
            return wake;
        }
        if self.shared.queue.is_deleted(&self.key) {
            self.gone();
            return Due::Never;
        }
        let finalizers = effects.expected_finalizers.as_deref();
        match self.send(&effects.patch, finalizers).await {
            Written::Landed(reply) => {
                self.memory.seen = effects.seen;
                self.trouble = Trouble::default();
                let changed = reply.facts().resource_version != self.raw.facts().resource_version;
                self.know(reply);
                if !changed {
                    wake
                } else if self.shared.is_quiet(&self.kind, &self.memory, &self.raw) {
                    Due::Never
                } else {
                    Due::Now
                }
            }
            Written::Gone => {
                self.gone();
                self.memory.seen = effects.seen;
                Due::Never
            }
            Written::Void => {
                self.memory.seen = effects.seen_if_refused;
                Due::Never
            }
            Written::Conflict => {
                self.memory.seen = effects.seen_if_refused;
                self.refresh().await
            }
            Written::Refused(message) => self.refused(effects, &message).await,
        }
    }

    /// Write what raw-event handlers want changed, apart from any cycle.
    pub(super) async fn deliver_extra(&mut self, patch: &Patch) {
        if patch.is_empty() {
            return;
        }
        match self.send(patch, None).await {
            Written::Gone | Written::Void | Written::Conflict => self.gone(),
            Written::Landed(reply) => {
                let version = Version::of(&reply.facts().resource_version);
                if !self.memory.version.covers(&version) {
                    self.know(reply);
                    self.due = Due::Now;
                }
            }
            Written::Refused(message) => self.log_refusal(patch, &message),
        }
    }

    /// The first refusal drops what the handlers wanted, a second one the status too; then it is tried seldom.
    async fn refused(&mut self, mut effects: Effects, message: &str) -> Due {
        self.log_refusal(&effects.patch, message);
        let pause = self.trouble.refusals.next_pause();
        self.trouble.refused += 1;
        if self.trouble.refused == 1 {
            self.memory.seen = effects.seen_if_refused.without_patch();
            return Due::Now;
        }
        effects.patch.unset(&["status"]);
        if !effects.patch.is_empty() {
            let finalizers = effects.expected_finalizers.as_deref();
            if let Written::Landed(reply) = self.send(&effects.patch, finalizers).await {
                self.memory.seen = effects.seen;
                self.trouble = Trouble::default();
                self.know(reply);
                return Due::Now;
            }
        }
        self.memory.seen = effects.seen_if_refused.without_patch();
        self.after(pause)
    }

    /// Repeat the request until the server has answered it.
    async fn send(&mut self, patch: &Patch, finalizers: Option<&[String]>) -> Written {
        self.log(
            Level::DEBUG,
            format_args!("Merge-patching the resource with: {}", patch.as_value()),
        );
        let (first, longest) = self.shared.setup.limits.backoff;
        let mut backoff = Backoff::new(first, longest);
        loop {
            let shared = &self.shared;
            let answer = {
                let _place = shared.place().await;
                self.apply(patch, finalizers).await
            };
            let error = match answer {
                Ok(Some(reply)) => return Written::Landed(reply),
                Ok(None) | Err(ClusterError::NotFound(_)) => return Written::Gone,
                Err(ClusterError::Conflict(_)) => return Written::Conflict,
                Err(ClusterError::Invalid(message)) => return Written::Refused(message),
                Err(error) => error,
            };
            let pause = pause_after(&error, &mut backoff);
            self.log_failure("Patching", &error, pause);
            if !self.pause(pause).await {
                return self.last_try(patch, finalizers).await;
            }
        }
    }

    /// The operator stops while a write is pending: one more attempt. A deleted object needs none.
    async fn last_try(&self, patch: &Patch, finalizers: Option<&[String]>) -> Written {
        if self.shared.queue.is_deleted(&self.key) {
            return Written::Void;
        }
        match self.apply(patch, finalizers).await {
            Ok(Some(reply)) => Written::Landed(reply),
            Ok(None) => Written::Gone,
            Err(error) => {
                self.log(
                    Level::ERROR,
                    format_args!("Patching failed for the last time before the exit: {error}"),
                );
                Written::Void
            }
        }
    }

    /// Send the request once.
    async fn apply(
        &self,
        patch: &Patch,
        finalizers: Option<&[String]>,
    ) -> Result<Option<Raw>, ClusterError> {
        let cluster = &self.shared.setup.cluster;
        let (resource, facts) = (&self.kind.resource, self.raw.facts());
        if patch.functions().is_empty() {
            return cluster.apply(resource, facts, patch, finalizers).await;
        }
        let body = self.raw.body();
        let found = body.map_err(|error| ClusterError::Invalid(error.to_string()))?;
        let wanted = self.transformed(&found, patch);
        let changes = Operations::between(&found, &wanted);
        if changes.is_empty() {
            return Ok(Some(self.raw.clone()));
        }
        cluster.apply_operations(resource, facts, changes).await
    }

    /// The object as the patch wants it: merged, then changed by its functions, without those that panic.
    fn transformed(&self, found: &Value, patch: &Patch) -> Value {
        let mut wanted = found.clone();
        merge(&mut wanted, patch.as_value());
        for function in patch.functions() {
            let mut changed = wanted.clone();
            match guarded(|| function.to(&mut changed)) {
                Ok(()) => wanted = changed,
                Err(panic) => self.log(
                    Level::ERROR,
                    format_args!("A patch function is left out: {panic}"),
                ),
            }
        }
        wanted
    }

    /// After a conflict: what is the object now?
    async fn refresh(&mut self) -> Due {
        let pause = self.trouble.conflicts.next_pause();
        self.trouble.conflicted += 1;
        if self.trouble.conflicted > 2 && !self.pause(pause).await {
            return Due::Never;
        }
        let (first, longest) = self.shared.setup.limits.backoff;
        let mut backoff = Backoff::new(first, longest);
        loop {
            if self.shared.queue.has_newer(&self.key, &self.memory.version) {
                return Due::Never;
            }
            match self.read().await {
                Ok(Some(raw)) if raw.facts().uid == self.raw.facts().uid => {
                    self.know(raw);
                    return Due::Now;
                }
                Ok(_) | Err(ClusterError::NotFound(_)) => {
                    self.gone();
                    return Due::Never;
                }
                Err(ClusterError::Denied { .. }) => return self.after(pause),
                Err(error) => {
                    let pause = pause_after(&error, &mut backoff);
                    self.log_failure("Reading", &error, pause);
                    if !self.pause(pause).await {
                        return Due::Never;
                    }
                }
            }
        }
    }

    async fn read(&self) -> Result<Option<Raw>, ClusterError> {
        let _place = self.shared.place().await;
        let facts = self.raw.facts();
        let cluster = &self.shared.setup.cluster;
        cluster
            .get(&self.kind.resource, facts.namespace.as_deref(), &facts.name)
            .await
    }

    fn wake_at(&self, effects: &Effects) -> Due {
        match effects.wake_at {
            None => Due::Never,
            Some(at) if at <= self.shared.setup.clock.now() => Due::Now,
            Some(at) => Due::At(at),
        }
    }

    fn gone(&self) {
        self.log(
            Level::DEBUG,
            format_args!("Patching was skipped: the object does not exist anymore."),
        );
    }

    fn log_refusal(&self, patch: &Patch, message: &str) {
        self.log(
            Level::ERROR,
            format_args!(
                "Patching was refused: {message}. The refused patch: {}",
                patch.as_value()
            ),
        );
    }

    fn log_failure(&self, doing: &str, error: &ClusterError, pause: Duration) {
        let seconds = pause.as_secs_f64();
        self.log(
            Level::WARN,
            format_args!("{doing} failed; will retry in {seconds:.1} seconds: {error}"),
        );
        if let ClusterError::Denied { rule, .. } = error
            && !rule.is_empty()
            && self.shared.tells_lack_of(rule)
        {
            self.log(
                Level::WARN,
                format_args!("The missing permission, as a rule for RBAC: {rule}"),
            );
        }
    }
}

/// How long to wait after a failed request: as the server asks, or longer with every failure.
fn pause_after(error: &ClusterError, backoff: &mut Backoff) -> Duration {
    let asked_for = error.retry_after().unwrap_or_default();
    backoff.next_pause().max(asked_for)
}
