//! Deletes children, and orphans them.
//!
//! Guarantees that it deletes only children of this owner, in exactly the version that it has examined.

use std::sync::Arc;

use serde_json::Value;

use crate::cluster::child::Propagation;
use crate::cluster::error::ClusterError;
use crate::engine::children::child_table::LeftOver;
use crate::engine::children::directory::OfOwner;
use crate::engine::children::task::{TRIES, Target, pauses};
use crate::engine::children::{ChildApplier, Writing};
use crate::engine::owners::OwnerNews;
use crate::handler::child_requests::{ChildContext, ChildError, ChildWish};
use crate::happening::working::ChildHappening;
use crate::object::child::{ChildSight, Claim, claim, orphaned};
use crate::object::hierarchy::OwnerFacts;

/// The version of an object that is to be removed.
pub(super) struct Version {
    uid: String,
    version: String,
}

/// The decision about an object that has the name of a child.
pub(super) enum Verdict {
    Remove,
    /// It is already being deleted.
    Leaves,
    /// It is not this owner's child; the text is the reason to report.
    Stays(Option<String>),
}

pub(super) type Judge<'a> = &'a (dyn Fn(&Value) -> Verdict + Sync);

// === impl ===

impl Version {
    fn of(found: &Value) -> Self {
        let text = |key: &str| found["metadata"][key].as_str().unwrap_or_default();
        Self { uid: text("uid").to_owned(), version: text("resourceVersion").to_owned() }
    }
}

impl ChildApplier {
    pub(super) async fn delete_child(&self, wish: &ChildWish) -> Result<bool, ChildError> {
        let task = self.task(wish).await?;
        let context = &wish.context;
        let judge = |found: &Value| verdict(claim(found, &task.owner, context.ownership, &self.marks));
        let deleted = self.delete_target(&task.target, None, &judge, Propagation::Background).await?;
        let of_owner = context.memo.get_or_default::<OfOwner>();
        // Another owner may claim the name from now on.
        of_owner.release(&task.target.child);
        Ok(deleted)
    }

    /// Deletes a child that its set no longer contains, if that still holds for the present object.
    pub(super) async fn delete_left_over(
        &self,
        left_over: LeftOver,
        owner: &str,
        context: &ChildContext,
    ) -> Result<(), ChildError> {
        let set = &*context.handler_id;
        let judge = |found: &Value| {
            let sight = ChildSight::of(found, &self.marks);
            let is_meant = sight.owner.as_deref() == Some(owner) && sight.set.as_deref() == Some(set);
            match (is_meant, sight.terminating) {
                (false, _) => Verdict::Stays(None),
                (true, true) => Verdict::Leaves,
                (true, false) => Verdict::Remove,
            }
        };
        let target = Target {
            cluster: self.cluster.get().ok_or(ChildError::NoOperator)?,
            resource: Arc::unwrap_or_clone(left_over.resource),
            child: left_over.child,
            logger: &context.logger,
        };
        let known = Version { uid: left_over.uid, version: left_over.version };
        self.delete_target(&target, Some(known), &judge, Propagation::Background).await?;
        let of_owner = context.memo.get_or_default::<OfOwner>();
        of_owner.release(&target.child);
        Ok(())
    }

    /// Deletes an object. A `known` version was judged before. Returns whether it was deleted or was already being deleted.
    pub(super) async fn delete_target(
        &self,
        target: &Target<'_>,
        mut known: Option<Version>,
        judge: Judge<'_>,
        propagation: Propagation,
    ) -> Result<bool, ChildError> {
        let _writing = Writing::begin(self, target);
        let mut pauses = pauses();
        for _ in 0..TRIES {
            if !self.may_write() {
                return Err(ChildError::Paused);
            }
            let tried = match known.take() {
                Some(version) => self.delete_version(target, version, propagation).await.map(|()| true),
                None => match self.meant(target, judge).await {
                    Ok(Meant::This(found)) => {
                        let version = Version::of(&found);
                        self.delete_version(target, version, propagation).await.map(|()| true)
                    }
                    Ok(Meant::Nothing { leaves }) => Ok(leaves),
                    Err(error) => Err(error),
                },
            };
            let error = match tried {
                Ok(deleted) => {
                    self.directory.deleted(&target.child);
                    return Ok(deleted);
                }
                Err(error) => error,
            };
            if !is_worth_another(&error) || !target.pause(&mut pauses, &error).await {
                return Err(undeleted(target, &error));
            }
        }
        let error = format!("it is not deleted after {TRIES} requests");
        let child = target.child.clone();
        Err(ChildError::Undeleted { child, error })
    }

    async fn delete_version(
        &self,
        target: &Target<'_>,
        version: Version,
        propagation: Propagation,
    ) -> Result<(), ClusterError> {
        let Version { uid, version } = version;
        let deleting = target.cluster.delete(target.path(), &uid, &version, propagation);
        match deleting.await {
            Ok(Some(found)) => {
                let sight = ChildSight::of(&found, &self.marks);
                self.replied(target, (sight, &found), true);
            }
            Ok(None) | Err(ClusterError::NotFound(_)) => {
                let news = self.watched.lock().table.let_go(&target.child, &uid);
                let kind = Arc::new(target.resource.clone());
                self.tell(news, OwnerNews::Written, &kind);
            }
            Err(error) => return Err(error),
        }
        target.tell(&ChildHappening::Deleted { child: target.child.clone() });
        Ok(())
    }

    pub(super) async fn orphan_child(&self, wish: &ChildWish) -> Result<bool, ChildError> {
        let task = self.task(wish).await?;
        let (target, context) = (&task.target, &wish.context);
        let judge = |found: &Value| verdict(claim(found, &task.owner, context.ownership, &self.marks));
        let _writing = Writing::begin(self, target);
        let mut pauses = pauses();
        for _ in 0..TRIES {
            if !self.may_write() {
                return Err(ChildError::Paused);
            }
            let tried = match self.meant(target, &judge).await {
                Ok(Meant::This(found)) => self.let_go(target, &task.owner, &found).await,
                Ok(Meant::Nothing { .. }) => Ok(None),
                Err(error) => Err(error),
            };
            let error = match tried {
                Ok(uid) => return Ok(self.is_orphaned(target, uid.as_deref(), context)),
                Err(error) => error,
            };
            if !is_worth_another(&error) || !target.pause(&mut pauses, &error).await {
                return Err(target.not_now(error.to_string()));
            }
        }
        let error = format!("the server has not taken it in {TRIES} requests");
        Err(target.not_now(error))
    }

    /// Orphans an object. Returns its uid; `None` if it has neither a reference nor a mark to remove.
    async fn let_go(
        &self,
        target: &Target<'_>,
        owner: &OwnerFacts,
        found: &Value,
    ) -> Result<Option<String>, ClusterError> {
        let Some(patch) = orphaned(found, owner, &self.marks) else {
            return Ok(None);
        };
        let patching = target.cluster.merge(target.path(), &self.marks.manager, &patch);
        patching.await.map(|_| Some(Version::of(found).uid))
    }

    fn is_orphaned(&self, target: &Target<'_>, uid: Option<&str>, context: &ChildContext) -> bool {
        if let Some(uid) = uid {
            drop(self.watched.lock().table.let_go(&target.child, uid));
            target.tell(&ChildHappening::Orphaned { child: target.child.clone() });
        }
        let of_owner = context.memo.get_or_default::<OfOwner>();
        of_owner.release(&target.child);
        uid.is_some()
    }

    /// Looks up the object that has the child's name, and decides whether to remove it.
    async fn meant(&self, target: &Target<'_>, judge: Judge<'_>) -> Result<Meant, ClusterError> {
        let found = match target.cluster.look_at(target.path(), true).await {
            Err(ClusterError::NotFound(_)) => return Ok(Meant::Nothing { leaves: false }),
            found => found?,
        };
        Ok(match judge(&found) {
            Verdict::Remove => Meant::This(found),
            Verdict::Leaves => Meant::Nothing { leaves: true },
            Verdict::Stays(why) => {
                if let Some(why) = why {
                    let child = target.child.clone();
                    target.tell(&ChildHappening::NotDeleted { child, why });
                }
                Meant::Nothing { leaves: false }
            }
        })
    }
}

/// The object that has the name of a child that is to be removed.
enum Meant {
    This(Value),
    Nothing { leaves: bool },
}

pub(super) fn verdict(claim: Claim) -> Verdict {
    match claim {
        Claim::Ours => Verdict::Remove,
        Claim::Terminating => Verdict::Leaves,
        Claim::Unclaimed(why) | Claim::Stranger(why) => Verdict::Stays(Some(why)),
    }
}

fn is_worth_another(error: &ClusterError) -> bool {
    error.is_transient() || matches!(error, ClusterError::Conflict(_))
}

fn undeleted(target: &Target<'_>, error: &ClusterError) -> ChildError {
    let error = match error {
        ClusterError::Denied { message, rule } if !rule.is_empty() => {
            format!("{message}\nTo grant it, add {rule}")
        }
        error => error.to_string(),
    };
    let child = target.child.clone();
    ChildError::Undeleted { child, error }
}
