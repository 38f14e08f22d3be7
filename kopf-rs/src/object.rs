//! Kubernetes objects as data: bodies, event types, paths, diffs, essences, patches, selectors, references.
//!
//! Total functions over plain values. Must not know handlers, storage or HTTP.

pub(crate) mod body;
pub(crate) mod child;
pub(crate) mod collection;
pub(crate) mod conditions;
pub(crate) mod diff;
pub(crate) mod discreet;
pub(crate) mod essence;
pub(crate) mod event;
pub(crate) mod hierarchy;
pub(crate) mod identity;
pub(crate) mod inconsistency;
pub(crate) mod label_selector;
pub(crate) mod labels;
pub(crate) mod lease;
pub(crate) mod login;
pub(crate) mod operations;
pub(crate) mod outline;
pub(crate) mod patch;
pub(crate) mod path;
pub(crate) mod posted_event;
pub(crate) mod python;
pub(crate) mod raw;
pub(crate) mod reference;
pub(crate) mod resource;
pub(crate) mod selector;
mod skim;
pub(crate) mod typed;
pub(crate) mod words;
