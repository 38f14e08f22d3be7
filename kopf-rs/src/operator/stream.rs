//! One watch as a task: feeds whoever wants its events, and tells the log of its troubles, once each.
//!
//! Must not know what is watched for.

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::{WatchEvent, Watched};

/// Watch for ever.
pub(crate) async fn follow(
    cluster: Cluster,
    watched: Watched,
    mut sink: impl FnMut(WatchEvent) + Send,
) {
    let place = match &watched.namespace {
        Some(namespace) => format!("in '{namespace}'"),
        None => "cluster-wide".to_owned(),
    };
    let what = format!("{} {place}", watched.resource);
    tracing::debug!("Starting the watch-stream for {what}.");
    let mut heed = |event: WatchEvent| {
        match &event {
            WatchEvent::Trouble(error) => tell(&what, error),
            WatchEvent::Resumed => tracing::info!("The watch-stream for {what} works again."),
            WatchEvent::Listing | WatchEvent::Object(..) | WatchEvent::Synced => {}
        }
        sink(event);
    };
    cluster.watch(&watched, &mut heed).await;
}

fn tell(what: &str, error: &ClusterError) {
    match error {
        ClusterError::Gone(_) => tracing::debug!("Restarting the watch-stream for {what}."),
        ClusterError::Denied { message, rule } => tracing::error!(
            "Not enough permissions to watch {what}: {message}\nTo permit it, add {rule}"
        ),
        ClusterError::Unauthorized(_) => tracing::error!(
            "The watch-stream for {what} is refused: {error}. Are the credentials still valid? Will retry."
        ),
        error => tracing::warn!("The watch-stream for {what} has failed; will retry: {error}"),
    }
}
