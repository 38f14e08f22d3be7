//! The only integration binary: one module per behaviour.

mod harness;
mod layers;
