//! Collects, checks and builds registries.

use std::time::Duration;

use crate::handler::definition::ErrorsMode;
use crate::handler::extensions::Extensions;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;
use crate::handler::testing::{call, cause, myapp};
use crate::prelude::*;

fn ids(registry: &Registry) -> Vec<(&str, &str)> {
    let handlers = registry.handlers().iter();
    handlers.map(|handler| (&*handler.id, handler.kind.attribute())).collect()
}

mod several {
    use crate::prelude::*;

    #[on_resume(plural = "myapps")]
    #[on_create(plural = "myapps")]
    pub(super) fn stacked() {}

    #[on_update(plural = "myapps", field = "spec.size", id = "resized")]
    #[on_field(plural = "myapps", field = ["metadata", "labels", "a.b/c"])]
    fn of_fields() {}

    pub(super) mod below {
        #[crate::on_startup]
        fn begin() {}
    }
}

#[test]
fn handlers_are_sorted_by_place_and_stacked_ones_from_the_function_outwards() {
    let module = concat!(module_path!(), "::several");
    let registry = Registry::in_module(module).unwrap();
    let wanted = [
        ("stacked", "on_create"),
        ("stacked", "on_resume"),
        ("of_fields/metadata.labels.a.b/c", "on_field"),
        ("resized/spec.size", "on_update"),
        ("begin", "on_startup"),
    ];
    assert_eq!(ids(&registry), wanted);
    assert_eq!(registry.handlers()[0].declared_at, registry.handlers()[1].declared_at);
    several::stacked();
}

#[test]
fn a_module_sees_only_its_own_handlers() {
    let below = Registry::in_module(concat!(module_path!(), "::several::below")).unwrap();
    assert_eq!(ids(&below), [("begin", "on_startup")]);
    let prefix = Registry::in_module(concat!(module_path!(), "::sever")).unwrap();
    assert!(prefix.is_empty());
}

mod clashing {
    pub(super) mod one {
        #[crate::on_create(plural = "myapps")]
        fn same() {}
    }
    pub(super) mod two {
        #[crate::on_create(kind = "MyApp")]
        fn same() {}
    }
    pub(super) mod elsewhere {
        #[crate::on_create(plural = "others")]
        fn same() {}
    }
}

#[test]
fn one_id_on_two_functions_is_refused_with_both_places() {
    let error = Registry::in_module(concat!(module_path!(), "::clashing")).unwrap_err();
    let text = error.to_string();
    assert_eq!(text.lines().count(), 2, "{text}");
    let first = text.lines().next().unwrap();
    assert!(first.contains("the handler id `same` is already used at"), "{text}");
    assert_eq!(first.matches("registry/tests.rs:").count(), 2, "{text}");
}

#[test]
fn one_id_is_fine_for_handlers_that_are_never_called_for_the_same_change() {
    let nothing = |_| async { Ok(()) };
    let registry = Registry::new()
        .on_create("myapps", handler("same", nothing))
        .on_update("myapps", handler("same", nothing))
        .on_delete("myapps", handler("same", nothing));
    assert_eq!(registry.check(), Ok(()));
    let resuming = Registry::new()
        .on_create("myapps", handler("same", nothing))
        .on_resume("myapps", handler("same", nothing));
    assert_eq!(resuming.check(), Ok(()));
    assert!(registry.and(resuming).check().is_err());
    let events = Registry::new()
        .on_event("myapps", handler("same", nothing))
        .on_event("myapps", handler("same", nothing));
    assert!(events.check().is_err());
}

#[test]
fn one_id_for_different_resources_is_fine() {
    let one = Registry::in_module(concat!(module_path!(), "::clashing::one")).unwrap();
    let elsewhere = Registry::in_module(concat!(module_path!(), "::clashing::elsewhere")).unwrap();
    assert_eq!(one.and(elsewhere).check(), Ok(()));
}

#[test]
fn closures_are_handlers_too() {
    let greeting = |cause: crate::Context| async move {
        let spec: Value = cause.spec()?;
        cause.patch(|patch| patch["status"] = json!({"image": spec["image"]}));
        let greeting = cause.state::<&str>()?;
        Ok(format!("{greeting} {}", cause.name()))
    };
    let registry =
        Registry::new().on_create("myapps", handler("create_fn", greeting).retries(3).timeout(1.5));
    let one = &registry.handlers()[0];
    assert_eq!(one.retry.retries, Some(3));
    assert_eq!(one.retry.timeout, Some(Duration::from_millis(1500)));
    let mut cause = cause(one, myapp());
    let mut extensions = Extensions::default();
    extensions.insert("hello");
    cause.cause.context.extensions = extensions.into();
    let (returned, patch) = call(&cause);
    assert_eq!(returned.unwrap(), Some(json!("hello example-app")));
    assert_eq!(patch.as_value(), &json!({"status": {"image": "nginx:latest"}}));
}

#[test]
fn problems_of_closures_are_collected() {
    let nothing = |_| async { Ok(()) };
    let same = handler("twice", nothing).errors(ErrorsMode::Ignored);
    let registry = Registry::new()
        .on_create("", handler("unnamed", nothing))
        .on_field("myapps", handler("no_field", nothing))
        .on_create("myapps", handler("sided", nothing).field("spec").old(1))
        .on_update("myapps", same.clone())
        .on_resume("myapps", same)
        .on_update("myapps", handler("twice", nothing))
        .on_delete("myapps", handler("", nothing));
    let text = registry.check().unwrap_err().to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[0].contains("on_create of handler `unnamed`: "), "{text}");
    assert!(lines[1].ends_with("on_field of handler `no_field`: needs a `field`"), "{text}");
    assert!(
        lines[2].ends_with("`old` is not an option of on_create: it belongs to on_update and on_field"),
        "{text}"
    );
    assert!(lines[3].ends_with("on_delete of handler ``: an id cannot be empty"), "{text}");
    assert!(lines[4].contains("the handler id `twice` is already used at"), "{text}");
}

#[test]
fn options_of_other_attributes_are_refused() {
    let nothing = |_| async { Ok(()) };
    let tried = || handler("tried", nothing);
    let registry = Registry::new()
        .on_event("myapps", tried().retries(3))
        .on_startup(tried().field("spec"))
        .on_update("myapps", tried().optional())
        .on_cleanup(tried().timeout(1).param(2));
    let text = registry.check().map_or_else(|error| error.to_string(), |()| String::new());
    let wanted = [
        "on_event of handler `tried`: `retries` is not an option of on_event: it belongs to on_create, on_update, on_delete, finalize, on_resume, \
         on_field, on_startup, on_cleanup, on_login, on_probe, daemon, timer, reconcile and index",
        "on_startup of handler `tried`: `field` is not an option of on_startup: it belongs to on_create, on_update, on_delete, finalize, on_resume, \
         on_field, on_event, daemon, timer, reconcile, index, on_validate and on_mutate",
        "on_update of handler `tried`: `optional` is not an option of on_update: it belongs to on_delete",
    ];
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), wanted.len(), "{text}");
    for (line, wanted) in lines.iter().zip(wanted) {
        assert!(line.ends_with(wanted), "{line}");
    }
}

mod optional {
    use crate::prelude::*;

    #[on_delete(
        plural = "myapps",
        optional,
        errors = permanent,
        backoff = std::time::Duration::from_secs(5),
        labels = {"app": "x", "tier": PRESENT, "n": |n| n.is_none()},
        when = |cause| cause.retry() == 2,
    )]
    fn delete_fn() {}
}

#[test]
fn annotated_functions_carry_their_options() {
    let registry = Registry::in_module(concat!(module_path!(), "::optional")).unwrap();
    let handler = &registry.handlers()[0];
    assert!(handler.optional && !handler.deleted);
    assert_eq!(handler.retry.errors, Some(ErrorsMode::Permanent));
    assert_eq!(handler.retry.backoff, Some(Duration::from_secs(5)));
    let labels = format!("{:?}", handler.filters.labels);
    assert_eq!(labels, r#"[("app", Equals("x")), ("tier", Present), ("n", Matches(..))]"#);
    let when = handler.filters.when.as_ref().unwrap();
    assert!(when(&cause(handler, myapp())));
}

#[test]
fn schedules_that_cannot_be_meant_are_refused() {
    let tried = || handler("tried", |_| async { Ok(()) });
    for (callback, wanted) in vec![
        (tried().interval(0), Some("an `interval` of zero")),
        (tried().interval(-5.0), Some("an `interval` of zero")),
        (tried().interval(f64::INFINITY), Some("a hundred years")),
        (tried().interval(1e12), Some("a hundred years")),
        (tried().sharp(), Some("`sharp` is about the `interval`")),
        (tried().idle(0), Some("must be longer than zero")),
        (tried().cancellation_timeout(5), Some("`cancellation_timeout` is not an option of timer")),
        (tried().interval(365 * 24 * 3600).sharp(), None),
        (tried().interval(|cause: &Cause| u64::from(cause.retry())), None),
        (tried().idle(0.5).initial_delay(0), None),
        (tried().schedule("0 25 * * *"), Some("`schedule` cannot be understood: `0 25 * * *`: ")),
        (tried().schedule("0 0 30 2 *"), Some("`schedule` never comes")),
        (tried().schedule("@daily").zone("Atlantis"), Some("`zone` is no time zone: `Atlantis`")),
        (tried().zone("UTC"), Some("`zone` is that of a `schedule`")),
        (tried().schedule("@daily").interval(5), Some("leave out either it or `interval`")),
        (tried().schedule("@daily").initial_delay(5), Some("leave out either it or `initial_delay`")),
        (tried().schedule("@daily").zone("Europe/Kyiv").idle(5), None),
    ] {
        let checked = Registry::new().timer("myapps", callback).check();
        let text = checked.map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(wanted.is_some(), !text.is_empty(), "{text}");
        assert!(text.contains(wanted.unwrap_or_default()), "{text}");
    }
}
