//! Delays applies of a child whose wanted content differs in each call, or that other writers change after every apply.
//!
//! Must not know requests.

use std::time::Duration;

use parking_lot::Mutex;

use crate::engine::children::directory::OfOwner;
use crate::engine::children::task::{Target, Task, Wanted};
use crate::handler::child_requests::ChildError;
use crate::handler::memo::Memo;
use crate::happening::working::ChildHappening;
use crate::object::child::taken::TakenFields;
use crate::reaction::contested_children::ContestedChildren;
use crate::reaction::unstable_children::{Stability, UnstableChildren};

/// The unstable children of one owner, stored in its memo.
type OfMemo = Mutex<UnstableChildren>;
type Contested = Mutex<ContestedChildren>;

impl Task<'_> {
    /// Notes that the handler wants the child as it was last applied.
    pub(in crate::engine::children) fn mark_stable(&self) {
        if let Some(unstable) = self.wish.context.memo.get::<OfMemo>() {
            unstable.lock().mark_stable(&self.target.child);
        }
    }

    /// Returns an error if the apply that is about to start has to be delayed.
    pub(in crate::engine::children) fn withheld(
        &self,
        of_owner: &OfOwner,
        wanted: &Wanted,
        now: Duration,
    ) -> Option<ChildError> {
        let child = self.target.child.clone();
        let former = of_owner.with(|it| it.last(&child).cloned())?;
        if former.digest == wanted.digest
            && let Some(contested) = self.wish.context.memo.get::<Contested>()
            && let Some(withheld) = contested.lock().withheld(&child, now)
        {
            return Some(ChildError::Contested {
                child,
                taken: Box::new(withheld.taken),
                wait: withheld.wait,
            });
        }
        let wanted = (&*wanted.digest, &wanted.author, &self.body);
        let unstable = self.wish.context.memo.get_or_default::<OfMemo>();
        let stability = unstable.lock().applies(&child, &former, wanted, now);
        match stability {
            Stability::Stable => None,
            Stability::Lost { times, place } => {
                self.target.tell(&ChildHappening::Unstable { child, times, place });
                None
            }
            Stability::Withheld { place, wait } => Some(ChildError::Unstable { child, place, wait }),
        }
    }
}

/// Notes that an apply has restored fields of a child that others had changed, and reports a contest if it repeats.
pub(in crate::engine::children) fn note_restored(
    target: &Target<'_>,
    memo: &Memo,
    taken: &[TakenFields],
    now: Duration,
) {
    let contested = memo.get_or_default::<Contested>();
    let news = contested.lock().note_restored(&target.child, taken, now);
    if let Some((times, taken)) = news {
        let child = target.child.clone();
        target.tell(&ChildHappening::Contested { child, times, taken });
    }
}
