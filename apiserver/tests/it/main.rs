//! The only integration binary of the API server's tests: one module per subject.

#![forbid(unsafe_code)]

mod clients;
mod corpus;
mod program;
mod workloads;
