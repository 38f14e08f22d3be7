//! Reads a settings file: YAML, and therefore JSON, too.
//!
//! Must not know individual settings.

use std::fs;
use std::path::Path;

use serde_saphyr::{MessageFormatter as _, Spanned, UserMessageFormatter};

use crate::operator::settings::configuration::names::{IN_CODE_ONLY, nearest};
use crate::operator::settings::written::{Entries, Written};
use crate::operator::settings::{Settings, SettingsError, TABLE};

/// The entries of a map, with the lines of their keys.
type Lines<T> = Entries<Spanned<String>, T>;

/// Reads the settings of a file.
pub(super) fn read(settings: &mut Settings, path: &Path) -> Result<(), SettingsError> {
    let refused = |why: String| SettingsError::new(format!("{}{why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| refused(format!(": {error}")))?;
    take(settings, &text).map_err(refused)
}

/// Reads the settings of a text. The error begins with the line.
fn take(settings: &mut Settings, text: &str) -> Result<(), String> {
    let parsed = serde_saphyr::from_str::<Option<Lines<Option<Lines<Written>>>>>(text);
    let groups = parsed.map_err(|error| {
        let line = error.location().map(|location| location.line());
        let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
        let what = UserMessageFormatter.format_message(error.without_snippet()).into_owned();
        format!("{line}: {what}")
    })?;
    for (group, entries) in groups.map(|it| it.0).unwrap_or_default() {
        if group.value == "persistence" {
            return Err(format!("{}: {IN_CODE_ONLY}", line_of(&group)));
        }
        let settings_of = || TABLE.iter().filter(|it| it.parts().0 == group.value);
        if settings_of().next().is_none() {
            let mut groups: Vec<_> = TABLE.iter().map(|it| it.parts().0).collect();
            groups.dedup();
            return Err(unknown(&group, "group of settings", &groups));
        }
        for (field, value) in entries.map(|it| it.0).unwrap_or_default() {
            let Some(setting) = settings_of().find(|it| it.parts().1 == field.value) else {
                let fields: Vec<_> = settings_of().map(|it| it.parts().1).collect();
                return Err(unknown(&field, &format!("setting in `{}`", group.value), &fields));
            };
            let set = setting.set(settings, &value);
            set.map_err(|why| format!("{}: {why}", line_of(&field)))?;
        }
    }
    Ok(())
}

/// Describes an unknown name, with the nearest known name, or all of them.
fn unknown(found: &Spanned<String>, what: &str, known: &[&str]) -> String {
    let hint = match nearest(&found.value, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", known.join(", ")),
    };
    let (line, name) = (line_of(found), &found.value);
    format!("{line}: there is no {what} called `{name}`; {hint}")
}

fn line_of(key: &Spanned<String>) -> String {
    format!(", line {}", key.referenced.line())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn taken(text: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        take(&mut settings, text).map(|()| settings)
    }

    #[test]
    fn a_file_sets_what_it_names_and_leaves_the_rest() {
        let text = "# ours\nqueueing:\n  worker_limit: 10\nwatching:\n  server_timeout: 5m\n  label_selectors: {pods: app=web}\nposting:\n";
        let settings = taken(text).unwrap();
        assert_eq!(settings.queueing.worker_limit, Some(10));
        assert_eq!(settings.watching.server_timeout, Duration::from_secs(300));
        assert_eq!(settings.queueing.exit_timeout, Duration::from_secs(2));
        assert!(taken("").is_ok());
        let json = taken(r#"{"queueing": {"worker_limit": 7}}"#).unwrap();
        assert_eq!(json.queueing.worker_limit, Some(7));
    }

    #[test]
    fn maps_keep_their_order() {
        let pods = crate::object::resource::Resource {
            version: "v1".to_owned(),
            plural: "pods".to_owned(),
            ..crate::object::resource::Resource::default()
        };
        let text = "watching:\n  shard_selectors: {pods.v1: first, pods: second}\n";
        let settings = taken(text).unwrap();
        let shards = settings.watching.shard_selectors.of(&pods).unwrap();
        assert_eq!(shards, ["first", "second"]);
    }

    #[test]
    fn mistakes_are_reported_with_their_line() {
        for (text, expected) in [
            (
                "queueing:\n  exit_timeout: 1\n  workr_limit: 10\n",
                ", line 3: there is no setting in `queueing` called `workr_limit`; did you mean `worker_limit`?",
            ),
            (
                "scanning:\n  disabled: true\nqueuing:\n  worker_limit: 10\n",
                ", line 3: there is no group of settings called `queuing`; did you mean `queueing`?",
            ),
            (
                "queueing:\n  exit_timeout: 1\npersistence:\n  finalizer: a.b/c\n",
                ", line 3: `persistence` is set in code only, since it is made of storages (see docs/settings.md)",
            ),
            (
                "watching:\n  inactivity_timeout: 0\n",
                ", line 2: `watching.inactivity_timeout` is 0: expected more than 0",
            ),
            (
                "posting:\n  event_name_prefix: 1.0\n",
                ", line 2: `posting.event_name_prefix` is 1.0: expected text, in quotes where it looks like something else",
            ),
            (
                "watching:\n  label_selectors: {pods: 1}\n",
                ", line 2: `watching.label_selectors` is {\"pods\":1}: expected resources with a selector each, such as {pods: app=web}",
            ),
            (
                "queueing:\n  worker_limit: many\n",
                ", line 2: `queueing.worker_limit` is \"many\": expected a whole number, at least 1, or null",
            ),
            (
                "scanning:\n  period: 5\n",
                ", line 2: there is no setting in `scanning` called `period`; there are disabled, interval",
            ),
        ] {
            assert_eq!(taken(text).unwrap_err(), expected, "{text}");
        }
        let broken = taken("queueing:\n  - worker_limit\n").unwrap_err();
        assert!(broken.starts_with(", line 2: "), "{broken}");
    }
}
