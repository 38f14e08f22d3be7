//! The whole operator: settings, observation of kinds and namespaces, start and stop.
//!
//! The only place where parts meet; holds no behaviour of its own.
