//! The differential corpus: request scripts that run against the in-process server and a real one; the answers are compared.
//!
//! A script is data (`tests/conformance/*.yaml`, see its README). Each of its requests goes to the server over TCP. Status code, relevant
//! headers, body and watch events must be equal after uids, times and versions are replaced by names. The answers of the real server are
//! recorded. The ledger lists known differences with their reasons; an entry that matches no difference is an error. Must not know how
//! either server works.

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
