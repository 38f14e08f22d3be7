//! The public handler API: what a handler is, which arguments it can ask for, and which results and errors it can
//! return.
//!
//! This module depends on neither the scheduler, the storage of progress, tokio nor `kube`.

pub(crate) mod again;
pub(crate) mod attempt;
pub(crate) mod callee;
pub(crate) mod cause;
pub(crate) mod child_requests;
pub(crate) mod child_trouble;
pub(crate) mod children;
pub(crate) mod conversion;
pub(crate) mod current;
pub(crate) mod definition;
pub(crate) mod denial;
pub(crate) mod error;
pub(crate) mod event_sink;
pub(crate) mod events;
pub(crate) mod extensions;
pub(crate) mod extract;
pub(crate) mod filter;
pub(crate) mod index;
pub(crate) mod indexer;
pub(crate) mod lifecycle;
pub(crate) mod listed;
pub(crate) mod lister;
pub(crate) mod live;
pub(crate) mod location;
pub(crate) mod logger;
pub(crate) mod memo;
pub(crate) mod named_panic;
pub(crate) mod nested;
pub(crate) mod operation;
pub(crate) mod options;
pub(crate) mod outcome;
pub(crate) mod owned;
pub(crate) mod owner;
pub(crate) mod read;
pub(crate) mod registry;
pub(crate) mod required;
pub(crate) mod returned;
pub(crate) mod review;
pub(crate) mod seconds;
pub(crate) mod status;
pub(crate) mod stopped;
pub(crate) mod subhandlers;
pub(crate) mod subject;
pub(crate) mod target;
pub(crate) mod test_cause;
pub(crate) mod timing;
pub(crate) mod trigger;
pub(crate) mod validation_rule;
pub(crate) mod webhook;

#[cfg(test)]
pub(crate) mod testing;
