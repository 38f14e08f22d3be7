//! The clock of handlers.
//!
//! Must not know what handlers do with the time.

use std::any::TypeId;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};

use crate::handler::cause::Cause;
use crate::handler::error::HandlerError;
use crate::handler::extensions::Extensions;
use crate::handler::extract::FromCause;
use crate::rt;

/// The time of day for handlers: the system's time, or the virtual time of a test.
///
/// `SystemTime::now()` does not follow the virtual time of `#[tokio::test(start_paused = true)]`. A handler of any kind
/// gets this clock as an argument by its type, and a closure by [`Cause::clock`]:
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use kopf_rs::prelude::*;
///
/// #[derive(Deserialize)]
/// struct Spec { not_after: u64 }
///
/// #[timer("certificates.example.com", interval = 3600)]
/// async fn renew(spec: Spec, clock: Clock, patch: &mut Patch) {
///     let expires = SystemTime::UNIX_EPOCH + Duration::from_secs(spec.not_after);
///     if expires < clock.now() + Duration::from_secs(7 * 86_400) {
///         patch.set("status.renew", true);
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// // In a unit test:
/// let mut patch = Patch::default();
/// renew(Spec { not_after: 900_000 }, Clock::starting_at(SystemTime::UNIX_EPOCH), &mut patch).await;
/// assert!(patch["status"]["renew"].is_null());
/// let eight_days = SystemTime::UNIX_EPOCH + Duration::from_secs(691_200);
/// renew(Spec { not_after: 900_000 }, Clock::starting_at(eight_days), &mut patch).await;
/// assert_eq!(patch["status"]["renew"], true);
/// # });
/// ```
///
/// Handlers get the operator's own clock, unless the operator was given another one by
/// [`Operator::with`](crate::Operator::with).
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    clock: rt::clock::Clock,
    /// The lead of this clock.
    ahead: SignedDuration,
}

impl Clock {
    /// Returns a clock with the system's time. Under virtual time, it begins at the system's time and moves with virtual
    /// time.
    #[must_use]
    pub fn new() -> Self {
        Self { clock: rt::clock::Clock::start(), ahead: SignedDuration::ZERO }
    }

    /// Returns a clock that now shows this time, for tests.
    #[must_use]
    pub fn starting_at(time: SystemTime) -> Self {
        let clock = rt::clock::Clock::start();
        let time = Timestamp::try_from(time).unwrap_or(Timestamp::MAX);
        Self { clock, ahead: time.duration_since(clock.wall()) }
    }

    /// Returns the present time.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.clock.wall().checked_add(self.ahead).unwrap_or(Timestamp::MAX).into()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl FromCause<'_> for Clock {
    fn from_cause(cause: &Cause) -> Result<Self, HandlerError> {
        Ok(cause.clock())
    }
}

/// Gives handlers the operator's clock, unless the program has given another one.
pub(super) fn give_clock(clock: rt::clock::Clock, extensions: &mut Extensions) {
    if !extensions.has(TypeId::of::<Clock>()) {
        extensions.insert(Clock { clock, ahead: SignedDuration::ZERO });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_moves_with_virtual_time() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
        let (set, system) = (Clock::starting_at(start), Clock::new());
        let begun = system.now();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let hour = Duration::from_secs(3600)..Duration::from_secs(3601);
        assert!(hour.contains(&set.now().duration_since(start).unwrap()));
        assert!(hour.contains(&system.now().duration_since(begun).unwrap()));
    }

    #[tokio::test]
    async fn the_operators_clock_yields_to_that_of_the_program() {
        let start = SystemTime::UNIX_EPOCH;
        let given = Cause::from(Cause::of(serde_json::json!({})).with(Clock::starting_at(start)));
        let since = given.clock().now().duration_since(start).unwrap();
        assert!(since < Duration::from_secs(3600), "{since:?}");
        let mut extensions = Extensions::default();
        extensions.insert(Clock::starting_at(start));
        give_clock(rt::clock::Clock::start(), &mut extensions);
        let kept = extensions.get::<Clock>().unwrap().now();
        assert!(kept.duration_since(start).unwrap() < Duration::from_secs(3600));
    }
}
