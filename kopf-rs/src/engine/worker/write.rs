//! Writes effects to the object, and updates memory and schedule after each possible end of a write.
//!
//! Never loses the outcome of a finished handler: only the write is repeated. Must not know how requests are repeated.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::error::ClusterError;
use crate::cluster::pruned::PrunedPaths;
use crate::engine::context::WorkerContext;
use crate::engine::mailbox::{Mailbox, Pending, Snapshot};
use crate::engine::memory::{Memory, SelfTriggered, Version};
use crate::engine::rewritten::Rewritten;
use crate::engine::transform::{Transformer, added_by_functions};
use crate::engine::turns::TurnPermit;
use crate::engine::worker::{Due, Trouble, Worker};
use crate::engine::writer::Writer;
use crate::engine::writer::job::{Job, Shown, Written};
use crate::engine::writer::policy::Patience;
use crate::happening::handling::Handling;
use crate::happening::working::{PatchPart, Patching};
use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::object::raw::Raw;
use crate::object::redact::patch_of_secret;
use crate::object::resource::Resource;
use crate::reaction::memory::ObjectMemory;
use crate::reaction::settle::Effects;
use crate::state::progress::shortened;

impl Worker {
    /// Writes the effects. Returns when to requeue the object.
    pub(super) async fn deliver(&mut self, effects: Effects) -> Due {
        let wake = self.wake_at(&effects);
        let planned_for = (!self.background_went_on).then_some(&*effects.body);
        let left = self.without_noops(&effects.patch, planned_for);
        if left.is_empty() {
            self.memory.seen = effects.seen;
            self.unwritten_outcome = false;
            return wake;
        }
        if self.context.is_deleted() {
            self.context.report(&Patching::Skipped);
            // Outcomes still count for the deletion that waits.
            self.memory.seen = effects.seen_if_refused;
            return Due::Never;
        }
        self.check_newer_state();
        let finalizers = effects.expected_finalizers.as_deref();
        let (left, written) = self.write(left, finalizers, Patience::Endless).await;
        match written {
            Written::Landed(reply) => {
                self.count_removed_finalizer(&left, finalizers);
                let has_changed = self.has_landed(effects.seen, reply);
                if has_changed && effects.concluded {
                    self.count_round();
                }
                if has_changed { self.next_round() } else { wake }
            }
            Written::Refused(_) if effects.seen_if_refused.wanted_in_background().is_some() => {
                self.memory.seen = effects.seen_if_refused;
                self.write_apart().await
            }
            Written::Refused(message) => {
                self.report_refusal(&left, &message);
                self.refused(effects, &message).await
            }
            written => {
                self.memory.seen = effects.seen_if_refused;
                self.is_unwritten(written).await
            }
        }
    }

    /// Remembers a write that has landed. Returns whether the object has changed.
    fn has_landed(&mut self, seen: ObjectMemory, reply: Raw) -> bool {
        self.memory.seen = seen;
        self.trouble = Trouble::default();
        self.unwritten_outcome = false;
        let changed = reply.facts().resource_version != self.raw.facts().resource_version;
        self.know_reply(reply);
        changed
    }

    /// Returns when to requeue the object after an own write.
    fn next_round(&self) -> Due {
        if self.shared().is_already_handled(&self.kind, &self.memory, &self.raw) {
            self.context.report(&Handling::Unchanged);
            return Due::Never;
        }
        let pause = self.memory.recent.self_triggered.pause();
        pause.map_or(Due::Now, |pause| self.after(pause))
    }

    /// Keeps pending writes after a failed write, unless they are pointless by now. Returns when to requeue the object.
    pub(super) async fn is_unwritten(&mut self, written: Written) -> Due {
        match written {
            Written::Outdated(found) => {
                self.unwritten_outcome = true;
                self.plan_anew(found).await
            }
            Written::Forbidden(error) => self.give_up(&error),
            Written::Gone { .. } => {
                self.context.report(&Patching::Skipped);
                self.unwritten_outcome = true;
                self.is_missing(None)
            }
            Written::GivenUp(error) => {
                self.has_given_up(&error);
                Due::Never
            }
            Written::Interrupted => {
                self.unwritten_outcome = true;
                Due::Now
            }
            Written::Void | Written::Landed(_) | Written::Refused(_) | Written::Read(_) => Due::Never,
        }
    }

    /// Writes the changes of raw-event handlers, apart from any cycle.
    pub(super) async fn deliver_extra(&mut self, patch: &Patch) {
        if patch.is_empty() {
            return;
        }
        if self.outdated {
            // Only the name of the object may be known, so it is read first.
            self.memory.seen.keep_for_later(patch.clone());
            self.unwritten_outcome = true;
            self.due = Due::Now;
            return;
        }
        let left = self.without_noops(patch, None);
        if left.is_empty() {
            return;
        }
        let (sent, written) = self.write(left, None, Patience::Endless).await;
        match written {
            Written::Landed(reply) => {
                if reply.facts().resource_version != self.raw.facts().resource_version {
                    self.count_round();
                }
                let version = Version::of(&reply.facts().resource_version);
                if !self.memory.version.covers(&version) {
                    self.know_reply(reply);
                    self.due = Due::Now;
                }
            }
            Written::Refused(message) => {
                self.report_refusal(&sent, &message);
                self.drop_wishes("on_event handlers", &message);
            }
            Written::Outdated(found) => {
                self.memory.seen.keep_for_later(patch.clone());
                self.due = self.is_unwritten(Written::Outdated(found)).await;
            }
            later @ (Written::Gone { .. } | Written::Interrupted) => {
                self.memory.seen.keep_for_later(patch.clone());
                self.due = self.is_unwritten(later).await;
            }
            written => {
                self.is_unwritten(written).await;
            }
        }
    }

    /// Records refused changes for the report of an operator with `once`.
    pub(super) fn drop_wishes(&self, handlers: &str, message: &str) {
        if self.shared().setup.once {
            let (resource, about) = (&self.kind.resource, &self.context.about);
            self.shared().give_up(format!(
                "{resource} {about}: the server has refused the changes of {handlers}: {message}"
            ));
        }
    }

    /// Handles a refusal: the first one drops the changes of the handlers, the second one also their status, and later ones back off.
    /// Returns when to requeue the object.
    async fn refused(&mut self, mut effects: Effects, message: &str) -> Due {
        let pause = self.trouble.refusals.next_pause(self.context.shared.rng());
        self.trouble.refused += 1;
        self.unwritten_outcome = true;
        if self.gives_up(self.trouble.refused) {
            let error = ClusterError::Invalid(message.to_owned());
            return self.give_up(&error);
        }
        if effects.seen_if_refused.wants() {
            let called = effects.called.iter().map(|id| format!("'{id}'"));
            let called = called.collect::<Vec<_>>().join(", ");
            let whose = if called.is_empty() { "handlers" } else { &called };
            self.drop_wishes(whose, message);
        }
        if self.trouble.refused == 1 {
            self.memory.seen = effects.seen_if_refused.without_patch();
            return Due::Now;
        }
        effects.patch.forget_status();
        if !effects.patch.is_empty() {
            let finalizers = effects.expected_finalizers.as_deref();
            let left = self.without_noops(&effects.patch, None);
            if let (_, Written::Landed(reply)) = self.write(left, finalizers, Patience::Endless).await {
                self.has_landed(effects.seen, reply);
                return Due::Now;
            }
        }
        self.memory.seen = effects.seen_if_refused.without_patch();
        self.after(pause)
    }

    /// Writes this patch. Returns the patch as resolved, and the result.
    pub(super) async fn write(
        &mut self,
        patch: Patch,
        finalizers: Option<&[String]>,
        patience: Patience,
    ) -> (Arc<Patch>, Written) {
        let patch = Arc::new(patch);
        let shown = self.resolved(&patch);
        self.report_begin(&shown);
        let (shared, about) = (self.context.shared.clone(), self.context.about.clone());
        let logger = self.context.logger().clone();
        let pruned = self.pruned();
        let definitions = shared.setup.cluster.definitions(&self.kind.resource);
        let rewritten = believed(&self.memory, definitions);
        let unsure = self.memory.recent.writes.as_deref().map(|it| &it.unsure);
        let plan = |state: &Raw| {
            let transformer = Transformer {
                logger: &logger,
                shared: &shared,
                about: &about,
                pruned: pruned.as_ref(),
                rewritten,
                unsure,
            };
            transformer.changes(state, &patch)
        };
        let replaces = patch.get(&["metadata", "finalizers"]).is_some();
        let finalizers = finalizers.filter(|_| replaces);
        let mut shown_by_server = Shown::default();
        let written = match Job::write(&self.kind.resource, &self.raw, &plan, finalizers) {
            Err(message) => Written::Refused(message),
            Ok(mut job) => {
                job.set_patience(patience);
                job.tell(&mut shown_by_server);
                if job.is_outdated() {
                    Written::Outdated(Ok(self.raw.clone()))
                } else {
                    run_with_permit(&mut self.writer, &mut self.context, job).await
                }
            }
        };
        self.learn(shown_by_server, definitions, (&patch, &written));
        let written = match written {
            Written::Refused(message) => Written::Refused(redacted_message(&self.kind.resource, message)),
            written => written,
        };
        if let Written::Outdated(found) = &written {
            let patch = self.redacted(&shown);
            self.context.report(&Patching::Outdated { patch });
            if found.is_ok() {
                self.memory.recent.answered = Some(Instant::now());
            }
        }
        (shown, written)
    }

    /// Stores the facts that the requests of a write have shown.
    fn learn(&mut self, shown: Shown, definitions: u64, (patch, written): (&Patch, &Written)) {
        let is_landed = matches!(written, Written::Landed(_));
        let is_news = !(shown.rewritten.is_empty() && shown.maybe_landed.is_empty());
        if !is_news && self.memory.recent.writes.is_none() {
            return;
        }
        let is_known = believed(&self.memory, definitions).is_some();
        let writes = self.memory.recent.writes.get_or_insert_default();
        if is_landed {
            writes.unsure.settle(patch);
        } else {
            for operations in shown.maybe_landed {
                writes.unsure.add(operations, patch);
            }
        }
        if !is_known {
            writes.rewritten = None;
        }
        for seen in shown.rewritten {
            let new = || Rewritten::new(Instant::now(), definitions);
            writes.rewritten.get_or_insert_with(new).note(seen);
        }
    }

    /// Returns the patch for the object as it is known.
    fn resolved(&self, patch: &Arc<Patch>) -> Arc<Patch> {
        if patch.status_edits().is_empty() {
            return patch.clone();
        }
        let now = self.shared().setup.clock.now();
        let body = self.raw.body();
        body.map_or_else(|_| patch.clone(), |body| Arc::new(patch.resolved(&body, now)))
    }

    /// Writes the rest while the operator stops, without another plan.
    pub(super) async fn write_for_the_last_time(&mut self, effects: Effects) -> Written {
        let left = self.without_noops(&effects.patch, Some(&effects.body));
        if left.is_empty() || self.context.is_deleted() {
            self.memory.seen = effects.seen;
            return Written::Void;
        }
        self.memory.seen = effects.seen_if_refused;
        let finalizers = effects.expected_finalizers.as_deref();
        let (patch, written) = self.write(left, finalizers, Patience::Last).await;
        match &written {
            Written::Landed(reply) => {
                self.has_landed(effects.seen, reply.clone());
            }
            Written::Refused(_) if self.memory.seen.wanted_in_background().is_some() => {}
            Written::Refused(message) => self.report_refusal(&patch, message),
            Written::GivenUp(error) => self.has_given_up(error),
            _ => {}
        }
        written
    }

    /// Records that the last attempt has failed; one line for each outage reports that at the end.
    pub(super) fn has_given_up(&self, error: &ClusterError) {
        let resource = &self.kind.resource;
        let text = redacted_message(resource, error.to_string());
        if matches!(error, ClusterError::Fenced) {
            // Not lost: the leading instance makes the attempt again.
            self.context.report(&Patching::NotSent);
            return;
        }
        let lost = &self.shared().lost_outcomes;
        lost.add(error.outage(resource), &self.context.about.uid, text.clone());
        self.context.report(&Patching::GivenUp { error: text });
    }

    /// Plans again for another state that the server has. Returns when to do so.
    async fn plan_anew(&mut self, found: Result<Raw, ClusterError>) -> Due {
        let is_undisturbed = self.writer.pause_before_plan(&mut self.context).await;
        let has_news = |mailbox: &Mailbox| mailbox.has_news(&self.memory);
        if !is_undisturbed || self.shared().queue.peek(&self.context.key, has_news) == Some(true) {
            return Due::Never;
        }
        match found {
            Ok(raw) => {
                self.know_answer(raw);
                Due::Now
            }
            Err(error) if self.gives_up(self.writer.conflicted()) => self.give_up(&error),
            Err(error) => {
                // The watch will report the state.
                self.tell_unreadable(&error);
                Due::Now
            }
        }
    }

    /// Examines a newer state that has arrived while handlers ran, since another writer may already have made the same change.
    pub(super) fn check_newer_state(&mut self) {
        if self.waiting_change().is_some() {
            self.memory.recent.self_triggered.end();
        }
    }

    /// Returns the state that waits in the mailbox, if it contains a change.
    pub(super) fn waiting_change(&self) -> Option<Snapshot> {
        let change = |mailbox: &Mailbox| mailbox.change(&self.memory).map(Pending::snapshot);
        self.shared().queue.peek(&self.context.key, change).flatten()
    }

    /// Returns the patch without values that the object already has: in `body`, or in a newer state that waits.
    pub(super) fn without_noops(&self, patch: &Patch, body: Option<&Body>) -> Patch {
        // Functions are applied to the known state together with the whole patch.
        if patch.is_empty() || !patch.functions().is_empty() {
            return self.without_pruned(patch.clone());
        }
        match (self.waiting_change(), body) {
            (None, Some(body)) => self.without_present(patch, body),
            (change, _) => match change.as_ref().map_or(&self.raw, |it| &it.raw).body() {
                Ok(body) => self.without_present(patch, &body),
                Err(_) => self.without_pruned(patch.clone()),
            },
        }
    }

    /// Returns the patch without values that the object already has, in the form in which the server stores them.
    fn without_present(&self, patch: &Patch, body: &Body) -> Patch {
        let definitions = self.shared().setup.cluster.definitions(&self.kind.resource);
        let rewritten = believed(&self.memory, definitions);
        let leave_out_rewritten = |mut patch: Patch| {
            if let Some(rewritten) = rewritten.filter(|_| !patch.is_empty()) {
                rewritten.leave_out_of(&mut patch, body);
            }
            patch
        };
        // A value may have been sent before it was known which fields the schema prunes, or afterwards.
        let left = leave_out_rewritten(patch.clone());
        leave_out_rewritten(self.without_pruned(left).effective(body))
    }

    /// Returns the patch without fields that the schema is known to prune.
    fn without_pruned(&self, patch: Patch) -> Patch {
        match self.pruned() {
            Some(pruned) => patch.without(&pruned),
            None => patch,
        }
    }

    fn pruned(&self) -> Option<PrunedPaths> {
        let cluster = &self.shared().setup.cluster;
        cluster.pruned(&self.kind.resource)
    }

    /// Gives the object up because the operator runs with `once`, and records that for its report. Returns [`Due::Never`].
    pub(super) fn give_up(&self, error: &ClusterError) -> Due {
        let what = format!("{} cannot be written: {error}", self.kind.resource);
        self.shared().give_up(what);
        Due::Never
    }

    /// Counts a landed edit that adds or removes the operator's own finalizer.
    fn count_removed_finalizer(&mut self, written: &Patch, before: Option<&[String]>) {
        let sent = written.get(&["metadata", "finalizers"]);
        let (Some(before), Some(sent)) = (before, sent) else {
            return;
        };
        let own = &*self.shared().setup.persistence.finalizer;
        let was_held = before.iter().any(|it| it == own);
        let is_held = sent.as_array().is_some_and(|all| all.iter().any(|it| it == own));
        let recent = &mut self.memory.recent;
        recent.count_removed_finalizer(was_held, is_held);
    }

    /// Counts a round of self-triggered changes: no other writer has changed the object since its handlers last did.
    fn count_round(&mut self) {
        if self.memory.recent.self_triggered.count() && self.shared().is_first_self_triggered(self.kind.id) {
            self.context.report(&Patching::SelfTriggered {
                resource: Box::new((*self.kind.resource).clone()),
                times: SelfTriggered::FREE,
            });
        }
    }

    fn wake_at(&self, effects: &Effects) -> Due {
        match effects.wake_at {
            None => Due::Never,
            Some(at) if at <= self.shared().setup.clock.now() => Due::Now,
            Some(at) => Due::At(at),
        }
    }

    fn report_begin(&self, patch: &Arc<Patch>) {
        let has = |status: bool| {
            let mut members = patch.as_value().as_object().into_iter().flatten();
            members.any(|(key, _)| (key == "status") == status)
        };
        let parts: &[PatchPart] = match (self.kind.resource.has_status_subresource(), has(true)) {
            (true, true) if has(false) => &[PatchPart::Status, PatchPart::Rest],
            (true, true) => &[PatchPart::Status],
            _ => &[PatchPart::All],
        };
        let patch = self.redacted(patch);
        for part in parts {
            self.context.report(&Patching::Begins { patch: patch.clone(), part: *part });
        }
    }

    /// Returns the patch with the values of a Secret redacted.
    fn redacted(&self, patch: &Arc<Patch>) -> Arc<Patch> {
        if is_secret(&self.kind.resource) {
            Arc::new(patch_of_secret(patch, &self.context.about.uid))
        } else {
            patch.clone()
        }
    }

    pub(super) fn report_refusal(&self, patch: &Patch, message: &str) {
        const LONGEST: usize = 2000;
        let added = added_by_functions(&self.raw, patch);
        let patch = if is_secret(&self.kind.resource) {
            let added = added.paths().map(str::to_owned);
            let fields = fields(patch.as_value()).into_iter().chain(added);
            format!("of {}", fields.collect::<Vec<_>>().join(", "))
        } else if patch.functions().is_empty() {
            patch.as_value().to_string()
        } else {
            format!("{}, and by functions: {added}", patch.as_value())
        };
        self.context.report(&Patching::Refused {
            message: shortened(message, LONGEST),
            patch: shortened(&patch, LONGEST),
        });
    }
}

/// Returns the rewritings that are still trusted.
fn believed(memory: &Memory, definitions: u64) -> Option<&Rewritten> {
    let rewritten = memory.recent.writes.as_ref()?.rewritten.as_ref();
    rewritten.filter(|it| it.is_believed(Instant::now(), definitions))
}

/// Executes a job. Releases the cycle permit if that takes long, since others wait for it.
pub(super) async fn run_with_permit(
    writer: &mut Writer,
    context: &mut WorkerContext,
    job: Job<'_>,
) -> Written {
    let turn = context.turn();
    let written = writer.run_job(context, job);
    turn.held_for(TurnPermit::WRITE, written).await
}

fn is_secret(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.kind == "Secret"
}

/// Redacts a message of the server that may repeat values of a Secret.
fn redacted_message(resource: &Resource, message: String) -> String {
    if is_secret(resource) {
        "the server's reason is not shown, because it may contain values of the Secret".to_owned()
    } else {
        message
    }
}

/// Returns the paths of all values of a patch.
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
