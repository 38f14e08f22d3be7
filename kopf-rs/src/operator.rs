//! The whole operator: settings, observation of kinds and namespaces, start and stop.
//!
//! The only module in which all parts meet. It adds no behaviour of its own.

pub(crate) mod activity;
pub(crate) mod admission;
pub(crate) mod clock;
#[cfg(feature = "cli")]
pub(crate) mod compatibility;
pub(crate) mod crash_notes_path;
pub(crate) mod definition;
#[cfg(any(feature = "cli", test))]
pub(crate) mod deployment;
mod endpoints;
pub(crate) mod follow;
mod given;
pub(crate) mod identity;
#[cfg(feature = "embedded")]
pub(crate) mod installation;
pub(crate) mod leasing;
pub(crate) mod login;
pub(crate) mod matching;
#[cfg(not(feature = "cli"))]
mod no_program;
pub(crate) mod observe;
#[cfg(feature = "cli")]
pub(crate) mod pausing;
pub(crate) mod report;
mod rights;
pub(crate) mod run;
pub(crate) mod scope;
#[cfg(feature = "metrics")]
mod scrape_certificate;
pub(crate) mod selection;
pub(crate) mod selection_map;
pub(crate) mod settings;
mod validation;
