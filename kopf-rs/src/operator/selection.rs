//! Decides which objects of a resource to watch: by the settings, and by the filters that all handlers of the resource share.
//!
//! Guarantees that no handler misses an object. Must not know how a selection is sent.

use std::sync::Arc;

use crate::cluster::watch::Selection;
use crate::handler::definition::Handler;
use crate::handler::filter::Criterion;
use crate::object::label_selector::{
    check_field_selector, check_label_selector, is_label_key, is_label_value,
};
use crate::object::resource::Resource;
use crate::operator::settings::{SettingsError, Watching};

/// Checks the selectors in the settings.
pub(super) fn check_selectors(watching: &Watching) -> Result<(), SettingsError> {
    let Watching { label_selectors, field_selectors, shard_selectors, .. } = watching;
    let checked = [
        ("label_selectors", label_selectors.check(check_label_selector)),
        ("field_selectors", field_selectors.check(check_field_selector)),
        ("shard_selectors", shard_selectors.check(|_| Ok(()))),
    ];
    for (setting, checked) in checked {
        checked.map_err(|wrong| SettingsError::new(format!("`watching.{setting}` {wrong}")))?;
    }
    Ok(())
}

/// Returns the selection of a resource for these handlers. The error is the panic message of a function among the selectors.
pub(super) fn selection(
    watching: &Watching,
    resource: &Resource,
    handlers: &[Arc<Handler>],
) -> Result<Selection, String> {
    let labels = watching.label_selectors.of(resource)?;
    let labels = labels.into_iter().map(str::to_owned);
    let agreed = watching.label_filters.then(|| agreed_labels(handlers));
    let labels: Vec<String> = labels.chain(agreed.into_iter().flatten()).collect();
    let shards = watching.shard_selectors.of(resource)?;
    Ok(Selection {
        labels: labels.join(","),
        fields: watching.field_selectors.of(resource)?.join(","),
        shard: shards.first().map(|&shard| shard.to_owned()),
    })
}

/// Returns the label filters that all handlers share, in the server's syntax.
///
/// Applies only if all handlers are for raw events or feed indices. Other handlers keep state on objects, in particular the finalizer, which
/// must be maintained even while an object matches no handler, so the object must be watched.
fn agreed_labels(handlers: &[Arc<Handler>]) -> Vec<String> {
    let Some((first, others)) = handlers.split_first() else {
        return Vec::new();
    };
    let keeps_nothing = |it: &Arc<Handler>| it.is_for_events() || it.index.is_some();
    if !handlers.iter().all(keeps_nothing) {
        return Vec::new();
    }
    let labels = first.filters.labels.iter();
    let requirements = labels.filter_map(|(key, criterion)| requirement(key, criterion));
    requirements
        .filter(|wanted| {
            others.iter().all(|other| {
                let mut labels = other.filters.labels.iter();
                labels.any(|(key, criterion)| requirement(key, criterion).as_ref() == Some(wanted))
            })
        })
        .collect()
}

/// Returns a filter on a label in the server's syntax; `None` if the server cannot express it.
fn requirement(key: &str, criterion: &Criterion) -> Option<String> {
    if !is_label_key(key) {
        return None;
    }
    match criterion {
        Criterion::Equals(value) => {
            let value = value.as_str().filter(|value| is_label_value(value))?;
            Some(format!("{key}={value}"))
        }
        Criterion::Present => Some(key.to_owned()),
        Criterion::Absent => Some(format!("!{key}")),
        Criterion::Matches(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::handler::filter::{ABSENT, PRESENT};
    use crate::handler::options::Callback;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler;
    use crate::object::selector::Selector;
    use crate::operator::settings::Settings;

    fn pods() -> Resource {
        Resource {
            version: "v1".to_owned(),
            plural: "pods".to_owned(),
            kind: "Pod".to_owned(),
            ..Resource::default()
        }
    }

    fn callback(id: &str) -> Callback {
        handler(id, async |_| Ok(()))
    }

    fn selected(registry: &Registry) -> String {
        let watching = Settings::default().watching;
        let selection = selection(&watching, &pods(), registry.handlers());
        selection.unwrap().labels
    }

    #[test]
    fn what_all_raw_event_handlers_ask_for_is_sent() {
        let web = || callback("web").label("app", "web").label("test", ABSENT);
        let tier = callback("tier").label("app", "web").label("tier", PRESENT);
        let of_events = Registry::new().on_event("pods", web());
        assert_eq!(selected(&of_events), "app=web,!test");
        assert_eq!(selected(&of_events.clone().on_event("pods", tier)), "app=web");
        let all = of_events.clone().on_event("pods", callback("all"));
        assert_eq!(selected(&all), "");
        // Finalizers and progress would remain on objects that leave the selection.
        let of_changes = of_events.on_create("pods", web());
        assert_eq!(selected(&of_changes), "");
        assert_eq!(selected(&Registry::new()), "");
    }

    #[test]
    fn what_the_server_cannot_say_is_left_to_the_operator() {
        let odd = callback("odd")
            .label("app", Criterion::matches(|it: Option<&Value>| it.is_some()))
            .label("size", 1)
            .label("name", "a b")
            .label("not a key", "x")
            .label("tier", "a");
        assert_eq!(selected(&Registry::new().on_event("pods", odd)), "tier=a");
    }

    #[test]
    fn settings_select_too() {
        let settings = Settings::with(|settings| {
            let watching = &mut settings.watching;
            watching.label_selectors.insert("pods", "app=old");
            watching.label_selectors.insert("pods", "app=web");
            watching.label_selectors.insert(("", "v1", "pods"), "!test");
            watching.label_selectors.insert("services", "x");
            watching.field_selectors.insert("pods", "spec.nodeName=a");
            watching.shard_selectors.insert("pods", "first");
            watching.shard_selectors.insert(Selector::everything(&[]).unwrap(), "second");
        });
        assert_eq!(check_selectors(&settings.watching).map_err(|it| it.to_string()), Ok(()));
        let selected = selection(&settings.watching, &pods(), &[]).unwrap();
        assert_eq!(selected.labels, "app=web,!test");
        assert_eq!(selected.fields, "spec.nodeName=a");
        assert_eq!(selected.shard.as_deref(), Some("first"));
    }

    #[test]
    fn mistakes_are_reported_with_their_setting() {
        let wrong = |resources: &str, selector: &str| {
            let settings = Settings::with(|it| it.watching.label_selectors.insert(resources, selector));
            check_selectors(&settings.watching).unwrap_err().to_string()
        };
        assert_eq!(
            wrong("pods", "app=(x"),
            "`watching.label_selectors` for pods: \"app=(x\" cannot be understood: a bracket is not closed"
        );
        assert!(wrong("", "app").contains("expected the name of a resource"));
    }
}
