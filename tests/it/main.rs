//! The only integration binary: one module per behaviour.

#![forbid(unsafe_code)]

mod abrupt;
mod access;
mod activities;
mod admission;
mod bad_input;
mod blocking;
mod cli;
mod clients;
mod corpus;
mod create;
mod delete;
mod discovery;
mod event;
mod examples;
mod faults;
mod field;
mod fifty;
mod harness;
mod histories;
mod killed;
mod kinds;
mod kopf_mode;
mod layers;
mod ledger;
mod limits;
mod myingress;
mod operating;
mod random;
mod readme;
mod resume;
mod retry;
mod rights;
mod rivals;
mod secrets;
mod subhandlers;
mod transform;
mod twin;
mod ui;
mod unwatched;
mod update;
mod watches;
mod wording;
mod workloads;
mod writes;
