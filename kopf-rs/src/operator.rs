//! The whole operator: settings, observation of kinds and namespaces, start and stop.
//!
//! The only place where parts meet; holds no behaviour of its own.

pub(crate) mod activity;
pub(crate) mod observe;
pub(crate) mod run;
pub(crate) mod scope;
pub(crate) mod serve;
pub(crate) mod settings;
pub(crate) mod stream;
