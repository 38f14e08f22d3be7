//! The only integration binary: one module per behaviour.

#![forbid(unsafe_code)]

mod activities;
mod cli;
mod corpus;
mod create;
mod delete;
mod event;
mod examples;
mod faults;
mod field;
mod harness;
mod killed;
mod kinds;
mod kopf_mode;
mod layers;
mod ledger;
mod limits;
mod myingress;
mod operating;
mod readme;
mod resume;
mod retry;
mod rights;
mod subhandlers;
mod transform;
mod twin;
mod ui;
mod update;
