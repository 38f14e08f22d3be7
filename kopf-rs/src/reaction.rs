//! The heart: what to call now, and what to change afterwards. Pure: data in, data out.
//!
//! `plan` detects the cause and picks the due calls; `settle` turns their outcomes into effects.
//! Must not know tokio, `kube`, or who acts.
//!
//! # The guarantee
//!
//! For every handler and every change in its scope, some successful run of it starts after the change was visible (or it fails for
//! good). The argument, in the words of the code:
//!
//! 1. **One target.** A cycle handles the difference from the last-handled essence L to its target T, the essence when its first
//!    attempt was made. When all its handlers are final, T is stored as last handled, and not what has become of the object meanwhile.
//!    Whatever the object is by then, N: where N differs from T, the next plan finds that difference and begins the next cycle.
//! 2. **Runs that saw more.** A handler called late in a cycle is given the newest body, S, which may not be T. Were N to go back to T,
//!    no difference would be left although the handler has acted on S. So every record carries the digest of what its last attempt has
//!    seen (of its field, where the handler has one: nothing else is its business), and of what it was told where that differs; where that is not T, the record outlives the cycle as a mark, and the next plan calls the handler again, difference or not.
//! 3. **Restarts.** T lives in memory. After a restart the target is the object as it is, N; a handler that has finished on another state
//!    than N, or has tried without finishing, is called even where no difference from L to N concerns it: L may be what was reverted to.
//!    A handler that has finished on N is not called again.
//!    Sub-handlers are met only when their parent is called: one that was told of another target has finished in an earlier process.
//! 4. **Refused writes.** What a handler has done stays in memory, with its patch, until it is written; so does T.
//! 5. **An end.** A cycle's own writes are no part of the essence; marks are only left where the object has changed under way. So once
//!    the object is still, there is at most one more cycle, and then no difference, no mark, and nothing to write.
//!
//! What can be lost: a process that is killed after a handler has acted and before its record is written leaves no trace; where the
//! change is also taken back before the next process looks, nothing tells that it ever was. A write before every call would close that
//! gap at twice the price.
//!
//! Outside the guarantee: what happens to an object after it was marked for deletion (deletion supersedes everything), changes while
//! its filters exclude a handler, and creation handlers, which are owed one successful run.

pub(crate) mod children;
pub(crate) mod cycle;
pub(crate) mod detect;
pub(crate) mod glance;
pub(crate) mod judge;
pub(crate) mod plan;
pub(crate) mod settle;

#[cfg(test)]
mod tests;
