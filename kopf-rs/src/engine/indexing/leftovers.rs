//! Collects the remains of changes to indices: discarded values, and panics of keys and values.
//!
//! Changes happen under a lock; the caller disposes of the remains after it has released the lock. Guarantees that a key or a value that
//! panics, in a comparison, a clone or a drop, spoils only its own change.

use std::any::Any;
use std::sync::Arc;

use crate::engine::invoke::guarded;
use crate::engine::report::report_of_operator;
use crate::handler::index::erased::Discarded;
use crate::handler::memo::Memo;
use crate::happening::serving::Serving;
use crate::reaction::indexing::Effect;

/// A value to drop, with the name of its index; `None` for memos.
type Rest = (Option<Arc<str>>, Box<dyn Any + Send>);

/// The values to drop, and the panics to report.
#[derive(Default)]
pub(crate) struct Leftovers {
    discarded: Vec<Rest>,
    panics: Vec<(Arc<str>, String)>,
}

impl Leftovers {
    /// Changes an index. Returns `false` if the change panicked half-way.
    pub(super) fn change(&mut self, index: &Arc<str>, change: impl FnOnce() -> Discarded) -> bool {
        match guarded(change) {
            Ok(discarded) => {
                self.discarded.extend(discarded.map(|it| (Some(index.clone()), it)));
                true
            }
            Err(panic) => {
                self.panics.push((index.clone(), panic));
                false
            }
        }
    }

    pub(super) fn keep_memo(&mut self, memo: Memo) {
        self.discarded.push((None, Box::new(memo)));
    }

    /// Keeps effects that arrived too late, to drop their values.
    pub(super) fn keep_effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Replace(entries) = effect {
                self.discarded.push((None, entries));
            }
        }
    }

    /// Drops all values, and reports the panics. Must not be called under a lock.
    pub(super) fn see_to(self) {
        for (index, panic) in self.panics {
            let told = Serving::IndexIncomplete { index, panic };
            report_of_operator(&told);
        }
        for (index, discarded) in self.discarded {
            if let Err(panic) = guarded(|| drop(discarded)) {
                let told = Serving::DropPanicked { index, panic };
                report_of_operator(&told);
            }
        }
    }
}
