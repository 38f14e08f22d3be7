//! The only integration binary: one module per behaviour.
