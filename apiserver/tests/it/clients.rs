//! Unmodified clients of all kinds: the same program must work the same with the in-process server and with a real one.
//!
//! The programs lie in `tests/clients/`. The test of a client runs it against our server and compares its output with the recorded output
//! against the real one, or runs it against both. `tests/clients/ledger.yaml` lists the known differences.

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
