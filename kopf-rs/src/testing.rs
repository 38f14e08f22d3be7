//! Operators in tests: a Kubernetes API server in memory, conditions that are awaited, log lines, requests, faults, virtual time.
//!
//! It is the cargo feature `testing`, for the `[dev-dependencies]` of an operator:
//!
//! ```toml
//! [dev-dependencies]
//! kopf-rs = { version = "0.1", features = ["testing"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! A test starts a cluster and an operator, does something to the cluster, and waits for what is to come of it. No test sleeps:
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
//! - [`TestCluster`] is the server, and all that a test does to it; [`TestCluster::until`] awaits a state of an object.
//! - [`TestOperator`] is a running operator, to be stopped or killed. Several may run on one cluster, one after the other or at the same time.
//! - [`Lines`] are log lines; [`TestCluster::line`] awaits one.
//! - [`Calls`] are what the handlers of a test note, to be awaited and counted.
//! - [`Fault`] makes requests fail, and watches break or fall silent: [`TestCluster::fault`].
//! - [`review`] asks admission handlers about a request, without a cluster.
//! - [`round_trips`] converts random objects to other versions and back; [`converted`] converts one.
//! - [`Program`] is the operator's program, as a process of its own: its flags, its output, its exit code.
//!
//! # Time
//!
//! Under `#[tokio::test(start_paused = true)]` time is virtual: where everything waits, it jumps to the next moment at which something is due. A
//! retry after a minute, a timer's week or a daemon's timeout take a moment, and happen in the same order each time. A wait that would never end
//! fails after an hour of virtual time, or after 30 seconds on the wall: [`TestCluster::patience`].
//!
//! A [`Program`], and whatever else uses real sockets, needs real time: `#[tokio::test]`.

mod asking;
mod calls;
mod capture;
mod cluster;
mod conversion;
mod deadline;
mod kinds;
mod kubeconfig;
mod lines;
mod operator;
mod program;
mod random;
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
