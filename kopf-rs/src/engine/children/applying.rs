//! Applies children: sends the requests, repeats them, and remembers the answers.
//!
//! `object::child` decides which objects are children, `reaction::children` decides which request to send. Must not know why a handler wants
//! a child.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::child::{ApplyReply, ApplyRequest};
use crate::cluster::error::ClusterError;
use crate::engine::children::child_table::{AppliedState, Known};
use crate::engine::children::directory::{OfOwner, OwnerName};
use crate::engine::children::refusal::{is_immutable, refused_as_first};
use crate::engine::children::task::stability::note_restored;
use crate::engine::children::task::{TRIES, Target, Task, Trouble, Wanted, pauses};
use crate::engine::children::{ChildApplier, Writing};
use crate::engine::owners::OwnerNews;
use crate::handler::child_requests::{ChildError, ChildReply, ChildWish};
use crate::happening::working::ChildHappening;
use crate::object::child::former::taken_over;
use crate::object::child::taken::taken;
use crate::object::child::{ChildSight, Claim, claim, noted_in, others_of, released, was_there};
use crate::object::essence::{Essence, digest};
use crate::reaction::children::{Author, ChildrenMemory, Step};

/// The result of one request.
enum Tried {
    Done(ApplyReply),
    Next(Step),
}

// === impl ===

impl ChildApplier {
    pub(super) async fn apply_child(&self, wish: &ChildWish) -> Result<ChildReply, ChildError> {
        if wish.context.owner.is_deleting() {
            return Err(ChildError::OwnerTerminating);
        }
        let task = self.task(wish).await?;
        self.apply_task(task).await
    }

    pub(super) async fn apply_task(&self, mut task: Task<'_>) -> Result<ChildReply, ChildError> {
        let context = &task.wish.context;
        let of_owner = context.memo.get_or_default::<OfOwner>();
        let owner = OwnerName { uid: task.owner.uid.clone(), shown: task.owner.shown() };
        if let Err(other) = of_owner.claim(&self.directory, &task.target.child, &owner) {
            let why = format!("a child of {}", other.shown);
            return Err(task.target.not_ours(why));
        }
        let digest = digest(&task.body);
        if let Some(reply) = self.skipped(&task, &of_owner, &digest) {
            task.mark_stable();
            return Ok(reply);
        }
        let author = Author { handler: context.handler_id.clone(), state: self.state_of_owner(task.wish) };
        let wanted = Wanted { digest, author };
        let age = self.begun.elapsed();
        if let Some(withheld) = task.withheld(&of_owner, &wanted, age) {
            return Err(withheld);
        }
        let _writing = Writing::begin(self, &task.target);
        let applied = self.pursue(&mut task, &of_owner, &wanted).await;
        match &applied {
            Err(ChildError::Vanished(child) | ChildError::Recreated { child, .. }) => {
                of_owner.with(|it| it.forget(child));
            }
            Err(ChildError::NotOurs { child, .. } | ChildError::Unclaimed { child, .. }) => {
                of_owner.release(child);
            }
            // This owner has no child of that name, so other owners may claim it.
            Err(_) if of_owner.with(|it| it.last(&task.target.child).is_none()) => {
                of_owner.release(&task.target.child);
            }
            _ => {}
        }
        let reply = applied.map_err(|error| task.with_rule(error))?;
        Ok(self.done(task, &of_owner, wanted, reply))
    }

    /// Returns the child without a request if an apply would change nothing: the last apply wanted the same and was answered, and the watch
    /// reports no later change of the fields that it set.
    fn skipped(&self, task: &Task<'_>, of_owner: &OfOwner, digest: &str) -> Option<ChildReply> {
        let child = &task.target.child;
        let facts = of_owner.with(|it| it.as_wanted(child, digest).cloned())?;
        let applied = AppliedState::of(&facts);
        let known = self.watched.lock().table.known(child, &facts.uid, Some(&applied));
        (known == Known::There { is_intact: true }).then(|| ChildReply {
            api_version: task.target.resource.api_version(),
            child: child.clone(),
            uid: facts.uid,
            resource_version: facts.resource_version,
            created: false,
            object: None,
        })
    }

    /// Returns the first request. If the watch does not show the child, the child may have lost its label or be gone; if the watch shows a
    /// child that this process has not applied, it stems from a former run of the operator.
    fn first_step(&self, task: &mut Task<'_>, of_owner: &OfOwner, wanted: &Wanted) -> Step {
        let child = &task.target.child;
        let first = |it: &mut ChildrenMemory| it.step(child, &wanted.digest, &wanted.author);
        match of_owner.with(first) {
            Step::Again { uid } => match self.watched.lock().table.known(child, &uid, None) {
                Known::Absent | Known::Terminating => Step::Look,
                Known::Nothing | Known::There { .. } => Step::Again { uid },
            },
            Step::Look => match self.watched.lock().table.version_of(child, &task.owner.uid) {
                Some((uid, version)) => {
                    task.version = Some(version);
                    Step::Again { uid }
                }
                None => Step::Look,
            },
            step => step,
        }
    }

    fn done(&self, task: Task<'_>, of_owner: &OfOwner, wanted: Wanted, reply: ApplyReply) -> ChildReply {
        let Task { target, managers, version: found, wish, .. } = task;
        let child = target.child.clone();
        let sight = ChildSight::of(&reply.object, &self.marks);
        let facts = wanted.applied_as(&sight);
        let (uid, resource_version) = (facts.uid.clone(), facts.resource_version.clone());
        self.directory.applied(&child, &uid, AppliedState::of(&facts));
        let digest = facts.digest.clone();
        let former = of_owner.with(|it| it.applied(&child, facts));
        let noted = managers.as_ref().map(|it| noted_in(it, &self.marks));
        let noted = noted.or(former.as_ref().map(|it| it.noted.clone()));
        // An apply that changes nothing returns the version of another writer.
        let is_own = reply.created || noted.is_some_and(|it| it != sight.noted);
        let after = sight.managers.clone();
        self.replied(&target, (sight, &reply.object), is_own);
        let is_changed = is_own
            || match former {
                Some(it) => it.digest != digest && it.resource_version != resource_version,
                None => found.is_none_or(|found| found != resource_version),
            };
        if let (Some(before), Some(after)) = (managers, after) {
            let taken = taken(&before, &after, &self.marks);
            if !taken.is_empty() {
                let (child, now) = (child.clone(), self.begun.elapsed());
                note_restored(&target, &wish.context.memo, &taken, now);
                target.tell(&ChildHappening::TakenBack { child, taken });
            }
        }
        let name = child.clone();
        target.tell(&match (reply.created, is_changed) {
            (true, _) => ChildHappening::Created { child: name },
            (false, false) => ChildHappening::Unchanged { child: name },
            (false, true) => ChildHappening::Changed { child: name },
        });
        ChildReply {
            api_version: target.resource.api_version(),
            child,
            uid,
            resource_version,
            created: reply.created,
            object: Some(reply.object),
        }
    }

    /// Processes the answer to a write of a child. `is_own` says whether the operator changed the child with it.
    pub(super) fn replied(&self, target: &Target<'_>, found: (ChildSight, &Value), is_own: bool) {
        let now = Instant::now();
        let news = self.watched.lock().table.replied(&target.child, found, is_own, now);
        let kind = Arc::new(target.resource.clone());
        self.tell(news, OwnerNews::Written, &kind);
    }

    /// Sends requests until one of them has applied the child or the attempt is hopeless.
    async fn pursue(
        &self,
        task: &mut Task<'_>,
        of_owner: &OfOwner,
        wanted: &Wanted,
    ) -> Result<ApplyReply, ChildError> {
        let mut step = self.first_step(task, of_owner, wanted);
        let mut pauses = pauses();
        for _ in 0..TRIES {
            if !self.may_write() {
                return Err(ChildError::Paused);
            }
            let tried = match step.clone() {
                Step::TwoAuthors { first } => {
                    return Err(ChildError::TwoAuthors {
                        child: task.target.child.clone(),
                        first,
                        second: wanted.author.handler.clone(),
                    });
                }
                Step::Look => self.look(task).await.map(Tried::Next),
                Step::First => {
                    of_owner.with(|it| it.forget(&task.target.child));
                    self.first(task).await
                }
                Step::Again { uid } => {
                    of_owner.with(|it| it.sends(&task.target.child));
                    self.again(task, uid).await
                }
            };
            let (error, landed) = match tried {
                Ok(Tried::Done(reply)) => return Ok(reply),
                Ok(Tried::Next(next)) => {
                    step = next;
                    continue;
                }
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Repeat { error, landed }) => (error, landed),
            };
            if step == Step::First && landed {
                step = Step::Look;
            }
            if !task.target.pause(&mut pauses, &error).await {
                return Err(task.target.not_now(error.to_string()));
            }
        }
        let error = format!("the server has not taken it in {TRIES} requests");
        Err(task.target.not_now(error))
    }

    fn state_of_owner(&self, wish: &ChildWish) -> String {
        let essence = Essence::of(&wish.context.owner, None, &self.essence, |_| {});
        essence.digest().to_owned()
    }

    /// Chooses the next step by reading the object that has the child's name.
    async fn look(&self, task: &mut Task<'_>) -> Result<Step, Trouble> {
        let target = &task.target;
        let found = match target.cluster.look_at(target.path(), true).await {
            Ok(found) => found,
            Err(ClusterError::NotFound(_)) => return Ok(Step::First),
            Err(error) => return Err(target.trouble(error)),
        };
        let context = &task.wish.context;
        let error = match claim(&found, &task.owner, context.ownership, &self.marks) {
            Claim::Unclaimed(why) if !context.adopts => target.unclaimed(why),
            Claim::Ours | Claim::Unclaimed(_) => {
                let metadata = &found["metadata"];
                let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
                let uid = text("uid");
                task.version = Some(text("resourceVersion"));
                task.managers = Some(metadata["managedFields"].clone());
                return Ok(Step::Again { uid });
            }
            Claim::Terminating => ChildError::Terminating(target.child.clone()),
            Claim::Stranger(why) => target.not_ours(why),
        };
        Err(Trouble::Final(error))
    }

    /// Applies the child without taking fields from other managers.
    async fn first(&self, task: &Task<'_>) -> Result<Tried, Trouble> {
        let target = &task.target;
        let adopts = task.wish.context.adopts;
        let request = self.request(task, &task.body, false);
        let reply = match target.cluster.apply(request).await {
            Ok(reply) => reply,
            // Another writer has created it since the operator read it.
            Err(ClusterError::FieldConflicts(_)) if adopts => {
                return Ok(Tried::Next(Step::Look));
            }
            Err(error) => {
                return Err(match refused_as_first(&target.child, &error) {
                    Some(refused) => Trouble::Final(refused),
                    None => target.trouble(error),
                });
            }
        };
        let there = was_there(&reply.object, &self.marks).filter(|_| !reply.created && !adopts);
        let Some(why) = there else {
            return Ok(Tried::Done(reply));
        };
        let bare = released(&reply.object);
        let release = target.cluster.apply(self.request(task, &bare, false)).await;
        let why = match release {
            Ok(_) => why,
            Err(error) => format!("{why}; what was added to it could not be taken back: {error}"),
        };
        Err(Trouble::Final(target.unclaimed(why)))
    }

    /// Applies a child that is known to exist.
    async fn again(&self, task: &mut Task<'_>, uid: String) -> Result<Tried, Trouble> {
        if task.managers.is_none() {
            task.managers = self.watched.lock().table.take_managers(&uid);
        }
        if !self.take_over(task, &uid).await? {
            return Ok(Tried::Next(Step::Look));
        }
        task.body["metadata"]["uid"] = uid.into();
        let target = &task.target;
        let applied = target.cluster.apply(self.request(task, &task.body, true));
        match applied.await {
            Ok(reply) => Ok(Tried::Done(reply)),
            Err(ClusterError::Conflict(_) | ClusterError::OtherObject(_)) => {
                let child = target.child.clone();
                Err(Trouble::Final(ChildError::Vanished(child)))
            }
            Err(ClusterError::Invalid(message)) if is_immutable(&message) && task.wish.context.recreates => {
                Err(self.recreate(task, message).await)
            }
            // Fields of other managers may cause the refusal.
            Err(ClusterError::Invalid(mut message)) => {
                if is_immutable(&message) {
                    message.push_str(" (`children.recreating()` deletes such a child and creates it again)");
                }
                if let Some(others) = self.others(target).await {
                    message = format!("{message} (it is also {others})");
                }
                Err(target.trouble(ClusterError::Invalid(message)))
            }
            Err(error) => Err(target.trouble(error)),
        }
    }

    /// Returns the other managers of the child, if the server can be asked.
    async fn others(&self, target: &Target<'_>) -> Option<String> {
        let found = target.cluster.look_at(target.path(), true).await.ok()?;
        others_of(&found["metadata"]["managedFields"], &self.marks)
    }

    /// Renames field managers of former releases to the present one, so that the apply can remove fields that are no longer wanted. Returns
    /// `false` if the child has changed meanwhile.
    async fn take_over(&self, task: &mut Task<'_>, uid: &str) -> Result<bool, Trouble> {
        let former = &task.wish.context.former_managers;
        let (Some(managers), Some(version)) = (&task.managers, &task.version) else {
            return Ok(true);
        };
        let Some(renamed) = taken_over(managers, former, &self.marks) else {
            return Ok(true);
        };
        let target = &task.target;
        let metadata = json!({"uid": uid, "resourceVersion": version, "managedFields": renamed});
        let patch = json!({"metadata": metadata});
        let manager = &self.marks.manager;
        match target.cluster.merge(target.path(), manager, &patch).await {
            Ok(_) => Ok(true),
            Err(ClusterError::Conflict(_)) => Ok(false),
            Err(error) => Err(target.trouble(error)),
        }
    }

    pub(super) fn request<'a>(
        &'a self,
        task: &'a Task<'_>,
        body: &'a Value,
        force: bool,
    ) -> ApplyRequest<'a> {
        ApplyRequest { object: task.target.path(), manager: &self.marks.manager, force, dry_run: false, body }
    }
}
