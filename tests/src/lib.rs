//! Test harness for the behaviour of kopf-rs: API servers, objects, awaited conditions, captured log lines.
//!
//! A scenario is one async function over a [`TestCluster`]: a server, an administrator's client and a separate namespace. [`scenarios!`]
//! runs it on every [`Server`]: in memory under virtual time, in the process over TLS, and on a real kube-apiserver. The harness never
//! sleeps to wait: it awaits conditions on watches and on log lines, with a deadline. It knows the API servers but must not know how an
//! operator works inside.

#![forbid(unsafe_code)]
#![expect(clippy::missing_panics_doc, reason = "a panic is how a harness fails its test")]

mod built;
pub mod corpus;
mod digest;
mod fetched;
mod java;
mod lines;
mod node;
mod play;
mod python;
mod real;
mod recorded;
mod resource;
mod served;
mod skip;
mod test_cluster;
mod toolchain;
mod watchdog;
mod webhook;

pub use built::{built_library, built_program, kopf_rs_binary, leave_outer_cargo, outside_program};
pub use digest::Digest;
pub use java::java_program_for;
pub use kopf_rs::testing::Program;
pub use lines::{Lines, subscriber};
pub use node::node_program_for;
pub use play::{Server, play, runtime};
pub use python::{Package, PythonError, python_for, python_of};
pub use real::{RealServer, StartError};
pub use recorded::{Mode, Recorded};
pub use resource::documents;
pub use served::Served;
pub use skip::{Missing, say, skipped};
pub use test_cluster::{Asked, TestCluster};
pub use toolchain::{Tool, ToolError, go_program, kubernetes_version, tool};
pub use webhook::Webhook;
