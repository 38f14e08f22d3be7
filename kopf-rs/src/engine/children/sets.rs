//! Applies sets: a set holds all children that one handler wants for one owner. Deletes children that a set no longer contains.
//!
//! The children themselves record their set (by their owner, the operator's entry in `managedFields`, and an annotation that names the set),
//! so no separate record can be lost.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use serde_json::Value;

use crate::engine::children::ChildApplier;
use crate::engine::children::child_table::ChildSet;
use crate::engine::children::task::Task;
use crate::handler::child_requests::{ChildContext, ChildError, ChildReply, ChildWish};
use crate::object::child::ChildName;
use crate::object::hierarchy::OwnerFacts;

/// The number of concurrent requests for one set.
const AT_ONCE: usize = 8;

type Doing<'a, T> = BoxFuture<'a, Result<T, ChildError>>;

impl ChildApplier {
    pub(super) async fn apply_set(
        &self,
        objects: Vec<Value>,
        context: ChildContext,
    ) -> Result<Vec<ChildReply>, ChildError> {
        if context.owner.is_deleting() && !objects.is_empty() {
            return Err(ChildError::OwnerTerminating);
        }
        let owner = OwnerFacts::of(&context.owner)?;
        let wishes: Vec<ChildWish> = objects
            .into_iter()
            .map(|object| ChildWish { object, in_set: true, context: context.clone() })
            .collect();
        let (tasks, mut failed) = self.tasks(&wishes).await;
        let wanted: BTreeSet<ChildName> = tasks.iter().map(|it| it.target.child.clone()).collect();
        let (applied, refused) = all(tasks.into_iter().map(|task| self.apply_task(task).boxed())).await;
        failed.extend(refused);
        if let Some(error) = ChildError::several(failed, wishes.len()) {
            return Err(error);
        }
        let set = ChildSet { owner: owner.uid, name: context.handler_id.to_string(), wanted };
        let left_over = self.watched.lock().left_over(&set);
        let of = left_over.len();
        let deletions = left_over.into_iter();
        let deletions = deletions.map(|it| self.delete_left_over(it, &set.owner, &context).boxed());
        let (_, failed) = all(deletions).await;
        match ChildError::several(failed, of) {
            Some(error) => Err(error),
            None => Ok(applied),
        }
    }

    /// Returns the children to apply, and the errors of those that cannot be applied.
    async fn tasks<'a>(&'a self, wishes: &'a [ChildWish]) -> (Vec<Task<'a>>, Vec<ChildError>) {
        let (mut tasks, mut failed) = (Vec::<Task<'_>>::new(), Vec::new());
        let mut names = BTreeSet::new();
        for wish in wishes {
            match self.task(wish).await {
                Ok(task) if !self.is_watched(&task.target.resource) => {
                    failed.push(ChildError::Unwatched(task.target.child));
                }
                Ok(task) if !names.insert(task.target.child.clone()) => {
                    failed.push(ChildError::Twice(task.target.child));
                }
                Ok(task) => tasks.push(task),
                Err(error) => failed.push(error),
            }
        }
        (tasks, failed)
    }
}

/// Runs all futures, a few of them concurrently. Returns the results and the errors.
async fn all<'a, T>(doing: impl Iterator<Item = Doing<'a, T>>) -> (Vec<T>, Vec<ChildError>) {
    let doing: Vec<_> = doing.collect();
    let done: Vec<_> = stream::iter(doing).buffered(AT_ONCE).collect().await;
    let (mut succeeded, mut failed) = (Vec::new(), Vec::new());
    for result in done {
        match result {
            Ok(it) => succeeded.push(it),
            Err(error) => failed.push(error),
        }
    }
    (succeeded, failed)
}
