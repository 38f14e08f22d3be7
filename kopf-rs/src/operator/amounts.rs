//! Times and numbers of settings that mean nothing where they are zero.
//!
//! Must not know where settings come from.

use std::time::Duration;

use crate::operator::settings::{Settings, SettingsError};

/// The names of settings that are zero and must not be: something would never work, or be repeated without a pause.
///
/// Zero means something elsewhere: handlers are cancelled at once (`queueing.exit_timeout`), or are tried again at once
/// (`execution.default_backoff` and its siblings), as in Kopf.
pub(super) fn zeros(settings: &Settings) -> Vec<&'static str> {
    let Settings {
        execution,
        queueing,
        watching,
        networking,
        admission,
        ..
    } = settings;
    let counts = [
        ("execution.max_workers", execution.max_workers == 0),
        ("execution.max_reconciles", execution.max_reconciles == 0),
        ("queueing.worker_limit", queueing.worker_limit == Some(0)),
        ("watching.chunk_size", watching.chunk_size == 0),
        (
            "networking.concurrent_writes",
            networking.concurrent_writes == 0,
        ),
        ("admission.migration_rate", admission.migration_rate == 0),
    ];
    let times = times(settings);
    let times = times
        .into_iter()
        .map(|(name, time)| (name, time.is_some_and(|it| it.is_zero())));
    let all = times.chain(counts);
    all.filter_map(|(name, is_zero)| is_zero.then_some(name))
        .collect()
}

/// All times that must not be zero, by their names.
fn times(settings: &Settings) -> Vec<(&'static str, Option<Duration>)> {
    let Settings {
        background,
        watching,
        networking,
        scanning,
        peering,
        health,
        admission,
        ..
    } = settings;
    vec![
        (
            "background.cancellation_polling",
            Some(background.cancellation_polling),
        ),
        ("watching.server_timeout", Some(watching.server_timeout)),
        ("watching.client_timeout", watching.client_timeout),
        (
            "watching.inactivity_timeout",
            Some(watching.inactivity_timeout),
        ),
        (
            "watching.reconnect_backoff",
            Some(watching.reconnect_backoff),
        ),
        ("watching.longest_backoff", Some(watching.longest_backoff)),
        ("networking.first_backoff", Some(networking.first_backoff)),
        (
            "networking.longest_backoff",
            Some(networking.longest_backoff),
        ),
        (
            "networking.request_timeout",
            Some(networking.request_timeout),
        ),
        ("scanning.interval", Some(scanning.interval)),
        ("peering.lifetime", Some(peering.lifetime)),
        ("health.probe_timeout", Some(health.probe_timeout)),
        ("health.beat_timeout", Some(health.beat_timeout)),
        ("health.late_after", Some(health.late_after)),
        ("health.stuck_after", Some(health.stuck_after)),
        (
            "admission.certificate_life",
            Some(admission.certificate_life),
        ),
    ]
}

/// What is wrong with them.
pub(super) fn check_amounts(settings: &Settings) -> Result<(), SettingsError> {
    match zeros(settings).first() {
        None => Ok(()),
        Some(name) => Err(SettingsError::new(format!(
            "`{name}` is 0: expected more than 0"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_that_mean_nothing_are_named() {
        assert_eq!(check_amounts(&Settings::default()), Ok(()));
        let meant = Settings::with(|settings| {
            settings.queueing.exit_timeout = Duration::ZERO;
            settings.execution.first_backoff = Duration::ZERO;
        });
        assert_eq!(zeros(&meant), [""; 0]);
        let wrong = Settings::with(|settings| {
            settings.watching.client_timeout = Some(Duration::ZERO);
            settings.queueing.worker_limit = Some(0);
        });
        assert_eq!(
            zeros(&wrong),
            ["watching.client_timeout", "queueing.worker_limit"]
        );
        let told = check_amounts(&wrong).unwrap_err().to_string();
        assert_eq!(told, "`watching.client_timeout` is 0: expected more than 0");
    }
}
