//! Children that are wanted to be different in each call, or that others change each time: whether one is applied now.
//!
//! Must not know requests.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::engine::children::directory::OfOwner;
use crate::engine::children::task::{Target, Task, Wanted};
use crate::handler::child_requests::ChildError;
use crate::handler::memo::Memo;
use crate::happening::children::ChildHappening;
use crate::object::child::taken::TakenFields;
use crate::reaction::contested_children::ContestedChildren;
use crate::reaction::unstable_children::{Stability, UnstableChildren};

/// Those of one owner, among what its handlers keep.
type OfMemo = Mutex<UnstableChildren>;
type Contested = Mutex<ContestedChildren>;

impl Task<'_> {
    /// It is wanted as it was applied last.
    pub(super) fn is_stable(&self) {
        if let Some(unstable) = self.wish.context.memo.get::<OfMemo>() {
            lock(&unstable).is_stable(&self.target.child);
        }
    }

    /// It is about to be applied: why it is not to be now.
    pub(super) fn withheld(
        &self,
        of_owner: &OfOwner,
        wanted: &Wanted,
        now: Duration,
    ) -> Option<ChildError> {
        let child = self.target.child.clone();
        let former = of_owner.with(|it| it.last(&child).cloned())?;
        if former.digest == wanted.digest
            && let Some(contested) = self.wish.context.memo.get::<Contested>()
            && let Some(withheld) = lock(&contested).withheld(&child, now)
        {
            return Some(ChildError::Contested {
                child,
                taken: Box::new(withheld.taken),
                wait: withheld.wait,
            });
        }
        let wanted = (&*wanted.digest, &wanted.author, &self.body);
        let unstable = self.wish.context.memo.get_or_default::<OfMemo>();
        let stability = lock(&unstable).applies(&child, &former, wanted, now);
        match stability {
            Stability::Stable => None,
            Stability::Lost { times, place } => {
                self.target.tell(ChildHappening::Unstable {
                    child,
                    times,
                    place,
                });
                None
            }
            Stability::Withheld { place, wait } => {
                Some(ChildError::Unstable { child, place, wait })
            }
        }
    }
}

/// A child was put right, which others had changed.
pub(super) fn put_right(target: &Target<'_>, memo: &Memo, taken: &[TakenFields], now: Duration) {
    let contested = memo.get_or_default::<Contested>();
    let news = lock(&contested).put_right(&target.child, taken, now);
    if let Some((times, taken)) = news {
        let child = target.child.clone();
        target.tell(ChildHappening::Contested {
            child,
            times,
            taken,
        });
    }
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
