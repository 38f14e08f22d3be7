//! The whole operator: settings, observation of kinds and namespaces, start and stop.
//!
//! The only place where parts meet; holds no behaviour of its own.

pub(crate) mod activity;
pub(crate) mod follow;
pub(crate) mod matching;
pub(crate) mod noting;
pub(crate) mod observe;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod scope;
pub(crate) mod settings;
