//! Reads settings from a file, then from the environment.
//!
//! Guarantees that no mistake goes unnoticed: an unknown name and a value of the wrong type are errors that name the place and the expected
//! value. Must not know the purpose of any setting.

#[cfg(feature = "cli")]
mod file;
mod names;

use std::env;
use std::ffi::OsString;

use crate::operator::settings::configuration::names::{IN_CODE_ONLY, PREFIX, nearest};
use crate::operator::settings::written::Written;
use crate::operator::settings::{Setting, Settings, SettingsError, TABLE};

impl Settings {
    /// Reads settings from the environment: `KOPF_RS_QUEUEING_WORKER_LIMIT=10` sets `queueing.worker_limit`, and so on.
    ///
    /// Numbers, `true`, `false` and maps are written as in JSON; `null` unsets an optional setting. If a setting is text, the value of its
    /// variable is taken literally.
    ///
    /// Programs of `kopf_rs::main!()` call this by themselves.
    ///
    /// # Errors
    /// Returns an error for a variable that looks like a setting but is none, and for a value that is not as expected.
    pub fn read_environment(&mut self) -> Result<(), SettingsError> {
        read_variables(self, env::vars_os())
    }

    /// Reads settings from a YAML file: a map of the groups, each a map of settings.
    ///
    /// ```yaml
    /// queueing:
    ///   worker_limit: 10
    /// watching:
    ///   inactivity_timeout: 70s
    ///   label_selectors: {pods: app=web}
    /// ```
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, for an unknown setting, and for a value that is not as expected. The error names the
    /// line.
    #[cfg(feature = "cli")]
    pub fn read_file(&mut self, path: impl AsRef<std::path::Path>) -> Result<(), SettingsError> {
        file::read(self, path.as_ref())
    }
}

fn read_variables(
    settings: &mut Settings,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(), SettingsError> {
    let named = variables.into_iter().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        name.starts_with(PREFIX).then_some((name, value))
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    for (name, value) in named {
        let known = TABLE.iter().find(|setting| variable(setting) == name);
        let Some(setting) = known else {
            refuse_near_misses(&name)?;
            continue;
        };
        let Ok(text) = value.into_string() else {
            return Err(SettingsError::new(format!("{name} is no UTF-8")));
        };
        let set = setting.set(settings, &Written::Variable(text));
        set.map_err(|why| SettingsError::new(format!("{name}: {why}")))?;
    }
    Ok(())
}

/// Returns the JSON schema of a settings file.
#[cfg(feature = "cli")]
pub(crate) fn schema() -> serde_json::Value {
    use serde_json::json;

    let mut all = json!({"type": "object", "additionalProperties": false});
    let mut defaults = Settings::default();
    for setting in TABLE {
        let (group, field) = setting.parts();
        let schema = (setting.field)(&mut defaults).schema();
        let group = &mut all["properties"][group];
        if group.is_null() {
            *group = json!({"type": ["object", "null"], "additionalProperties": false});
        }
        group["properties"][field] = schema;
    }
    all
}

/// Returns the environment variables that set a setting, and their values.
#[cfg(feature = "cli")]
pub(crate) fn variables() -> Vec<(String, String)> {
    let names = TABLE.iter().map(variable);
    names.filter_map(|name| std::env::var(&name).ok().map(|value| (name, value))).collect()
}

/// Returns the name of the variable that sets it.
fn variable(setting: &Setting) -> String {
    format!("{PREFIX}{}", setting.name.to_uppercase().replace('.', "_"))
}

/// Returns whether Kubernetes has set this variable: each Pod has such variables for each Service of its namespace, and a Service may be
/// called `kopf-rs-health`.
fn is_of_a_service(name: &str) -> bool {
    let port = |rest: &str| {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        digits.len() < rest.len() && digits.starts_with('_')
    };
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_PORT")
        || name.contains("_SERVICE_PORT")
        || name.split("_PORT_").skip(1).any(port)
}

/// Refuses a misspelt variable: one in a group of settings, or one that is nearly a setting. Other variables may belong to other programs
/// with the same prefix.
fn refuse_near_misses(name: &str) -> Result<(), SettingsError> {
    if is_of_a_service(name) {
        return Ok(());
    }
    if name.starts_with(&format!("{PREFIX}PERSISTENCE_")) {
        return Err(SettingsError::new(format!("{name}: {IN_CODE_ONLY}")));
    }
    let variables: Vec<String> = TABLE.iter().map(variable).collect();
    let near = nearest(name, variables.iter().map(String::as_str));
    let is_in_group = |setting: &Setting| {
        let group = setting.parts().0.to_uppercase();
        name.starts_with(&format!("{PREFIX}{group}_"))
    };
    let hint = match near {
        Some(near) => format!("did you mean {near}?"),
        None if TABLE.iter().any(is_in_group) => "docs/settings.md lists them all".to_owned(),
        None => return Ok(()),
    };
    Err(SettingsError::new(format!("{name}: there is no such setting; {hint}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::operator::validation::{bounded, zeros};

    const PAGE: &str = include_str!("../../../../docs/settings.md");

    #[test]
    fn every_setting_has_its_line_in_the_documentation() {
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
        let endless_time = format!("{:?}", Duration::from_secs_f64(1e19));
        let mut settings = Settings::default();
        let times = TABLE.iter().filter(|it| it.set(&mut settings, &endless).is_ok());
        assert!(times.count() > 20);
        let shown = format!("{:#?}", bounded(settings));
        let endless: Vec<_> = shown.lines().filter(|it| it.contains(&endless_time)).collect();
        assert_eq!(endless, [""; 0]);
    }

    fn set(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let mut settings = Settings::default();
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        read_variables(&mut settings, variables).map_err(|error| error.to_string())?;
        Ok(settings)
    }

    #[test]
    fn variables_set_what_they_name() {
        let settings = set(&[
            ("KOPF_RS_QUEUEING_WORKER_LIMIT", "10"),
            ("KOPF_RS_WATCHING_SERVER_TIMEOUT", "5m"),
            ("KOPF_RS_WATCHING_LABEL_SELECTORS", r#"{"pods": "app=web"}"#),
            ("KOPF_RS_POSTING_ENABLED", "false"),
            ("KOPF_RS_POSTING_REPORTING_INSTANCE", "17"),
            ("KOPF_RS_POSTING_REPORTING_COMPONENT", "null"),
            ("KOPF_RS_POSTING_EVENT_NAME_PREFIX", "null"),
            ("KOPF_RS_POSTING_LEVEL", "warning"),
            ("KOPF_RS_EXECUTION_DEFAULT_BACKOFF", "null"),
            ("KOPF_RS_PERSISTENCE_SERVICE_HOST", "10.0.0.1"),
            // Variables of other programs.
            ("KOPF_RS_NAME", "x"),
            ("KOPF_RS_SETTINGS", "settings.yaml"),
            ("KOPF_RS_RUN_DIR", "x"),
            ("KOPF_RS_HEALTH_SERVICE_HOST", "10.0.0.1"),
            ("KOPF_RS_HEALTH_SERVICE_PORT_HTTP", "80"),
            ("KOPF_RS_HEALTH_PORT", "tcp://10.0.0.1:80"),
            ("KOPF_RS_HEALTH_PORT_80_TCP_ADDR", "10.0.0.1"),
            ("PATH", "x"),
        ]);
        let settings = settings.unwrap();
        assert_eq!(settings.queueing.worker_limit, Some(10));
        assert_eq!(settings.watching.server_timeout, Duration::from_secs(300));
        assert!(!settings.posting.enabled);
        assert_eq!(settings.posting.reporting_instance.as_deref(), Some("17"));
        assert_eq!(settings.posting.reporting_component, None);
        assert_eq!(settings.posting.event_name_prefix, "null");
    }

    #[test]
    fn typos_in_variables_are_refused() {
        for (name, value, expected) in [
            (
                "KOPF_RS_QUEUEING_WORKR_LIMIT",
                "1",
                "KOPF_RS_QUEUEING_WORKR_LIMIT: there is no such setting; did you mean KOPF_RS_QUEUEING_WORKER_LIMIT?",
            ),
            (
                "KOPF_RS_QUEUING_WORKER_LIMIT",
                "1",
                "KOPF_RS_QUEUING_WORKER_LIMIT: there is no such setting; did you mean KOPF_RS_QUEUEING_WORKER_LIMIT?",
            ),
            (
                "KOPF_RS_QUEUEING_SOMETHING",
                "1",
                "KOPF_RS_QUEUEING_SOMETHING: there is no such setting; docs/settings.md lists them all",
            ),
            (
                "KOPF_RS_PERSISTENCE_FINALIZER",
                "a.b/c",
                "KOPF_RS_PERSISTENCE_FINALIZER: `persistence` is set in code only, since it is made of storages (see docs/settings.md)",
            ),
            (
                "KOPF_RS_NETWORKING_REQUEST_TIMEOUT",
                "0s",
                "KOPF_RS_NETWORKING_REQUEST_TIMEOUT: `networking.request_timeout` is \"0s\": expected more than 0",
            ),
            (
                "KOPF_RS_QUEUEING_WORKER_LIMIT",
                "many",
                "KOPF_RS_QUEUEING_WORKER_LIMIT: `queueing.worker_limit` is \"many\": expected a whole number, at least 1, or null",
            ),
        ] {
            assert_eq!(set(&[(name, value)]).unwrap_err(), expected);
        }
    }
}
