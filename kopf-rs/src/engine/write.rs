//! Bringing effects to the object: what is remembered, and what is due, after each way in which a write can end.
//!
//! A finished handler's outcome is never lost here: only the write is repeated. Must not know how it is repeated.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::error::ClusterError;
use crate::cluster::pruned::PrunedPaths;
use crate::engine::context::WorkerContext;
use crate::engine::mailbox::{Mailbox, Pending};
use crate::engine::memory::{SelfTriggered, Version};
use crate::engine::resource_handlers::ResourceHandlers;
use crate::engine::transform::{Transformer, added_by_functions};
use crate::engine::turns::TurnPermit;
use crate::engine::worker::{Due, Trouble, Worker};
use crate::engine::writer::Writer;
use crate::engine::writer::job::{Job, Written};
use crate::engine::writer::policy::Patience;
use crate::happening::Happening;
use crate::happening::handling::Handling;
use crate::happening::patching::{PatchPart, Patching};
use crate::object::body::Body;
use crate::object::discreet::patch_of_secret;
use crate::object::patch::Patch;
use crate::object::raw::Raw;
use crate::object::resource::Resource;
use crate::reaction::memory::ObjectMemory;
use crate::reaction::settle::Effects;
use crate::state::progress::shortened;

impl Worker {
    /// Write what there is to write; when to look at the object again.
    pub(super) async fn deliver(&mut self, effects: Effects) -> Due {
        let wake = self.wake_at(&effects);
        let planned_for = (!self.background_went_on).then_some(&*effects.body);
        let left = self.left_of(&effects.patch, planned_for);
        if left.is_empty() {
            self.memory.seen = effects.seen;
            self.unwritten_outcome = false;
            return wake;
        }
        if self.context.is_deleted() {
            self.report(Patching::Skipped);
            // What has ended counts for the deletion that waits.
            self.memory.seen = effects.seen_if_refused;
            return Due::Never;
        }
        self.look_into_the_mail();
        let finalizers = effects.expected_finalizers.as_deref();
        let (left, written) = self.write(left, finalizers, Patience::Endless).await;
        match written {
            Written::Landed(reply) => {
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

    /// Remember what has landed. Whether the object has changed by it.
    fn has_landed(&mut self, seen: ObjectMemory, reply: Raw) -> bool {
        self.memory.seen = seen;
        self.trouble = Trouble::default();
        self.unwritten_outcome = false;
        let changed = reply.facts().resource_version != self.raw.facts().resource_version;
        self.know_reply(reply);
        changed
    }

    /// When to look at what an own write has made of the object.
    fn next_round(&self) -> Due {
        if self
            .shared()
            .is_already_handled(&self.kind, &self.memory, &self.raw)
        {
            self.context
                .report(&Happening::Handling(Handling::Unchanged));
            return Due::Never;
        }
        let pause = self.memory.lately.self_triggered.pause();
        pause.map_or(Due::Now, |pause| self.after(pause))
    }

    /// What was to be written is still to be written, unless that is pointless by now. When to look at the object again.
    pub(super) async fn is_unwritten(&mut self, written: Written) -> Due {
        match written {
            Written::Outdated(found) => {
                self.unwritten_outcome = true;
                self.plan_anew(found).await
            }
            Written::Forbidden(error) => self.give_up(&error),
            Written::Gone { .. } => {
                self.report(Patching::Skipped);
                self.unwritten_outcome = true;
                self.is_missing(None)
            }
            Written::GivenUp(error) => {
                self.has_given_up(&error);
                Due::Never
            }
            Written::Void | Written::Landed(_) | Written::Refused(_) => Due::Never,
        }
    }

    /// Write what raw-event handlers want changed, apart from any cycle.
    pub(super) async fn deliver_extra(&mut self, patch: &Patch) {
        if patch.is_empty() {
            return;
        }
        if self.outdated {
            // No more than its name may be known: it is read first.
            self.memory.seen.keep_for_later(patch.clone());
            self.unwritten_outcome = true;
            self.due = Due::Now;
            return;
        }
        let left = self.left_of(patch, None);
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
            gone @ Written::Gone { .. } => {
                self.memory.seen.keep_for_later(patch.clone());
                self.due = self.is_unwritten(gone).await;
            }
            written => {
                self.is_unwritten(written).await;
            }
        }
    }

    /// What handlers wanted of the object was refused: told in the report of an operator that is to end.
    pub(super) fn drop_wishes(&self, handlers: &str, message: &str) {
        if self.shared().setup.once {
            let (resource, about) = (&self.kind.resource, &self.context.about);
            self.shared().give_up(format!(
                "{resource} {about}: the server has refused the changes of {handlers}: {message}"
            ));
        }
    }

    /// The first refusal drops what the handlers wanted, a second one the status too; then it is tried seldom.
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
            let whose = if called.is_empty() {
                "handlers"
            } else {
                &called
            };
            self.drop_wishes(whose, message);
        }
        if self.trouble.refused == 1 {
            self.memory.seen = effects.seen_if_refused.without_patch();
            return Due::Now;
        }
        effects.patch.forget_status();
        if !effects.patch.is_empty() {
            let finalizers = effects.expected_finalizers.as_deref();
            let left = self.left_of(&effects.patch, None);
            if let (_, Written::Landed(reply)) =
                self.write(left, finalizers, Patience::Endless).await
            {
                self.has_landed(effects.seen, reply);
                return Due::Now;
            }
        }
        self.memory.seen = effects.seen_if_refused.without_patch();
        self.after(pause)
    }

    /// Write this patch, and what has become of it.
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
        let plan = |state: &Raw| {
            let transformer = Transformer {
                logger: &logger,
                shared: &shared,
                about: &about,
                pruned: pruned.as_ref(),
            };
            transformer.changes(state, &patch)
        };
        let replaces = patch.get(&["metadata", "finalizers"]).is_some();
        let finalizers = finalizers.filter(|_| replaces);
        let written = match Job::write(&self.kind.resource, &self.raw, &plan, finalizers) {
            Err(message) => Written::Refused(message),
            Ok(mut job) => {
                job.set_patience(patience);
                if patience == Patience::None && self.writer.maybe_written {
                    job.may_have_landed();
                }
                if job.is_outdated() {
                    Written::Outdated(Ok(self.raw.clone()))
                } else {
                    carry_out(&mut self.writer, &mut self.context, job).await
                }
            }
        };
        let written = match written {
            Written::Refused(message) => Written::Refused(discreet(&self.kind.resource, message)),
            Written::Outdated(found) => {
                let patch = self.as_told(&shown);
                self.report(Patching::Outdated { patch });
                if found.is_ok() {
                    self.memory.lately.answered = Some(Instant::now());
                }
                Written::Outdated(found)
            }
            written => written,
        };
        (shown, written)
    }

    /// The patch for the object as far as it is known.
    fn resolved(&self, patch: &Arc<Patch>) -> Arc<Patch> {
        if patch.status_edits().is_empty() {
            return patch.clone();
        }
        let now = self.shared().setup.clock.now();
        let body = self.raw.body();
        body.map_or_else(
            |_| patch.clone(),
            |body| Arc::new(patch.resolved(&body, now)),
        )
    }

    /// The operator stops: write what is left, without another plan.
    pub(super) async fn write_for_the_last_time(&mut self, effects: Effects) -> Written {
        let left = self.left_of(&effects.patch, Some(&effects.body));
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

    /// The operator stops, and this was the last try: told in the end, with all others that failed for that reason.
    pub(super) fn has_given_up(&self, error: &ClusterError) {
        let resource = &self.kind.resource;
        let text = discreet(resource, error.to_string());
        if matches!(error, ClusterError::Fenced) {
            // Not lost: whoever is at work makes the attempt again.
            self.report(Patching::NotSent);
            return;
        }
        let lost = &self.shared().lost_outcomes;
        lost.add(
            error.outage(resource),
            &self.context.about.uid,
            text.clone(),
        );
        self.report(Patching::GivenUp { error: text });
    }

    /// The object as it is now, seen as one of `kind`.
    pub(super) async fn read(&mut self, kind: &ResourceHandlers, patience: Patience) -> Written {
        let mut job = Job::read(&kind.resource, &self.raw);
        job.set_patience(patience);
        let written = carry_out(&mut self.writer, &mut self.context, job).await;
        if matches!(written, Written::Outdated(Ok(_))) {
            self.memory.lately.answered = Some(Instant::now());
        }
        written
    }

    /// Another state stands in the way: plan anew for that one.
    async fn plan_anew(&mut self, found: Result<Raw, ClusterError>) -> Due {
        if !self.writer.pause_before_plan(&mut self.context).await || self.has_news() {
            return Due::Never;
        }
        match found {
            Ok(raw) => {
                self.look_for_duplicates(&raw);
                self.know_answer(raw);
                Due::Now
            }
            Err(error) if self.gives_up(self.writer.conflicted()) => self.give_up(&error),
            Err(error) => {
                // The watch will tell.
                self.tell_unreadable(&error);
                Due::Now
            }
        }
    }

    /// Somebody may have written while handlers ran, even what is about to be written.
    pub(super) fn look_into_the_mail(&mut self) {
        if let Some(raw) = self.news() {
            self.memory.lately.self_triggered.end();
            self.look_for_duplicates(&raw);
        }
    }

    /// The state that waits for the object, where it is a newer one.
    fn news(&self) -> Option<Raw> {
        let is_news = |state: &&Pending| !state.is_absence() && !state.is_known_to(&self.memory);
        let raw = |it: &Mailbox| it.state().filter(is_news).map(|state| state.raw.clone());
        self.shared().queue.peek(&self.context.key, raw).flatten()
    }

    fn has_news(&self) -> bool {
        let queue = &self.shared().queue;
        queue.has_news(&self.context.key, &self.memory)
    }

    /// The patch without what the object says already, as far as is known: `body`, unless something newer waits.
    pub(super) fn left_of(&self, patch: &Patch, body: Option<&Body>) -> Patch {
        let patch = self.that_is_kept(patch);
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

    /// The patch without what the schema drops, as far as writes have shown.
    fn that_is_kept(&self, patch: &Patch) -> Patch {
        let patch = patch.clone();
        match self.pruned() {
            Some(pruned) => patch.without(&pruned),
            None => patch,
        }
    }

    fn pruned(&self) -> Option<PrunedPaths> {
        let cluster = &self.shared().setup.cluster;
        cluster.pruned(&self.kind.resource)
    }

    /// Give the object up, since the operator is to end: told in its report.
    pub(super) fn give_up(&self, error: &ClusterError) -> Due {
        let what = format!("{} cannot be written: {error}", self.kind.resource);
        self.shared().give_up(what);
        Due::Never
    }

    /// Nobody else has changed the object since its handlers have last done so.
    fn count_round(&mut self) {
        if self.memory.lately.self_triggered.count()
            && self.shared().is_first_self_triggered(self.kind.id)
        {
            self.report(Patching::SelfTriggered {
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

    fn report(&self, patching: Patching) {
        self.context.report(&Happening::Patching(patching));
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
        let patch = self.as_told(patch);
        for part in parts {
            self.report(Patching::Begins {
                patch: patch.clone(),
                part: *part,
            });
        }
    }

    /// The patch without the values of a Secret.
    fn as_told(&self, patch: &Arc<Patch>) -> Arc<Patch> {
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
        self.report(Patching::Refused {
            message: shortened(message, LONGEST),
            patch: shortened(&patch, LONGEST),
        });
    }
}

/// Requests, which hold a turn for a while only: others wait for it.
async fn carry_out(writer: &mut Writer, context: &mut WorkerContext, job: Job<'_>) -> Written {
    let turn = context.turn();
    let written = writer.carry_out(context, job);
    turn.held_for(TurnPermit::WRITE, written).await
}

fn is_secret(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.kind == "Secret"
}

/// What the server says, without what may repeat the values of a Secret.
fn discreet(resource: &Resource, message: String) -> String {
    if is_secret(resource) {
        "the server's reason is not shown, because it may contain values of the Secret".to_owned()
    } else {
        message
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
