//! Bringing effects to the object: one PATCH, repeated until it is done, refused for good, or void.
//!
//! A finished handler's outcome is never lost here: only the write is repeated.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tracing::Level;

use crate::cluster::error::ClusterError;
use crate::engine::invoke::guarded;
use crate::engine::mailbox::{Mailbox, Pending};
use crate::engine::memory::Version;
use crate::engine::worker::{Due, Worker};
use crate::happening::{Happening, Request, UserCode};
use crate::object::body::Body;
use crate::object::identity::{restore, strip};
use crate::object::operations::Operations;
use crate::object::patch::{Patch, apply as merge};
use crate::object::raw::Raw;
use crate::reaction::judge::shortened;
use crate::reaction::settle::Effects;
use crate::rt::backoff::Backoff;
use crate::rt::chance::Chance;
use crate::rt::outage::Outage;

/// How a write has ended.
pub(super) enum Written {
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
    /// It is not permitted, and the operator is to end.
    Forbidden(ClusterError),
}

impl Worker {
    /// Write what there is to write; when to look at the object again.
    pub(super) async fn deliver(&mut self, effects: Effects) -> Due {
        let wake = self.wake_at(&effects);
        let left = self.left_of(&effects.patch, Some(&effects.body));
        if left.is_empty() {
            self.memory.seen = effects.seen;
            return wake;
        }
        if self.context.is_deleted() {
            self.gone();
            // What has ended counts for the deletion that waits.
            self.memory.seen = effects.seen_if_refused;
            return Due::Never;
        }
        self.look_into_the_mail();
        let finalizers = effects.expected_finalizers.as_deref();
        match self.send(&effects.patch, &left, finalizers).await {
            Written::Landed(reply) => {
                self.memory.seen = effects.seen;
                self.recover();
                (self.maybe_written, self.unwritten_outcome) = (false, false);
                let changed = reply.facts().resource_version != self.raw.facts().resource_version;
                self.know_reply(reply);
                if changed && effects.concluded {
                    self.count_round();
                }
                if !changed {
                    wake
                } else if self.shared().is_quiet(&self.kind, &self.memory, &self.raw) {
                    Due::Never
                } else {
                    let pause = self.memory.self_triggered.pause();
                    pause.map_or(Due::Now, |pause| self.after(pause))
                }
            }
            Written::Gone => {
                self.gone();
                // It may only be the version that is not served any more: another one takes over what is owed.
                self.memory.seen = effects.seen_if_refused;
                self.unwritten_outcome = true;
                Due::Never
            }
            Written::Void => {
                self.memory.seen = effects.seen_if_refused;
                Due::Never
            }
            Written::Conflict => {
                self.memory.seen = effects.seen_if_refused;
                self.unwritten_outcome = true;
                self.refresh().await
            }
            Written::Forbidden(error) => {
                self.memory.seen = effects.seen_if_refused;
                self.give_up(&error)
            }
            Written::Refused(message) => {
                self.log_refusal(&left, &message);
                self.refused(effects, &message).await
            }
        }
    }

    /// Write what raw-event handlers want changed, apart from any cycle.
    pub(super) async fn deliver_extra(&mut self, patch: &Patch) {
        if patch.is_empty() {
            return;
        }
        match self.send(patch, patch, None).await {
            Written::Gone | Written::Void => self.gone(),
            Written::Conflict => {
                self.memory.seen.owe(patch.clone());
                self.unwritten_outcome = true;
                self.due = self.refresh().await;
            }
            Written::Forbidden(error) => {
                self.give_up(&error);
            }
            Written::Landed(reply) => {
                if reply.facts().resource_version != self.raw.facts().resource_version {
                    self.count_round();
                }
                self.maybe_written = false;
                let version = Version::of(&reply.facts().resource_version);
                if !self.memory.version.covers(&version) {
                    self.know_reply(reply);
                    self.due = Due::Now;
                }
            }
            Written::Refused(message) => {
                self.log_refusal(patch, &message);
                self.drop_wishes("on_event handlers", &message);
            }
        }
    }

    /// What handlers wanted of the object was refused: told in the report of an operator that is to end.
    fn drop_wishes(&self, handlers: &str, message: &str) {
        if self.shared().setup.once {
            let (resource, about) = (&self.kind.resource, &self.context.about);
            let whose = if handlers.is_empty() {
                "handlers"
            } else {
                handlers
            };
            self.shared().give_up(format!(
                "{resource} {about} is not as {whose} wanted it, for that was refused: {message}"
            ));
        }
    }

    /// The first refusal drops what the handlers wanted, a second one the status too; then it is tried seldom.
    async fn refused(&mut self, mut effects: Effects, message: &str) -> Due {
        let pause = self
            .trouble
            .refusals
            .next_pause(self.context.shared.chance());
        self.trouble.refused += 1;
        self.unwritten_outcome = true;
        if self.gives_up(self.trouble.refused) {
            let error = ClusterError::Invalid(message.to_owned());
            return self.give_up(&error);
        }
        if effects.seen_if_refused.wants() {
            let called = effects.called.iter().map(|id| format!("'{id}'"));
            let called = called.collect::<Vec<_>>().join(", ");
            self.drop_wishes(&called, message);
        }
        if self.trouble.refused == 1 {
            self.memory.seen = effects.seen_if_refused.without_patch();
            return Due::Now;
        }
        effects.patch.unset(&["status"]);
        if !effects.patch.is_empty() {
            let finalizers = effects.expected_finalizers.as_deref();
            let left = self.left_of(&effects.patch, None);
            if let Written::Landed(reply) = self.send(&effects.patch, &left, finalizers).await {
                self.memory.seen = effects.seen;
                self.recover();
                self.know_reply(reply);
                return Due::Now;
            }
        }
        self.memory.seen = effects.seen_if_refused.without_patch();
        self.after(pause)
    }

    /// Repeat the request until the server has answered it; `left` of the patch was to be asked for just now.
    async fn send(
        &mut self,
        patch: &Patch,
        left: &Patch,
        finalizers: Option<&[String]>,
    ) -> Written {
        let mut left = Cow::Borrowed(left);
        self.log_patch(&left);
        let (first, longest) = self.shared().setup.limits.backoff;
        let mut backoff = Backoff::new(first, longest);
        let mut tries = 0;
        loop {
            tries += 1;
            self.context.go_on().await;
            let error = match self.apply(&left, finalizers).await {
                Ok(Some(reply)) => return Written::Landed(reply),
                Ok(None) | Err(ClusterError::NotFound(_)) => return Written::Gone,
                Err(ClusterError::Conflict(_)) => {
                    let text = "Could not apply the patch in full due to conflicts with newer changes. Will try on the next cycle soon.";
                    let left = left.as_value();
                    self.log(Level::DEBUG, format_args!("{text} Remaining: {left}"));
                    return Written::Conflict;
                }
                Err(ClusterError::Invalid(message)) => {
                    return Written::Refused(self.discreet(message));
                }
                Err(error @ ClusterError::Denied { .. }) if self.gives_up(tries) => {
                    return Written::Forbidden(error);
                }
                Err(error) => error,
            };
            self.maybe_written = true;
            let pause = pause_after(&error, &mut backoff, self.shared().chance());
            self.log_failure(Request::Patch, &error, pause);
            if !self.context.pause(pause).await {
                return self.last_try(&left, finalizers).await;
            }
            let newly = self.left_of(patch, None);
            // Where all of it is there, it may be our own doing, of which the answer was lost: let the server say.
            if !newly.is_empty() {
                left = Cow::Owned(newly);
            }
        }
    }

    /// The operator stops while a write is pending: one more attempt. A deleted object needs none.
    pub(super) async fn last_try(&self, patch: &Patch, finalizers: Option<&[String]>) -> Written {
        if self.context.is_deleted() {
            return Written::Void;
        }
        match self.apply(patch, finalizers).await {
            Ok(Some(reply)) => Written::Landed(reply),
            Ok(None) => Written::Gone,
            Err(error) => {
                let error = match error {
                    ClusterError::Invalid(message) => ClusterError::Invalid(self.discreet(message)),
                    error => error,
                };
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
        let cluster = &self.shared().setup.cluster;
        let (resource, facts) = (&self.kind.resource, self.raw.facts());
        let finalizers = finalizers.filter(|_| patch.get(&["metadata", "finalizers"]).is_some());
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
        let applied = cluster.apply_operations(resource, facts, changes).await?;
        if let Some(reply) = &applied {
            cluster.warn_if_lost(resource, &wanted, reply);
        }
        Ok(applied)
    }

    /// Leave to the server what is its own, whatever handlers have put into their patch.
    pub(super) fn keep_identity(&self, patch: &mut Patch) {
        if let Ok(found) = self.raw.body() {
            self.log_foreign(&strip(patch, &found), "only the server sets that");
        }
    }

    fn log_foreign(&self, lost: &[String], whose: &str) {
        if !lost.is_empty() {
            let lost = lost.join(", ");
            let text = "so it stays as it is; everything else in the patch is written";
            self.log(
                Level::WARN,
                format_args!("A handler wants to change {lost}: {whose}, {text}."),
            );
        }
    }

    /// The object as the patch wants it: merged, then changed by its functions, without those that panic. What is the operator's own is
    /// as the merge has left it.
    fn transformed(&self, found: &Value, patch: &Patch) -> Value {
        let mut wanted = found.clone();
        merge(&mut wanted, patch.as_value());
        let mut lost = BTreeSet::new();
        for function in patch.functions() {
            let mut changed = wanted.clone();
            let code = vec![UserCode::PatchFunctions];
            let called = || guarded(|| function.to(&mut changed));
            match self.context.watched(code, called) {
                Ok(()) => {
                    let foreign = restore(found, &mut changed);
                    self.log_foreign(&foreign, "only the server sets that");
                    let persistence = &self.shared().setup.persistence;
                    lost.extend(persistence.keep(&wanted, &mut changed));
                    wanted = changed;
                }
                Err(panic) => self.log(
                    Level::ERROR,
                    format_args!("A patch function is left out: {panic}"),
                ),
            }
        }
        let lost: Vec<String> = lost.into_iter().collect();
        self.log_foreign(&lost, "that belongs to the operator");
        wanted
    }

    /// After a conflict: what is the object now?
    async fn refresh(&mut self) -> Due {
        let pause = self
            .trouble
            .conflicts
            .next_pause(self.context.shared.chance());
        self.trouble.conflicted += 1;
        if self.trouble.conflicted > 2 && !self.context.pause(pause).await {
            return Due::Never;
        }
        let (first, longest) = self.shared().setup.limits.backoff;
        let mut backoff = Backoff::new(first, longest);
        loop {
            if self.has_news() {
                return Due::Never;
            }
            match self.read().await {
                Ok(Some(raw)) if raw.facts().uid == self.raw.facts().uid => {
                    self.look_for_rivals(&raw);
                    self.know(raw);
                    return Due::Now;
                }
                Ok(_) | Err(ClusterError::NotFound(_)) => {
                    self.gone();
                    return Due::Never;
                }
                Err(error @ ClusterError::Denied { .. })
                    if self.gives_up(self.trouble.conflicted) =>
                {
                    return self.give_up(&error);
                }
                Err(ClusterError::Denied { .. }) => return self.after(pause),
                Err(error) => {
                    let pause = pause_after(&error, &mut backoff, self.shared().chance());
                    self.log_failure(Request::Read, &error, pause);
                    if !self.context.pause(pause).await {
                        return Due::Never;
                    }
                }
            }
        }
    }

    /// Somebody may have written while handlers ran, even what is about to be written.
    fn look_into_the_mail(&mut self) {
        if let Some(raw) = self.news() {
            self.memory.self_triggered.end();
            self.look_for_rivals(&raw);
        }
    }

    /// The state that waits for the object, where it is a newer one.
    fn news(&self) -> Option<Raw> {
        let is_news = |state: &&Pending| !state.is_deletion() && !state.is_known_to(&self.memory);
        let raw = |it: &Mailbox| it.state().filter(is_news).map(|state| state.raw.clone());
        self.shared().queue.peek(&self.context.key, raw).flatten()
    }

    fn has_news(&self) -> bool {
        let queue = &self.shared().queue;
        queue.has_news(&self.context.key, &self.memory)
    }

    /// The patch without what the object says already, as far as is known: `body`, unless something newer waits.
    pub(super) fn left_of(&self, patch: &Patch, body: Option<&Body>) -> Patch {
        let patch = patch.clone();
        // Functions are given the state known, with all of the patch.
        if patch.is_empty() || !patch.functions().is_empty() {
            return patch;
        }
        match (self.news(), body) {
            (None, Some(body)) => patch.effective(body),
            (news, _) => match news.as_ref().unwrap_or(&self.raw).body() {
                Ok(body) => patch.effective(&body),
                Err(_) => patch,
            },
        }
    }

    /// Give the object up, since the operator is to end: told in its report.
    fn give_up(&self, error: &ClusterError) -> Due {
        let what = format!("{} cannot be written: {error}", self.kind.resource);
        self.shared().give_up(what);
        Due::Never
    }

    /// Nobody else has changed the object since its handlers have last done so.
    fn count_round(&mut self) {
        if self.memory.self_triggered.count() && self.shared().is_first_self_triggered(self.kind.id)
        {
            self.log(
                Level::WARN,
                format_args!(
                    "The handlers of this object have changed it 20 times in a row, and each change was one to be handled: from now on there \
                     are pauses between them. Let a handler write only what differs from what is there, or only to the status. Said once for \
                     {}.",
                    self.kind.resource
                ),
            );
        }
    }

    pub(super) async fn read(&mut self) -> Result<Option<Raw>, ClusterError> {
        self.context.go_on().await;
        let facts = self.raw.facts();
        let cluster = &self.shared().setup.cluster;
        let read = cluster.get(&self.kind.resource, facts.namespace.as_deref(), &facts.name);
        let read = read.await?;
        self.memory.answered = Some(Instant::now());
        Ok(read)
    }

    fn wake_at(&self, effects: &Effects) -> Due {
        match effects.wake_at {
            None => Due::Never,
            Some(at) if at <= self.shared().setup.clock.now() => Due::Now,
            Some(at) => Due::At(at),
        }
    }

    fn gone(&self) {
        self.log(
            Level::DEBUG,
            format_args!("Patching was skipped: the object does not exist anymore."),
        );
    }

    /// As Kopf says it: where to, and what.
    fn log_patch(&self, patch: &Patch) {
        if !self.shared().setup.policy.verbose {
            return;
        }
        let (how, more) = if patch.functions().is_empty() {
            ("Merge-patching", "")
        } else {
            ("JSON-patching", ", and by functions")
        };
        let log = |what, with: &Value| {
            let line = format_args!("{how} the {what} with: {with}{more}");
            self.log(Level::DEBUG, line);
        };
        let all = patch.as_value();
        let apart = self.kind.resource.has_status_subresource();
        let status = all.get("status").filter(|_| apart);
        if let Some(status) = status {
            log("status", &serde_json::json!({"status": status}));
        }
        let mut rest = all.clone();
        if let (Some(_), Some(rest)) = (status, rest.as_object_mut()) {
            rest.remove("status");
        }
        if status.is_none() || rest.as_object().is_some_and(|rest| !rest.is_empty()) {
            log("resource", &rest);
        }
    }

    fn is_secret(&self) -> bool {
        let resource = &self.kind.resource;
        resource.group.is_empty() && resource.kind == "Secret"
    }

    /// What the server says, without what may repeat the values of a Secret.
    fn discreet(&self, message: String) -> String {
        if self.is_secret() {
            "the server's reason is left out, for it may repeat what the Secret holds".to_owned()
        } else {
            message
        }
    }

    fn log_refusal(&self, patch: &Patch, message: &str) {
        const LONGEST: usize = 2000;
        let patch = if self.is_secret() {
            format!("of {}", fields(patch.as_value()).join(", "))
        } else {
            patch.as_value().to_string()
        };
        self.log(
            Level::ERROR,
            format_args!(
                "Patching was refused: {}. The refused patch: {}",
                shortened(message, LONGEST),
                shortened(&patch, LONGEST)
            ),
        );
    }

    /// Told at WARNING by the first object that fails for that reason, and by the last one when it is over.
    fn log_failure(&mut self, request: Request, error: &ClusterError, pause: Duration) {
        let name = error.outage(&self.kind.resource);
        let outage = self.trouble.outage.take();
        let (outage, is_news) = match outage.filter(|outage| outage.name() == name) {
            Some(outage) => (outage, false),
            None => self.shared().setup.cluster.outages().join(&name),
        };
        self.trouble.outage = Some(outage);
        self.context.report(&Happening::RequestFailed {
            request,
            error: error.to_string(),
            pause,
            is_news,
        });
        if let ClusterError::Denied { rule, .. } = error
            && !rule.is_empty()
            && is_news
        {
            self.context
                .report(&Happening::PermissionMissing { rule: rule.clone() });
        }
    }

    /// All is well with the object again.
    fn recover(&mut self) {
        let outage = std::mem::take(&mut self.trouble).outage;
        if let Some(over) = outage.and_then(Outage::leave) {
            self.context.report(&Happening::OutageOver {
                waiting: over.joined,
                lasted: over.lasted,
            });
        }
    }
}

/// The paths of all values of a patch.
fn fields(patch: &Value) -> Vec<String> {
    fn collect(path: &str, value: &Value, found: &mut Vec<String>) {
        match value.as_object() {
            Some(members) => {
                for (key, value) in members {
                    let dot = if path.is_empty() { "" } else { "." };
                    collect(&format!("{path}{dot}{key}"), value, found);
                }
            }
            None => found.push(path.to_owned()),
        }
    }
    let mut found = Vec::new();
    collect("", patch, &mut found);
    found
}

/// How long to wait after a failed request: as the server asks, or longer with every failure.
fn pause_after(error: &ClusterError, backoff: &mut Backoff, chance: &Chance) -> Duration {
    /// Whoever asks for more is asked again by then: a mistake in a header must not stop an object for a year.
    const LONGEST: Duration = Duration::from_secs(300);
    let asked_for = error.retry_after().unwrap_or_default().min(LONGEST);
    backoff.next_pause(chance).max(asked_for)
}
