//! The differential corpus: request scripts, run against the server in the process and against a real one, and compared.
//!
//! A script is data (`tests/conformance/*.yaml`, see its README). Every request of it goes to the server over TCP; code,
//! headers that matter, body and watch events must be equal once uids, times and versions are given names. What the real server tells
//! is recorded. What is known to
//! differ stands in the ledger with its reason, and an excuse that excuses nothing is an error. Must not know how either
//! server works.

mod compare;
mod exchange;
mod generate;
mod hunt;
mod ledger;
mod normal;
mod run;
mod script;
mod shrink;
mod tally;
mod told;
mod variables;

pub use compare::Difference;
pub use exchange::Answer;
pub use generate::{REQUESTS, generate};
pub use hunt::{Catch, hunt};
pub use ledger::Ledger;
pub use run::{Pair, compared_all, same, unlike};
pub use script::{Script, Step};
pub use tally::Tally;
pub use told::{Told, told_and_forgotten, told_of_all};
