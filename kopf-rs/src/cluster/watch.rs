//! List and watch one resource, for ever: a silent, cut or refused watch comes back by itself, alone.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::handler::cause::EventType;
use crate::object::raw::Raw;
use crate::object::resource::Resource;

/// What is watched, and how.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) resource: Arc<Resource>,
    /// `None`: cluster-wide.
    pub(crate) namespace: Option<String>,
    pub(crate) pace: WatchPace,
}

/// Timings of a watch; defaults as Kopf's settings `watching.*` where they exist.
#[derive(Clone, Debug)]
pub(crate) struct WatchPace {
    /// No line for that long: reconnect.
    pub(crate) inactivity: Duration,
    /// `timeoutSeconds` asked of the server, before jitter.
    pub(crate) server_timeout: Duration,
    /// First and longest pause after failures.
    pub(crate) backoff: (Duration, Duration),
    /// Objects per page where the server has no streaming lists.
    pub(crate) page: u32,
}

impl Default for WatchPace {
    fn default() -> Self {
        Self {
            inactivity: Duration::from_secs(70),
            // Jitter takes up to a sixth off: 200 to 235 s, so that a quiet watch ends before a middlebox cuts it at 240 s.
            server_timeout: Duration::from_secs(235),
            backoff: (Duration::from_millis(800), Duration::from_secs(30)),
            page: 500,
        }
    }
}

/// What a watch tells.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    /// A listing begins: objects not named until [`WatchEvent::Synced`] do not exist any more.
    Listing,
    /// An object as listed, added, modified or deleted.
    Object(EventType, Raw),
    /// The listing is complete.
    Synced,
    /// The watch is in trouble and tries again by itself. Told once, not on every try.
    Trouble(ClusterError),
    /// The trouble is over.
    Resumed,
}

impl Cluster {
    /// Feed `sink` until the future is dropped. The sink must not block.
    pub(crate) async fn watch(
        &self,
        watched: &Watched,
        sink: &mut (dyn FnMut(WatchEvent) + Send),
    ) -> Infallible {
        let _ = (watched, sink);
        todo!("cluster")
    }
}
