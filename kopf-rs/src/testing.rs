//! Tools for tests of operators: an in-memory Kubernetes API server, awaitable conditions, log lines, recorded
//! requests, faults and virtual time.
//!
//! Enable the cargo feature `testing` in the `[dev-dependencies]` of an operator:
//!
//! ```toml
//! [dev-dependencies]
//! kopf-rs = { version = "0.1", features = ["testing"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! A test starts a cluster and an operator, changes the cluster, and awaits the expected result. No test needs to
//! sleep:
//!
//! ```rust,test_harness
//! use kopf_rs::prelude::*;
//! use kopf_rs::Registry;
//! use kopf_rs::testing::TestCluster;
//!
//! #[on_create("configmaps")]
//! async fn greet(name: &str, patch: &mut Patch) {
//!     info!("{name} is here");
//!     patch["metadata"]["labels"]["greeted"] = json!("yes");
//! }
//!
//! #[tokio::test(start_paused = true)]
//! async fn new_config_maps_are_greeted() {
//!     let cluster = TestCluster::new();
//!     let operator = cluster.start(Registry::collected().unwrap());
//!     cluster.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})).await;
//!
//!     cluster.until("configmaps", "x", |map| map["metadata"]["labels"]["greeted"] == "yes").await;
//!     cluster.line("[default/x] x is here").await;
//!     assert_eq!(cluster.writes_to("configmaps", "x").await.len(), 1);
//!     operator.stop().await;
//! }
//! ```
//!
//! - [`TestCluster`] is the server, with the methods that a test uses on it; [`TestCluster::until`] awaits a state of
//!   an object.
//! - [`TestOperator`] is a running operator, which a test can stop or kill. Several can run on one cluster, in
//!   sequence or concurrently.
//! - [`Lines`] are log lines; [`TestCluster::line`] awaits one.
//! - [`Calls`] are notes that the handlers of a test record, which the test can await and count.
//! - [`Fault`] makes requests fail, and makes watches break or stall: [`TestCluster::fault`].
//! - [`review`] sends an admission request to handlers, without a cluster.
//! - [`round_trips`] converts random objects to other versions and back; [`converted`] converts one object.
//! - [`Program`] runs the operator's program as a separate process, and checks its flags, output and exit code.
//!
//! # Time
//!
//! Under `#[tokio::test(start_paused = true)]`, time is virtual: when all tasks wait, the clock jumps to the next
//! timer. A retry after a minute, a weekly timer or the timeout of a daemon completes immediately, and in the same order
//! on each run. A wait that would never end fails after one hour of virtual time, or after 30 seconds of real time:
//! [`TestCluster::patience`].
//!
//! A [`Program`], and all other code with real sockets, needs real time: `#[tokio::test]`.

mod asking;
mod calls;
mod capture;
mod cluster;
mod conversion;
mod deadline;
mod formats;
mod kinds;
mod kubeconfig;
mod lines;
mod operator;
mod program;
mod random;
mod recording;
mod review;
mod schema;
mod until;

pub use kopf_rs_apiserver::{ApiServer, Entry, Fault, FaultHandle, User, Verb, WorkloadOptions};

pub use calls::Calls;
pub use cluster::TestCluster;
pub use conversion::{converted, round_trips};
pub use lines::Lines;
pub use operator::TestOperator;
pub use program::Program;
pub use review::{Reviewed, TestReview, review};

#[cfg(test)]
mod tests;
