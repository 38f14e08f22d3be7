//! Field management: the content of `metadata.managedFields`, and its changes on writes.
//!
//! Implements the rules of server-side apply (<https://kubernetes.io/docs/reference/using-api/server-side-apply/>) and the
//! bookkeeping of the real server. Has no clock: the time is an argument. Independent of requests and of the store.

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
