//! Connections to the cluster that flags select, for the operator and for tasks that end by themselves.
//!
//! This module does not know what the connection is for.

use std::error::Error;

use futures_util::FutureExt;
use kopf_rs_flags::ConnectionFlags;
use tokio::runtime::Builder;

use crate::cluster::Cluster;
use crate::cluster::connect::{self, ConnectOptions, Connection};

/// Connects and sends a first request, so that connection errors are reported before anything starts.
pub(super) async fn checked_connection(options: &ConnectOptions) -> Result<Connection, Box<dyn Error>> {
    let connection = connect::connect(options).await?;
    let version = Cluster::new(connection.client.clone()).check().await?;
    tracing::debug!("The cluster runs Kubernetes {version}.");
    Ok(connection)
}

pub(super) async fn connection(flags: &ConnectionFlags) -> Result<Connection, Box<dyn Error>> {
    Ok(connect::connect(&options(flags)).await?)
}

/// Returns the options of the command line.
pub(super) fn options(flags: &ConnectionFlags) -> ConnectOptions {
    let ConnectionFlags { kubeconfig, context } = flags.clone();
    ConnectOptions { kubeconfig, context, ..ConnectOptions::default() }
}

/// Runs a task to its end, on a runtime of its own. The task is boxed, because each of tokio's ways to run it would contain its code.
pub(super) fn complete<T>(
    task: impl Future<Output = Result<T, Box<dyn Error>>>,
) -> Result<T, Box<dyn Error>> {
    Builder::new_current_thread().enable_all().build()?.block_on(task.boxed_local())
}
