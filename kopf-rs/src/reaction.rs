//! The heart: what to call now, and what to change afterwards. Pure: data in, data out.
//!
//! `plan` observes the facts, decides by one table and picks the due calls; `settle` turns their outcomes into effects. To be read in this
//! order: `input` and `memory` (what is given), `ledger`, `facts`, `decision`, `cycle`, `plan`, `judge`, `settle`. Must not know tokio, `kube`, or who
//! acts.
//!
//! # The guarantee
//!
//! For every handler and every change in its scope, some successful run of it starts after the change was visible (or it fails for
//! good); and within one cycle, no handler or sub-handler that has succeeded is called again for the same reason. The argument, in the
//! words of the code:
//!
//! 1. **One target.** Every attempt is told of the difference from the last-handled essence L to the object as it is then. A cycle has a
//!    target T: the essence when the first of its handlers or sub-handlers was done, and before that whatever the object is. When all its
//!    handlers are final, T is stored as last handled, and not what has become of the object meanwhile. Whatever the object is by then, N:
//!    where N differs from T, the next plan finds that difference and begins the next cycle.
//! 2. **Runs that saw more.** A handler called late in a cycle sees and is told of S, which may not be T. Were N to go back to T, no
//!    difference would be left although the handler has acted on S. So every record carries the digest of what its last attempt has
//!    seen (of its field, where the handler has one: nothing else is its business). Where that is not T, for the handler or for one of its
//!    sub-handlers, the record outlives the cycle as a mark. If it is N for all of them, the mark is final: the next cycle, for N, need
//!    not call the handler once more. In any other case, and as soon as the object is not N any more, the next plan calls the handler
//!    again, difference or not; those of its sub-handlers that have seen N leave final marks of their own. A handler for which T is a
//!    change and N is none, because its field went away before its turn, leaves the cycle without having seen T: it leaves such a mark
//!    as well. A sub-handler for whose field T is a change and S is none is called with S whatever has changed: its parent, which has
//!    seen S, may not be called for the way from T to S. A handler that is called again for such a mark is owed a call whatever has
//!    changed, and so are all of its sub-handlers: what they have seen of their own fields is known only for the cycle in which they
//!    were called. A sub-handler is owed a call, too, where its last attempt in this cycle came to no end.
//! 3. **Restarts.** T lives in memory, and on the object beside the records: its digest as long as the object is T, all of it in the first
//!    write that finds the object to be something else, and no write is made for its sake. After a restart the cycle goes on with that T,
//!    and a record that is final and was made for the reason of the cycle stands, whatever it has seen: points 1 and 2 do the rest. Where
//!    only the digest of T is left, since the object changed after the last write or has no room, that digest is stored as last handled: the
//!    next cycle knows that something has changed and not what, so everybody whose filters let it through is called; `old` is empty, which
//!    a log line says. Where there is no room for a newer record, the target stays beside the records that are there.
//!    A handler that has tried without finishing is called even where no difference from L to N concerns it: L may be what was reverted to.
//!    Where records carry no digests (storages of users, Kopf's formats) there is no place for T either: after a restart it is N, and what
//!    has finished is not called again. The same holds where our records are beside a last-handled state in a storage of a user, which
//!    takes no digest, and only the digest of T is left; there marks still call again those who have seen another state.
//! 4. **Refused writes.** What a handler has done stays in memory, with its patch, until it is written; so does T.
//! 5. **An end.** A cycle's own writes are no part of the essence; marks are only left where the object has changed under way. So once
//!    the object is still, there is at most one more cycle, and then no difference, no mark, and nothing to write.
//!
//! What can be lost: a process that is killed after a handler has acted and before its record is written leaves no trace; where the
//! change is also taken back before the next process looks, nothing tells that it ever was. A write before every call would close that
//! gap at twice the price.
//!
//! Outside the guarantee: what happens to an object after it was marked for deletion (deletion supersedes everything), changes while
//! its filters exclude a handler, a field that was gone before a sub-handler of it could be called at all, and handlers of creation or of nothing but resuming, with their sub-handlers, which are owed one successful
//! run each.

mod ahead;
pub(crate) mod background;
pub(crate) mod background_plan;
pub(crate) mod children;
pub(crate) mod comparison;
pub(crate) mod contested_children;
pub(crate) mod cycle;
pub(crate) mod decision;
pub(crate) mod election;
mod error_class;
pub(crate) mod event_series;
pub(crate) mod exiting;
pub(crate) mod explain;
pub(crate) mod facts;
pub(crate) mod fast_path;
pub(crate) mod indexing;
pub(crate) mod input;
pub(crate) mod judge;
pub(crate) mod ledger;
mod marks;
pub(crate) mod member;
pub(crate) mod memory;
mod moment;
mod outcome_conditions;
mod own_changes;
pub(crate) mod owned;
pub(crate) mod peering;
pub(crate) mod plan;
pub(crate) mod planned;
mod reconciling;
pub(crate) mod settle;
pub(crate) mod subhandlers;
pub(crate) mod suspension;
mod target;
mod turn;
pub(crate) mod unstable_children;

#[cfg(test)]
mod tests;
