//! Test harness for the behaviour of kopf-rs: API servers, objects, awaited conditions, captured log lines.
//!
//! A scenario is one async function over a [`TestCluster`]: a server, an administrator's client and a separate namespace. [`scenarios!`]
//! runs it on every [`Server`]: in memory under virtual time, in the process over TLS, and on a real kube-apiserver. The harness never
//! sleeps to wait: it awaits conditions on watches and on log lines, with a deadline. It knows the API servers but must not know how an
//! operator works inside.

#![forbid(unsafe_code)]
#![expect(clippy::missing_panics_doc, reason = "a panic is how a harness fails its test")]

#[cfg(doctest)]
mod book;
mod built;
mod lines;
mod play;
mod resource;
mod test_cluster;

pub use built::{built_library, built_program, kopf_rs_binary};
pub use kopf_rs::testing::Program;
pub use kopf_rs_apiserver_tests::{
    Digest, Missing, Mode, Package, RealServer, Recorded, Served, StartError, Tool, ToolError, Webhook,
    corpus, go_program, kubernetes_version, leave_outer_cargo, python_for, python_of, requirements, runtime,
    say, skipped, tool,
};
pub use lines::{Lines, subscriber};
pub use play::{Server, play};
pub use resource::documents;
pub use test_cluster::{Asked, TestCluster};
