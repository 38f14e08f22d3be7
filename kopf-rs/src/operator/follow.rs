//! Runs one watch as a task: passes its events on, reports its failures, and restarts it after a panic.
//!
//! Must not know the purpose of the watch.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::{WatchEvent, Watched};
use crate::engine::report::report_of_operator;
use crate::handler::outcome::panic_text;
use crate::happening::serving::{Purpose, Watching};
use crate::object::collection::Collection;
use crate::operator::report::report_resumed;
use crate::rt::backoff::Backoff;
use crate::rt::outage::OutageGuard;
use crate::rt::task;

/// A watch that worked for this long before a panic had recovered from the previous panic.
const CALM: Duration = Duration::from_secs(60);

/// Watches for ever. `outage` outlives this watch: a watch of the same collection that replaces it continues the outage.
pub(crate) async fn follow(
    purpose: Purpose,
    cluster: Cluster,
    watched: Watched,
    outage: OutageGuard,
    mut sink: impl FnMut(WatchEvent) + Send,
) {
    let (first, longest) = watched.pace.backoff;
    let mut panics = Backoff::new(first, longest);
    let mut health = Health {
        collection: watched.collection.clone(),
        purpose,
        outage,
        is_in_trouble: false,
        was_in_trouble: false,
    };
    loop {
        let what = watched.collection.clone();
        report_of_operator(&Watching::Started { what });
        let started = Instant::now();
        let mut on_event = |event: WatchEvent| {
            if health.on_event(&event) {
                sink(WatchEvent::Resumed);
            }
            sink(event);
        };
        let watching = AssertUnwindSafe(cluster.watch(&watched, &mut on_event)).catch_unwind();
        let Err(panic) = watching.await;
        health.has_panicked();
        if started.elapsed() >= CALM {
            panics.reset();
        }
        let pause = panics.next_pause(cluster.rng());
        let panic = panic_text(panic.as_ref()).unwrap_or("a value that is no text");
        let panic = panic.to_owned();
        let what = watched.collection.clone();
        report_of_operator(&Watching::Panicked { what, panic, pause });
        tokio::time::sleep(pause).await;
    }
}

/// Spawns a watch with an outage of its own. Dropping the handle ends the watch.
pub(crate) fn follow_in_task(
    cluster: &Cluster,
    watched: Watched,
    sink: impl FnMut(WatchEvent) + Send + 'static,
) -> AbortOnDropHandle<()> {
    let outage = membership(cluster);
    let following = follow(Purpose::Handlers, cluster.clone(), watched, outage, sink);
    AbortOnDropHandle::new(task::spawn(following))
}

/// Returns the link of a watch to outages. A watch that ends during an outage reports nothing, because no object has waited for it.
pub(super) fn membership(cluster: &Cluster) -> OutageGuard {
    OutageGuard::new(cluster.outages().clone(), |_| ())
}

/// The health of a watch, judged by its events.
struct Health {
    collection: Arc<Collection>,
    purpose: Purpose,
    outage: OutageGuard,
    /// This watch has reported the failure itself, and will report its end. A listing alone does not end it, since watching may still fail
    /// after it.
    is_in_trouble: bool,
    /// The watch was failing when it panicked, so the restarted one cannot report the end of the failure.
    was_in_trouble: bool,
}

impl Health {
    /// Processes an event. Returns whether it ends the failure of a watch that has panicked, which no other event would report.
    fn on_event(&mut self, event: &WatchEvent) -> bool {
        let collection = &self.collection;
        match event {
            WatchEvent::Trouble(error) => {
                self.is_in_trouble = true;
                let (what, purpose) = (collection.clone(), self.purpose);
                let mut outage = error.outage(&collection.resource);
                if matches!(error, ClusterError::Denied { .. }) && purpose != Purpose::Handlers {
                    // A separate outage, because the operator works without this watch and handlers do not depend on it.
                    outage = format!("the operator's own watch is {outage}");
                }
                let is_news = self.outage.join(&outage).is_some();
                report_of_operator(&failed(what, error, purpose, is_news));
            }
            WatchEvent::Resumed => self.recovered(),
            // A watch that replaces a failing one does not know that it has resumed anything.
            WatchEvent::Synced(_) if !self.is_in_trouble => {
                let is_of_former = self.was_in_trouble;
                self.recovered();
                return is_of_former;
            }
            WatchEvent::Silent => {
                let what = collection.clone();
                report_of_operator(&Watching::Silent { what });
            }
            WatchEvent::Synced(_)
            | WatchEvent::Listing(_)
            | WatchEvent::Object(..)
            | WatchEvent::Bookmark => {}
        }
        false
    }

    fn has_panicked(&mut self) {
        self.was_in_trouble |= std::mem::take(&mut self.is_in_trouble);
    }

    fn recovered(&mut self) {
        (self.is_in_trouble, self.was_in_trouble) = (false, false);
        report_resumed(self.outage.leave(), |is_news| {
            let what = self.collection.clone();
            Watching::Resumed { what, is_news }
        });
    }
}

fn failed(what: Arc<Collection>, error: &ClusterError, purpose: Purpose, is_news: bool) -> Watching {
    let text = error.to_string();
    match error {
        ClusterError::Denied { message, rule } => {
            Watching::Forbidden { what, message: message.clone(), rule: rule.clone(), purpose, is_news }
        }
        ClusterError::Unauthorized(_) => Watching::Unauthorized { what, error: text, is_news },
        _ => Watching::Failed { what, error: text, is_news },
    }
}

#[cfg(test)]
mod tests;
