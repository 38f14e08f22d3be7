//! Harness for the behaviour tests of kopf-rs: API servers, objects, awaited conditions, captured lines.
//!
//! A scenario is one async function over a [`Bed`]: a server, an administrator's client and a namespace of its own.
//! [`scenarios!`] runs it on every [`Server`]: in memory under virtual time, in the process over TLS, and on a real
//! kube-apiserver. Nothing here sleeps to wait: conditions are awaited on watches and on lines, with a deadline.
//! The harness knows the API servers; it must not know how an operator works inside.

#![forbid(unsafe_code)]
#![expect(
    clippy::missing_panics_doc,
    reason = "a panic is how a harness fails its test"
)]

mod bed;
mod built;
pub mod corpus;
mod lines;
mod play;
mod program;
mod python;
mod real;
mod resource;
mod skip;
mod toolchain;
mod watchdog;

pub use bed::{Asked, Bed};
pub use built::{built_library, built_program, kopf_rs_binary, leave_outer_cargo};
pub use lines::Lines;
pub use play::{Server, play};
pub use program::Program;
pub use python::{Package, PythonError, python_of};
pub use real::{RealServer, StartError};
pub use resource::documents;
pub use skip::{Missing, say, skipped};
pub use toolchain::{Tool, tool};
