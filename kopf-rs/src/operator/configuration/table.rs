//! Lists all settings by name, one line each. A setting that is missing here cannot be set by a file or a variable, and fails a test.
//!
//! Must not know where values come from.

use crate::operator::configuration::value::put;
use crate::operator::configuration::written::Written;
use crate::operator::settings::Settings;
use crate::operator::validation::zeros;

/// The prefix of the variables of all settings.
pub(super) const PREFIX: &str = "KOPF_RS_";

/// The message for settings that neither a file nor a variable can set.
pub(super) const IN_CODE_ONLY: &str =
    "`persistence` is set in code only, since it is made of storages (see docs/settings.md)";

/// A setting that a file or a variable may set.
pub(super) struct Setting {
    /// `group.field`, as in code.
    pub(super) name: &'static str,
    put: fn(&mut Settings, &Written) -> Result<(), String>,
}

macro_rules! table {
    ($($group:ident . $field:ident,)+) => {
        &[$(Setting {
            name: concat!(stringify!($group), ".", stringify!($field)),
            put: |settings, value| put(value, &mut settings.$group.$field),
        }),+]
    };
}

/// In the order of `docs/settings.md`. Only `persistence` is missing, because it consists of storages and can be set only in code.
pub(super) const TABLE: &[Setting] = table![
    execution.lifecycle,
    execution.default_backoff,
    execution.first_backoff,
    execution.longest_backoff,
    execution.max_workers,
    execution.max_reconciles,
    background.cancellation_polling,
    queueing.worker_limit,
    queueing.exit_timeout,
    watching.server_timeout,
    watching.client_timeout,
    watching.inactivity_timeout,
    watching.reconnect_backoff,
    watching.longest_backoff,
    watching.chunk_size,
    watching.initial_streaming,
    watching.label_selectors,
    watching.field_selectors,
    watching.shard_selectors,
    watching.label_filters,
    networking.first_backoff,
    networking.longest_backoff,
    networking.request_timeout,
    networking.concurrent_writes,
    scanning.disabled,
    scanning.interval,
    posting.enabled,
    posting.loggers,
    posting.level,
    posting.reporting_component,
    posting.reporting_instance,
    posting.event_name_prefix,
    status.conditions,
    peering.standalone,
    peering.name,
    peering.mandatory,
    peering.priority,
    peering.lifetime,
    peering.stealth,
    lease.enabled,
    lease.name,
    lease.namespace,
    lease.duration,
    lease.renew_deadline,
    lease.retry_period,
    health.probe_timeout,
    health.beat_timeout,
    health.late_after,
    health.stuck_after,
    health.status,
    admission.server,
    admission.listen,
    admission.managed,
    admission.secret,
    admission.certificate_file,
    admission.key_file,
    admission.authority_file,
    admission.client_authority_file,
    admission.certificate_life,
    admission.propagation,
    admission.shutdown_grace,
    admission.storage_migration,
    admission.migration_rate,
];

impl Setting {
    /// Returns the setting of this name.
    #[cfg(any(feature = "cli", test))]
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        TABLE.iter().find(|setting| setting.name == name)
    }

    /// Returns the name of the variable that sets it.
    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_uppercase().replace('.', "_"))
    }

    /// Sets it. The error describes the expected value.
    pub(super) fn set(&self, settings: &mut Settings, written: &Written) -> Result<(), String> {
        let name = self.name;
        let refused = |expected| format!("`{name}` is {written}: {expected}");
        (self.put)(settings, written).map_err(refused)?;
        if zeros(settings).contains(&name) {
            return Err(refused("expected more than 0".to_owned()));
        }
        Ok(())
    }

    pub(super) fn group(&self) -> &'static str {
        self.name.split('.').next().unwrap_or_default()
    }

    #[cfg(feature = "cli")]
    pub(super) fn field(&self) -> &'static str {
        self.name.split('.').nth(1).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::operator::validation::bounded;

    const PAGE: &str = include_str!("../../../../docs/settings.md");

    /// Returns the fields of all groups, taken from the debug output of the settings.
    fn fields() -> Vec<String> {
        let shown = format!("{:#?}", Settings::default());
        let mut fields = Vec::new();
        let mut group = "";
        for line in shown.lines() {
            let Some((name, rest)) = line.trim_start().split_once(": ") else {
                continue;
            };
            match line.len() - line.trim_start().len() {
                4 if rest.ends_with('{') => group = name,
                4 => group = "",
                8 if !group.is_empty() => fields.push(format!("{group}.{name}")),
                _ => {}
            }
        }
        fields
    }

    #[test]
    fn every_setting_has_its_line_here_and_in_the_documentation() {
        let fields = fields();
        assert!(fields.len() > 25, "{fields:?}");
        for field in &fields {
            assert!(Setting::named(field).is_some(), "{field} has no line in TABLE");
        }
        assert_eq!(fields.len(), TABLE.len());
        for Setting { name, .. } in TABLE {
            assert!(PAGE.contains(&format!("| `{name}` |")), "{name} is not in docs/settings.md");
        }
    }

    #[test]
    fn a_zero_is_accepted_where_the_documentation_gives_it_a_meaning() {
        let meant = PAGE.split("A 0 that is accepted has this meaning:").nth(1);
        let meant = meant.and_then(|it| it.split("\n\n").next()).unwrap();
        let zero = Written::Plain(json!(0));
        let mut refused_counts = Vec::new();
        for setting in TABLE {
            let name = setting.name;
            let set = setting.set(&mut Settings::default(), &zero);
            let is_meant = meant.contains(&format!("`{name}`"));
            assert_eq!(set.is_ok(), is_meant, "{name}: {set:?}");
            if set.is_err_and(|why| why.contains("at least 1")) {
                refused_counts.push(name);
            }
        }
        // In code, a count can be 0.
        let none = Settings::with(|it| {
            (it.execution.max_workers, it.execution.max_reconciles) = (0, 0);
            it.queueing.worker_limit = Some(0);
            it.watching.chunk_size = 0;
            it.networking.concurrent_writes = 0;
            it.admission.migration_rate = 0;
        });
        assert_eq!(zeros(&none), refused_counts);
    }

    #[test]
    fn each_time_that_can_be_set_is_bounded() {
        let endless = Written::Plain(json!(1e19));
        let endless_time = format!("{:?}", std::time::Duration::from_secs_f64(1e19));
        let mut settings = Settings::default();
        let times = TABLE.iter().filter(|it| it.set(&mut settings, &endless).is_ok());
        assert!(times.count() > 20);
        let shown = format!("{:#?}", bounded(settings));
        let endless: Vec<_> = shown.lines().filter(|it| it.contains(&endless_time)).collect();
        assert_eq!(endless, [""; 0]);
    }
}
