//! Admission webhooks as data: reviews, their answers, the configurations that the API server reads, and the rules that
//! it enforces by itself.
//!
//! Pure. This module must not depend on sockets, requests to the cluster, or the current time.

pub(crate) mod answer;
pub(crate) mod blocking;
pub(crate) mod certificates;
pub(crate) mod changes;
pub(crate) mod conditions;
pub(crate) mod configuration;
pub(crate) mod expression;
pub(crate) mod instances;
pub(crate) mod review;
pub(crate) mod rights;
pub(crate) mod route;
pub(crate) mod rules;
pub(crate) mod selection;
