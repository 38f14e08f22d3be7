//! The heart: what to call now, and what to change afterwards. Pure: data in, data out.
//!
//! `plan` detects the cause and picks the due calls; `settle` turns their outcomes into effects.
//! Must not know tokio, `kube`, or who acts.

pub(crate) mod detect;
pub(crate) mod plan;
pub(crate) mod settle;
