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
    tracing::debug!("Starting the watch-stream for {watched}.");
    let mut heed = |event: WatchEvent| {
        match &event {
            WatchEvent::Trouble(error) => tell(&watched, error),
            WatchEvent::Resumed => tracing::info!("The watch-stream for {watched} works again."),
            WatchEvent::Listing | WatchEvent::Object(..) | WatchEvent::Synced => {}
        }
        sink(event);
    };
    cluster.watch(&watched, &mut heed).await;
}

fn tell(what: &Watched, error: &ClusterError) {
    match error {
        ClusterError::Denied { message, rule } if rule.is_empty() => {
            tracing::error!("The watch-stream for {what} is forbidden; will retry: {message}");
        }
        ClusterError::Denied { message, rule } => tracing::error!(
            "Not enough permissions to watch {what}: {message}\nTo permit it, add {rule}"
        ),
        ClusterError::Unauthorized(_) => tracing::error!(
            "The watch-stream for {what} is refused: {error}. Are the credentials still valid? Will retry."
        ),
        error => tracing::warn!("The watch-stream for {what} has failed; will retry: {error}"),
    }
}
