//! Real time for sockets under Tokio's paused time, which jumps to the next timer whenever all tasks wait, even if one of them
//! waits for a socket. Each timeout would then fire before the answer arrives.
//!
//! Guarantees that paused time stands still while it is held, but only for a few seconds, since the called webhook may wait for a
//! timer itself. Must not depend on the called webhook.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The maximum duration of a hold. A webhook that waits for paused time would otherwise never answer.
const LONGEST: Duration = Duration::from_secs(5);

/// Holds paused time until it is dropped.
pub(super) struct TimeHold {
    held: Option<(Sender<()>, JoinHandle<bool>)>,
}

impl TimeHold {
    /// Holds time if it is paused.
    pub(super) fn begin() -> Self {
        let held = is_paused().then(|| {
            let (ends, ended) = channel::<()>();
            // Paused time does not advance while a thread of the blocking pool is busy.
            let busy = tokio::task::spawn_blocking(move || ended.recv_timeout(LONGEST).is_ok());
            (ends, busy)
        });
        Self { held }
    }

    /// Returns a hint for the error message if the hold timed out.
    pub(super) fn hint(&self) -> &'static str {
        let is_over = self
            .held
            .as_ref()
            .is_some_and(|(_, busy)| busy.is_finished());
        if is_over {
            " (tokio's time is paused here, and the webhook has not answered in 5 seconds of real time: if it waits for a timer, run the test \
             without `start_paused`)"
        } else {
            ""
        }
    }
}

/// Returns whether Tokio's clock stands still while real time advances.
#[expect(
    clippy::disallowed_methods,
    reason = "only beside the real clock it shows that tokio's stands still"
)]
fn is_paused() -> bool {
    let (seen, real) = (Instant::now(), std::time::Instant::now());
    while real.elapsed().is_zero() {
        std::hint::spin_loop();
    }
    Instant::now() == seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn real_time_is_not_held() {
        assert!(TimeHold::begin().held.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_stands_still_until_it_is_let_go() {
        let before = Instant::now();
        let hold = TimeHold::begin();
        assert_eq!(hold.hint(), "");
        let timer = tokio::spawn(tokio::time::sleep(Duration::from_secs(3600)));
        let work = tokio::task::spawn_blocking(|| std::fs::read_dir("."));
        assert!(work.await.expect("it ends").is_ok());
        assert_eq!(Instant::now(), before);
        drop(hold);
        timer.await.expect("the timer ends");
        assert_eq!(before.elapsed(), Duration::from_secs(3600));
    }

    #[tokio::test(start_paused = true)]
    async fn time_is_not_held_for_ever_and_that_is_told() {
        let hold = TimeHold::begin();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(hold.hint().contains("start_paused"));
    }
}
