//! The core: decides which handlers to call now, and what to change afterwards. Pure functions from data to data.
//!
//! `plan` derives the facts, decides by one table and selects the due calls; `settle` turns their outcomes into
//! effects. Read the modules in this order: `input` and `memory` (the inputs), `progress_table`, `comparison`, `plan`,
//! `cycle`, `judge`, `settle`. This module must not depend on tokio, `kube`, or the code that executes the
//! effects.
//!
//! # The guarantee
//!
//! For every handler and every change in its scope, some successful run starts after the change has become visible,
//! unless the handler fails permanently. Within one cycle, no handler or sub-handler that has succeeded is called
//! again for the same reason. The argument, in the terms of the code:
//!
//! 1. **One target.** Every attempt gets the difference between the last-handled essence L and the object at that
//!    moment.
//!    A cycle has a target T: the essence at the time when the first of its handlers or sub-handlers finished; until
//!    then, T follows the object.
//!    When all its handlers are final, the operator stores T as last-handled, even if the object has changed since.
//!    If the current essence N differs from T, the next plan finds that difference and starts the next cycle.
//! 2. **Runs that saw more.** A handler called late in a cycle sees a state S, which may differ from T.
//!    If the object returned to T, no difference would remain, although the handler has acted on S.
//!    Therefore, every record stores the digest of the state that its last attempt saw (only of the handler's field,
//!    if it has one).
//!    If this digest differs from T, for the handler or for one of its sub-handlers, the record outlives the cycle as
//!    a mark.
//!    If the digest equals N for all of them, the mark is final: the next cycle, for N, need not call the handler
//!    again.
//!    Otherwise, and as soon as the object differs from N, the next plan calls the handler again, even without a
//!    difference; those of its sub-handlers that have seen N leave final marks of their own.
//!    A final mark also ends when a cycle fixes a target that differs, in the handler's field, from the state that the
//!    mark names: if the object returns to that state, the handler has not seen the change from the target.
//!    A handler for which T is a change but N is none, because its field disappeared before its call, leaves the
//!    cycle without having seen T, and leaves such a mark as well.
//!    A sub-handler for whose field T is a change but S is none is called with S regardless of differences: its
//!    parent, which has seen S, may not be called for the difference between T and S.
//!    A handler that is called again because of a mark is called regardless of differences, and so are all of its
//!    sub-handlers: the states that they saw of their own fields are known only for the cycle of that call.
//!    A sub-handler is also called again if its last attempt in this cycle did not finish.
//! 3. **Restarts.** T is kept in memory, and on the object beside the records: in full, or as a digest if the object has
//!    no room for it. No write is made only to store T.
//!    After a restart, the cycle continues with that T. A final record that was made for the reason of the cycle
//!    remains valid, whatever state it saw; points 1 and 2 cover the rest.
//!    If only the digest of T is left and the object differs from it, N becomes the target, and handlers that were done
//!    with T are called again.
//!    A T without room is stored as last-handled by its digest. The next cycle then knows that something has changed,
//!    but not what: it calls every handler whose filters accept the object, with an empty `old`, and logs this.
//!    If there is no room for a newer record, the target stays beside the existing records.
//!    A handler that was attempted but has not finished is called even if no difference from L to N concerns it,
//!    since the object may have been reverted to L.
//!    Records without digests (users' storages, Kopf's formats) have no place for T either: after a restart, T is N,
//!    and finished handlers are not called again.
//!    The same holds if our records are combined with a user's storage for the last-handled state, which stores no
//!    digest, and only the digest of T is left; marks then still call handlers that have seen another state.
//! 4. **Refused writes.** The results of handlers stay in memory, with their patches, until they are written; so does
//!    T.
//! 5. **Termination.** A cycle's own writes are not part of the essence, and marks remain only if the object has
//!    changed during the cycle. So once the object stops changing, at most one more cycle follows, and then there is
//!    no difference, no mark, and nothing to write.
//!
//! Known gap: if the process is killed after a handler has acted and before its record is written, no trace of the
//! call is left. If the change is also reverted before the next process reads the object, the change remains
//! unnoticed. A write before every call would close that gap, at twice the cost.
//!
//! Outside the guarantee: changes after the object was marked for deletion (deletion supersedes all other reasons),
//! changes while the filters exclude a handler, a field that disappeared before its sub-handler could be called at
//! all, and handlers of creation or only of resuming, with their sub-handlers, which are owed one successful run
//! each.

pub(crate) mod background;
pub(crate) mod background_plan;
pub(crate) mod children;
pub(crate) mod comparison;
pub(crate) mod contested_children;
pub(crate) mod cycle;
pub(crate) mod election;
pub(crate) mod event_series;
pub(crate) mod explain;
pub(crate) mod fast_path;
pub(crate) mod indexing;
pub(crate) mod input;
pub(crate) mod judge;
pub(crate) mod memory;
mod outcome_conditions;
pub(crate) mod peering;
pub(crate) mod plan;
pub(crate) mod progress_table;
pub(crate) mod recreated_children;
pub(crate) mod settle;
pub(crate) mod subhandlers;
pub(crate) mod unstable_children;

#[cfg(test)]
mod tests;
