//! The only integration binary: one module per behaviour.

mod cli;
mod examples;
mod harness;
mod layers;
