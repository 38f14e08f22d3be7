//! Unmodified clients of all sorts: one and the same program does the same to the server in the process and to a real one.
//!
//! The programs lie in `tests/clients/`. A client's test runs it beside our server and compares what it says with what is recorded of
//! it beside the real one, or asks that as well; what is known to differ stands in `tests/clients/ledger.yaml`.

mod beside;
mod both;
mod client;
mod documents;
mod go;
mod java;
mod javascript;
mod kube_rs;
mod kubectl;
mod ledger;
mod plain;
mod python;
