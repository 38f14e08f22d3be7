//! Checks that a runtime responds: sends a message every second, and records since when one is unanswered.
//!
//! Runs on another runtime under real time, because a blocked runtime cannot report that itself.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::health::checks::seconds;

/// The interval between messages.
const PERIOD: Duration = Duration::from_secs(1);

/// The pulse of one runtime. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Pulse(watch::Receiver<Option<Instant>>);

/// A runtime that has not responded for this duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stuck(pub(super) Duration);

impl Stuck {
    pub(super) fn words(self) -> String {
        format!("no answer for {}", seconds(self.0))
    }
}

impl Pulse {
    /// Returns the pulse of a runtime, and the future that maintains it.
    pub(super) fn of(runtime: Handle) -> (Self, impl Future<Output = ()> + Send) {
        Self::new(move |answer: oneshot::Sender<()>| drop(runtime.spawn(async move { answer.send(()) })))
    }

    /// Returns a pulse, and the future that maintains it: `send` sends a message to the runtime, which is to respond.
    fn new(send: impl Fn(oneshot::Sender<()>) + Send) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, since) = watch::channel(None);
        let beating = async move {
            loop {
                let (answer, answered) = oneshot::channel();
                sender.send_replace(Some(Instant::now()));
                send(answer);
                let is_there = answered.await.is_ok();
                sender.send_replace(None);
                if !is_there {
                    return;
                }
                sleep(PERIOD).await;
            }
        };
        (Self(since), beating)
    }

    /// Returns the duration without a response if it is longer than `bound`.
    pub(super) fn stuck_beyond(&self, bound: Duration) -> Option<Stuck> {
        let silent = self.0.borrow().as_ref().map(Instant::elapsed)?;
        (silent >= bound).then_some(Stuck(silent))
    }

    /// Waits for a response of the runtime, unless it is or becomes stuck.
    pub(super) async fn unless_stuck<T>(
        &self,
        bound: Duration,
        answer: impl Future<Output = T>,
    ) -> Result<T, Stuck> {
        tokio::select! {
            biased;
            answer = answer => Ok(answer),
            stuck = self.clone().stuck(bound) => Err(stuck),
        }
    }

    async fn stuck(mut self, bound: Duration) -> Stuck {
        loop {
            if let Some(stuck) = self.stuck_beyond(bound) {
                return stuck;
            }
            let since = *self.0.borrow_and_update();
            let is_over = async {
                match since {
                    Some(since) => sleep_until(since + bound).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = is_over => {}
                changed = self.0.changed() => if changed.is_err() {
                    // The maintaining future is gone, because the runtime has ended.
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_runtime_is_stuck_from_its_first_message_without_an_answer_on() {
        const BOUND: Duration = Duration::from_secs(10);
        let held = Mutex::new(None);
        let is_blocked = std::sync::atomic::AtomicBool::new(false);
        let (pulse, beating) = Pulse::new(|answer| {
            if is_blocked.load(std::sync::atomic::Ordering::Relaxed) {
                *held.lock() = Some(answer);
            } else {
                answer.send(()).unwrap();
            }
        });
        let course = async {
            sleep(Duration::from_secs(60)).await;
            assert_eq!(pulse.stuck_beyond(BOUND), None);
            let soon = pulse.unless_stuck(BOUND, sleep(Duration::from_secs(30))).await;
            assert_eq!(soon, Ok(()));
            is_blocked.store(true, std::sync::atomic::Ordering::Relaxed);
            let begun = Instant::now();
            let stuck = pulse.unless_stuck(BOUND, std::future::pending::<()>()).await;
            assert_eq!(stuck, Err(Stuck(BOUND)));
            assert!(begun.elapsed() <= BOUND + PERIOD);
            is_blocked.store(false, std::sync::atomic::Ordering::Relaxed);
            held.lock().take().unwrap().send(()).unwrap();
            sleep(PERIOD).await;
            assert_eq!(pulse.stuck_beyond(Duration::ZERO), None);
        };
        tokio::select! {
            () = course => {}
            () = beating => panic!("the pulse has ended"),
        }
    }
}
