//! One watch as a task: hands its events on, tells of its troubles, and goes on after a panic.
//!
//! Must not know what is watched for.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::{WatchEvent, Watched};
use crate::engine::report::report_outage_over;
use crate::handler::outcome::panic_text;
use crate::happening::serving::{Serving, Trouble, Watching};
use crate::object::collection::Collection;
use crate::operator::report::{report_resumed, report_serving};
use crate::rt::backoff::Backoff;
use crate::rt::outage::Membership;

/// A watch that went on for that long before it panicked had recovered from the last panic.
const CALM: Duration = Duration::from_secs(60);

/// Watch for ever. `outage` survives this watch: another watch of the same collection goes on with it.
pub(crate) async fn follow(
    cluster: Cluster,
    watched: Watched,
    outage: Membership,
    mut sink: impl FnMut(WatchEvent) + Send,
) {
    let (first, longest) = watched.pace.backoff;
    let mut panics = Backoff::new(first, longest);
    let mut health = Health {
        collection: watched.collection.clone(),
        outage,
        is_in_trouble: false,
        was_in_trouble: false,
    };
    loop {
        tell_of(&watched.collection, Watching::Started);
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
        tell_of(&watched.collection, Watching::Panicked { panic, pause });
        tokio::time::sleep(pause).await;
    }
}

/// The same as a task with an outage of its own. Dropping the handle ends the watch.
pub(crate) fn follow_in_task(
    cluster: &Cluster,
    watched: Watched,
    sink: impl FnMut(WatchEvent) + Send + 'static,
) -> AbortOnDropHandle<()> {
    let outage = Membership::new(cluster.outages().clone(), report_outage_over);
    let following = follow(cluster.clone(), watched, outage, sink);
    AbortOnDropHandle::new(tokio::spawn(following))
}

/// Whether the watch goes on as it should, as far as it has told.
struct Health {
    collection: Arc<Collection>,
    outage: Membership,
    /// This watch itself has told of it, and will tell of its end: a listing alone is none, for it may be one that no watch can follow.
    is_in_trouble: bool,
    /// It was in trouble when it panicked: the one that is started again cannot tell of the end.
    was_in_trouble: bool,
}

impl Health {
    /// Take in what the watch tells. Whether the trouble of one that has panicked is over by that, which nobody else tells.
    fn on_event(&mut self, event: &WatchEvent) -> bool {
        let collection = &self.collection;
        match event {
            WatchEvent::Trouble(error) => {
                self.is_in_trouble = true;
                let outage = error.outage(&collection.resource);
                let is_news = self.outage.join(&outage).is_some();
                let trouble = trouble_of(error);
                tell_of(collection, Watching::Failed { trouble, is_news });
            }
            WatchEvent::Resumed => self.recovered(),
            // A watch that takes over from one in trouble does not know that it has resumed anything.
            WatchEvent::Synced if !self.is_in_trouble => {
                let is_of_former = self.was_in_trouble;
                self.recovered();
                return is_of_former;
            }
            WatchEvent::Silent => tell_of(collection, Watching::Silent),
            WatchEvent::Synced
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
            Serving::Watch(self.collection.clone(), Watching::Resumed { is_news })
        });
    }
}

fn trouble_of(error: &ClusterError) -> Trouble {
    match error {
        ClusterError::Denied { message, rule } => Trouble::Forbidden {
            message: message.clone(),
            rule: rule.clone(),
        },
        ClusterError::Unauthorized(_) => Trouble::Unauthorized(error.to_string()),
        error => Trouble::Other(error.to_string()),
    }
}

fn tell_of(collection: &Arc<Collection>, watching: Watching) {
    report_serving(Serving::Watch(collection.clone(), watching));
}

#[cfg(test)]
mod tests;
