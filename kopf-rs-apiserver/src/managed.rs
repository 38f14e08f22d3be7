//! Who manages which fields of an object: what `metadata.managedFields` says, and how writes change it.
//!
//! Promise: the rules of server-side apply (<https://kubernetes.io/docs/reference/using-api/server-side-apply/>) and the
//! real server's bookkeeping around them. No clock: the time is an argument. Must not know requests or the store.

pub(crate) mod apply;
pub(crate) mod entry;
pub(crate) mod merge;
pub(crate) mod outline;
mod reconcile;
pub(crate) mod scale;
pub(crate) mod set;
mod shared;
pub(crate) mod track;
pub(crate) mod versions;
pub(crate) mod walk;

pub(crate) use entry::{Kept, Managed};
pub(crate) use track::{Author, update};
pub(crate) use versions::{Failure, Single, Versions};
