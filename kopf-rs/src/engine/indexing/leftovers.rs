//! What changes of indices leave over: values that go, and panics of keys and values.
//!
//! Changes are made under a lock; what they leave over is seen to by whoever has released it. Promises that a key or a value that panics, in
//! a comparison, a clone or a drop, ends nothing but its own change.

use std::any::Any;
use std::sync::Arc;

use crate::engine::invoke::guarded;
use crate::engine::report::report_of_operator;
use crate::handler::index::erased::Discarded;
use crate::handler::memo::Memo;
use crate::happening::Happening;
use crate::happening::serving::Serving;
use crate::reaction::indexing::Effect;

/// Something to be dropped, with the index that it was in; of a memo, none.
type Rest = (Option<Arc<str>>, Box<dyn Any + Send>);

/// What is to be dropped, and what is to be told.
#[derive(Default)]
pub(crate) struct Leftovers {
    discarded: Vec<Rest>,
    panics: Vec<(Arc<str>, String)>,
}

impl Leftovers {
    /// Change an index. Whether that was done to the end.
    pub(super) fn change(&mut self, index: &Arc<str>, change: impl FnOnce() -> Discarded) -> bool {
        match guarded(change) {
            Ok(discarded) => {
                self.discarded
                    .extend(discarded.map(|it| (Some(index.clone()), it)));
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

    /// They have come too late.
    pub(super) fn keep_effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Replace(entries) = effect {
                self.discarded.push((None, entries));
            }
        }
    }

    /// Drop it all, and tell what has panicked. Not under a lock.
    pub(super) fn see_to(self) {
        for (index, panic) in self.panics {
            let told = Serving::IndexIncomplete { index, panic };
            report_of_operator(&Happening::Serving(told));
        }
        for (index, discarded) in self.discarded {
            if let Err(panic) = guarded(|| drop(discarded)) {
                let told = Serving::DropPanicked { index, panic };
                report_of_operator(&Happening::Serving(told));
            }
        }
    }
}
