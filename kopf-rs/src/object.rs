//! Kubernetes objects as data: bodies, event types, paths, diffs, essences, patches, selectors, references.
//!
//! Total functions over plain values. This module must not depend on handlers, storage or HTTP.

pub(crate) mod body;
pub(crate) mod child;
pub(crate) mod collection;
pub(crate) mod conditions;
pub(crate) mod diff;
pub(crate) mod essence;
pub(crate) mod event;
pub(crate) mod granted;
pub(crate) mod hierarchy;
pub(crate) mod inconsistency;
pub(crate) mod key;
pub(crate) mod label_selector;
pub(crate) mod labels;
pub(crate) mod lazy_json;
pub(crate) mod lease;
pub(crate) mod login;
pub(crate) mod operations;
pub(crate) mod patch;
pub(crate) mod path;
pub(crate) mod posted_event;
pub(crate) mod python;
pub(crate) mod raw;
pub(crate) mod redact;
pub(crate) mod reference;
pub(crate) mod requests;
pub(crate) mod resource;
pub(crate) mod rights;
pub(crate) mod selector;
pub(crate) mod sent_request;
pub(crate) mod server_fields;
mod skim;
pub(crate) mod str_eq;
pub(crate) mod typed;
