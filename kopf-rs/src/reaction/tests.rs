//! The heart against core.md 18 and the deviation table: small worlds in, calls and writes out.

mod change;
mod deletion;
mod history;
mod life;
mod retry;
mod trouble;
mod world;
