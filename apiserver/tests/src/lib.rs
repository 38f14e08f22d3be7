//! Programs of other projects for tests: a real kube-apiserver, tools and clients built once per machine, recordings of their output, and
//! the corpus of requests by which tests compare the API server in the process with the real one.
//!
//! The tests of the framework use this crate, too. Must not know the framework.

#![forbid(unsafe_code)]
#![expect(
    clippy::missing_panics_doc,
    reason = "a panic is how a harness fails its test"
)]

mod built;
pub mod corpus;
mod digest;
mod fetched;
mod java;
mod node;
mod program;
mod python;
mod real;
mod recorded;
mod served;
mod skip;
mod toolchain;
mod watchdog;
mod webhook;

use std::path::Path;

pub use built::{built_library, built_programs, leave_outer_cargo, outside_program};
pub use digest::Digest;
pub use java::java_program_for;
pub use node::node_program_for;
pub use program::Program;
pub use python::{Package, PythonError, python_for, python_of, requirements};
pub use real::{RealServer, StartError, kubectl};
pub use recorded::{Mode, Recorded};
pub use served::{Served, runtime};
pub use skip::{Missing, say, skipped};
pub use toolchain::{Tool, ToolError, go_program, kubernetes_version, tool};
pub use webhook::Webhook;

/// Returns the folder of the API server's workspace.
#[must_use]
pub fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
