//! Tracks which certificates all configurations of webhooks and all definitions with conversions contain.
//!
//! Must not know these objects.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// The authorities that the API server must trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    /// PEM.
    pub(super) bundle: String,
    /// The newest generation in the bundle.
    pub(super) newest: u32,
}

/// The newest generation that all publishers have written, and the time since which they have.
pub(super) type Published = Option<(u32, Instant)>;

/// Passes the authorities to the publishers, and collects the generation of each.
pub(super) struct Publishing {
    trust: watch::Sender<Trust>,
    published: watch::Sender<Published>,
    held: Mutex<Vec<Option<u32>>>,
}

/// One configuration or definition that must contain the certificates.
pub(super) struct Publisher {
    of: Arc<Publishing>,
    number: usize,
}

impl Publishing {
    pub(super) fn new() -> Arc<Self> {
        let trust = watch::Sender::new(Trust::default());
        Arc::new(Self { trust, published: watch::Sender::new(None), held: Mutex::default() })
    }

    /// Returns the authorities to trust.
    pub(super) fn trust(&self) -> watch::Receiver<Trust> {
        self.trust.subscribe()
    }

    /// Changes the authorities to trust. The function returns whether it has changed them.
    pub(super) fn change_trust(&self, change: impl FnOnce(&mut Trust) -> bool) {
        self.trust.send_if_modified(change);
    }

    /// Returns the newest generation in the authorities to trust.
    pub(super) fn newest(&self) -> u32 {
        self.trust.borrow().newest
    }

    /// Returns the generation that all publishers have written.
    pub(super) fn published(&self) -> watch::Receiver<Published> {
        self.published.subscribe()
    }

    /// Completes when all publishers have written a generation: at once if there are none.
    pub(super) fn all_published(&self) -> impl Future<Output = ()> + use<> {
        let is_awaited = !self.held.lock().is_empty();
        let mut published = self.published();
        async move {
            if is_awaited {
                // Fails only if the operator ends.
                let _ = published.wait_for(Option::is_some).await;
            }
        }
    }

    /// Adds a publisher. All of them must be added before the first one reports.
    pub(super) fn publisher(self: &Arc<Self>) -> Publisher {
        let mut held = self.held.lock();
        held.push(None);
        Publisher { of: self.clone(), number: held.len() - 1 }
    }
}

impl Publisher {
    /// Notes that this publisher has written the generation.
    pub(super) fn holds(&self, newest: u32, now: Instant) {
        let mut held = self.of.held.lock();
        held[self.number] = Some(newest);
        let all = held.iter().copied().min().flatten();
        let Some(oldest) = all else {
            return;
        };
        self.of.published.send_if_modified(|published| {
            let is_news = published.is_none_or(|(newest, _)| newest != oldest);
            if is_news {
                *published = Some((oldest, now));
            }
            is_news
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn nobody_waits_for_configurations_that_the_operator_does_not_write() {
        let publishing = Publishing::new();
        assert_eq!(publishing.all_published().now_or_never(), Some(()));
        let publisher = publishing.publisher();
        assert_eq!(publishing.all_published().now_or_never(), None);
        publisher.holds(1, Instant::now());
        assert_eq!(publishing.all_published().now_or_never(), Some(()));
    }

    #[test]
    fn a_generation_is_published_once_everybody_holds_it() {
        let publishing = Publishing::new();
        let published = publishing.published();
        let [one, other] = [publishing.publisher(), publishing.publisher()];
        let begun = Instant::now();
        let at = |second| begun + std::time::Duration::from_secs(second);
        one.holds(1, at(1));
        assert_eq!(*published.borrow(), None);
        other.holds(1, at(2));
        assert_eq!(*published.borrow(), Some((1, at(2))));
        one.holds(2, at(3));
        one.holds(2, at(4));
        assert_eq!(*published.borrow(), Some((1, at(2))));
        other.holds(2, at(5));
        assert_eq!(*published.borrow(), Some((2, at(5))));
    }
}
