//! Tests of `reaction` by the scenarios and rows of `tests/ledger.yaml`: small worlds in, calls and writes out.

mod background;
mod background_world;
mod change;
mod clock_skew;
mod decision;
mod deletion;
mod filtered_history;
mod fuzz;
pub(super) mod history;
mod life;
mod owning;
mod reconcile;
mod reconcile_history;
mod restart;
mod retry;
mod schedules;
mod storages;
mod subhandlers;
mod suspended;
mod trouble;
mod unwritten;
mod world;
