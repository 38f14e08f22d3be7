//! Validates times and numbers of settings that must not be zero or too large.
//!
//! Must not know the source of the settings.

use std::time::Duration;

use crate::object::lease::LARGEST;
use crate::operator::settings::{LeaseSettings, Setting, Settings, SettingsError, TABLE};
use crate::state::naming;

/// The minimum duration of a Lease: with a shorter one, a slow response would end the term.
const SHORTEST: Duration = Duration::from_secs(5);

/// Returns the names of settings that must not be zero but are.
///
/// Zero is valid elsewhere: handlers are cancelled at once (`queueing.exit_timeout`), or retried at once (`execution.default_backoff` and
/// related settings), as in Kopf; API servers are not waited for (`admission.propagation`, `admission.shutdown_grace`).
pub(super) fn zeros(settings: &Settings) -> Vec<&'static str> {
    let mut settings = settings.clone();
    let is_zero = |it: &&Setting| it.is_positive && (it.field)(&mut settings).is_zero();
    TABLE.iter().filter(is_zero).map(|it| it.name).collect()
}

/// Returns the settings with times that can be added to any instant.
pub(super) fn bounded(mut settings: Settings) -> Settings {
    for setting in TABLE {
        (setting.field)(&mut settings).bound();
    }
    settings
}

/// Checks the settings.
pub(super) fn check_amounts(settings: &Settings) -> Result<(), SettingsError> {
    match zeros(settings).first() {
        None => check_names(settings).and_then(|()| check_lease(&settings.lease)),
        Some(name) => Err(SettingsError::new(format!("`{name}` is 0: expected more than 0"))),
    }
}

/// Checks the names of objects that the operator creates.
fn check_names(settings: &Settings) -> Result<(), SettingsError> {
    let names = [
        ("lease.name", settings.lease.name.as_ref()),
        ("admission.managed", settings.admission.managed.as_ref()),
    ];
    for (setting, name) in names {
        if let Some(name) = name.filter(|it| !naming::is_valid_prefix(it)) {
            return Err(SettingsError::new(format!(
                "`{setting}` is {name:?}: expected the name of an object, such as `my-operator.example.com`: small letters, digits, `-` and `.`"
            )));
        }
    }
    Ok(())
}

/// Checks that each time of the Lease leaves room for the next shorter one.
fn check_lease(lease: &LeaseSettings) -> Result<(), SettingsError> {
    let wrong = |name: &str, found: Duration, expected: String| {
        let found = found.as_secs_f64();
        Err(SettingsError::new(format!("`{name}` is {found} seconds: expected {expected}")))
    };
    let LeaseSettings { duration, renew_deadline, retry_period, .. } = *lease;
    if duration < SHORTEST || duration.subsec_nanos() > 0 {
        let expected = "whole seconds, at least 5".to_owned();
        return wrong("lease.duration", duration, expected);
    }
    if duration.as_secs() > LARGEST {
        let expected = format!("at most {LARGEST}, the largest number of the API");
        return wrong("lease.duration", duration, expected);
    }
    let most = duration.saturating_sub(Duration::from_secs(1));
    if renew_deadline > most {
        let most = most.as_secs_f64();
        let expected = format!("at most {most}, a second less than `lease.duration`");
        return wrong("lease.renew_deadline", renew_deadline, expected);
    }
    if retry_period > renew_deadline / 2 {
        let most = (renew_deadline / 2).as_secs_f64();
        let expected = format!("at most {most}, half of `lease.renew_deadline`");
        return wrong("lease.retry_period", retry_period, expected);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_lease_that_leave_no_room_are_refused() {
        let message = |change: fn(&mut LeaseSettings)| {
            let settings = Settings::with(|settings| change(&mut settings.lease));
            let message = check_amounts(&settings);
            message.map_or_else(|error| error.to_string(), |()| String::new())
        };
        let seconds = Duration::from_secs;
        assert_eq!(message(|_| {}), "");
        assert_eq!(
            message(|it| it.duration = Duration::from_millis(7500)),
            "`lease.duration` is 7.5 seconds: expected whole seconds, at least 5"
        );
        assert_eq!(
            message(|it| it.duration = Duration::from_secs(3_000_000_000)),
            "`lease.duration` is 3000000000 seconds: expected at most 2147483647, the largest number of the API"
        );
        assert_eq!(
            message(|it| it.renew_deadline = Duration::from_secs(15)),
            "`lease.renew_deadline` is 15 seconds: expected at most 14, a second less than `lease.duration`"
        );
        assert_eq!(
            message(|it| it.retry_period = Duration::from_secs(6)),
            "`lease.retry_period` is 6 seconds: expected at most 5, half of `lease.renew_deadline`"
        );
        let short = Settings::with(|settings| {
            settings.lease.duration = seconds(5);
            settings.lease.renew_deadline = seconds(3);
            settings.lease.retry_period = seconds(1);
        });
        assert_eq!(check_amounts(&short), Ok(()));
    }

    #[test]
    fn names_that_no_object_can_have_are_refused() {
        let message = |change: fn(&mut Settings)| {
            let message = check_amounts(&Settings::with(change));
            message.map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(message(|it| it.lease.name = Some("my.op-1".to_owned())), "");
        assert_eq!(
            message(|it| it.lease.name = Some(String::new())),
            "`lease.name` is \"\": expected the name of an object, such as `my-operator.example.com`: small letters, digits, `-` and `.`"
        );
        let refused = message(|it| it.admission.managed = Some("Bad Name".to_owned()));
        assert!(refused.starts_with("`admission.managed` is \"Bad Name\": "));
    }

    #[test]
    fn no_time_is_too_long_to_be_added() {
        let endless = bounded(Settings::with(|settings| {
            settings.health.beat_timeout = Duration::MAX;
            settings.watching.client_timeout = Some(Duration::MAX);
        }));
        let century = Duration::from_secs(100 * 365 * 24 * 60 * 60);
        assert_eq!(endless.health.beat_timeout, century);
        assert_eq!(endless.watching.client_timeout, Some(century));
        let (usual, default) = (bounded(Settings::default()), Settings::default());
        assert_eq!(format!("{usual:?}"), format!("{default:?}"));
    }

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
        assert_eq!(zeros(&wrong), ["queueing.worker_limit", "watching.client_timeout"]);
        let message = check_amounts(&wrong).unwrap_err().to_string();
        assert_eq!(message, "`queueing.worker_limit` is 0: expected more than 0");
    }
}
