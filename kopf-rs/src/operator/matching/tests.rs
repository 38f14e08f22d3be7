use super::*;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;

fn resource(group: &str, version: &str, preferred: bool) -> Resource {
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: "widgets".to_owned(),
        kind: "Widget".to_owned(),
        singular: "widget".to_owned(),
        preferred,
        verbs: ["list", "watch", "patch"].map(str::to_owned).to_vec(),
        ..Resource::default()
    }
}

/// Returns handlers for `plural.version.group` and the like; `*` stands for everything in the group `a.io`.
fn handlers(selectors: &[&str]) -> Vec<Arc<Handler>> {
    let mut registry = Registry::new();
    for selector in selectors {
        let callback = handler(*selector, |_| async { Ok(()) });
        registry = match *selector {
            "*" => {
                let selector = Selector::everything(&["a.io"]).expect("a selector");
                registry.on_create(selector, callback)
            }
            selector => registry.on_create(selector, callback),
        };
    }
    registry.handlers().to_vec()
}

fn ids(handlers: &[Arc<Handler>]) -> Vec<&str> {
    handlers.iter().map(|handler| &*handler.id).collect()
}

/// Returns the served resources with their handlers, and the rest.
fn matched(selectors: &[&str], resources: &[Resource]) -> (Vec<String>, Vec<Serving>) {
    let matched = match_handlers(&handlers(selectors), resources, &BTreeSet::new());
    let served = matched
        .resources
        .iter()
        .map(|served| format!("{}: {}", served.resource, ids(&served.handlers).join(" ")));
    (served.collect(), matched.unserved)
}

#[test]
fn a_function_may_accept_any_version_but_no_events() {
    let mut events = resource("events.k8s.io", "v1", true);
    events.plural = "events".to_owned();
    let resources = [
        resource("a.io", "v2", true),
        resource("a.io", "v1beta1", false),
        resource("a.io", "v1", false),
        events,
    ];
    let serve = |accepted: &'static [&'static str], named: Option<&str>| {
        let selector = Selector::matching(|it| accepted.contains(&it.version.as_str()));
        let mut registry = Registry::new().on_create(selector, handler("fn", |_| async { Ok(()) }));
        if let Some(named) = named {
            registry = registry.on_create(named, handler("named", |_| async { Ok(()) }));
        }
        let matched = match_handlers(registry.handlers(), &resources, &BTreeSet::new());
        let served = matched.resources.iter();
        let served = served.map(|it| format!("{} {}", it.resource, ids(&it.handlers).join(" ")));
        (served.collect::<Vec<_>>(), matched.unserved.len())
    };
    let one = |text: &str, unserved| (vec![text.to_owned()], unserved);
    for (accepted, named, expected) in [
        (&["v2", "v1beta1", "v1"][..], None, one("widgets.v2.a.io fn", 0)),
        (&["v1beta1", "v1"], None, one("widgets.v1.a.io fn", 0)),
        // Another handler decides, and the function follows if it accepts the version.
        (&["v2", "v1"], Some("widgets.v1.a.io"), one("widgets.v1.a.io fn named", 0)),
        (&["v1beta1"], Some("widgets.v1.a.io"), one("widgets.v1.a.io named", 1)),
    ] {
        assert_eq!(serve(accepted, named), expected, "{accepted:?} {named:?}");
    }
}

#[test]
fn one_version_of_a_resource_is_served() {
    let (v1, v2, beta) = ("widgets.v1.a.io", "widgets.v2.a.io", "widgets.v1beta1.a.io");
    let resources =
        [resource("a.io", "v2", true), resource("a.io", "v1beta1", false), resource("a.io", "v1", false)];
    for (selectors, served, others) in [
        (vec![v1], format!("{v1}: {v1}"), vec![]),
        (vec![v1, v2], format!("{v2}: {v2}"), vec![v1]),
        (vec![v1, "widgets.a.io"], format!("{v2}: widgets.a.io"), vec![v1]),
        (vec![beta, v1], format!("{v1}: {v1}"), vec![beta]),
        (vec!["*"], format!("{v2}: *"), vec![]),
        (vec!["*", beta], format!("{beta}: * {beta}"), vec![]),
        (vec!["*", v1, v2], format!("{v2}: * {v2}"), vec![v1]),
    ] {
        let (found, unserved) = matched(&selectors, &resources);
        assert_eq!(found, [served], "for {selectors:?}");
        let told: Vec<String> = unserved
            .iter()
            .map(|it| match it {
                Serving::OtherVersion { handlers, resource, .. } => {
                    assert_eq!(*handlers[0], *resource.to_string());
                    resource.to_string()
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(told, others, "for {selectors:?}");
    }
}

#[test]
fn events_are_served_in_one_of_their_two_groups() {
    let events = |group: &str| Resource { plural: "events".to_owned(), ..resource(group, "v1", true) };
    let resources = [events("events.k8s.io"), events("")];
    let (core, newer) = ("events.v1", "events.v1.events.k8s.io");
    for (selectors, served, others) in [
        (vec![core], "events.v1: events.v1", 0),
        (vec![newer], "events.v1.events.k8s.io: events.v1.events.k8s.io", 0),
        (vec![core, newer], "events.v1: events.v1", 1),
        (vec![newer, core], "events.v1: events.v1", 1),
    ] {
        let (found, unserved) = matched(&selectors, &resources);
        assert_eq!(found, [served], "for {selectors:?}");
        assert_eq!(unserved.len(), others, "{unserved:?}");
    }
}

#[test]
fn handlers_of_another_version_do_not_count_as_unresolved() {
    let resources = [resource("a.io", "v2", true), resource("a.io", "v1", false)];
    let handlers = handlers(&["widgets.v1.a.io", "widgets.v2.a.io"]);
    assert!(!match_handlers(&handlers, &resources, &BTreeSet::new()).is_unresolved);
}

#[test]
fn versions_are_ordered_as_kubernetes_orders_them() {
    let ordered = [
        "v10",
        "v2",
        "v1",
        "v11beta2",
        "v10beta3",
        "v3beta1",
        "v12alpha1",
        "v11alpha2",
        "foo1",
        "foo10",
        "v1gamma1",
    ];
    let mut sorted = ordered;
    sorted.reverse();
    sorted.sort_by_key(|version| Reverse(priority(version)));
    assert_eq!(sorted, ordered);
}

#[test]
fn unresolved_and_ambiguous_resources_are_told() {
    let resources = [resource("a.io", "v1", true), resource("b.io", "v1", true)];
    let (served, unserved) = matched(&["widgets", "gadgets", "widget", "widgets.b.io"], &resources);
    assert_eq!(served, ["widgets.v1.b.io: widgets.b.io"]);
    let ambiguous =
        |selector: &str| Serving::Ambiguous { selector: selector.to_owned(), resources: resources.to_vec() };
    let unresolved = Serving::Unresolved { selectors: vec!["gadgets".to_owned()] };
    assert_eq!(unserved, [ambiguous("widgets"), ambiguous("widget"), unresolved]);
}

#[test]
fn what_cannot_be_watched_or_patched_is_told_where_it_was_asked_for() {
    let with = |verbs: &[&str]| Resource {
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..resource("a.io", "v1", true)
    };
    let silent = with(&["list", "patch"]);
    let fixed = with(&["list", "watch"]);
    let resources = vec![silent.clone()];
    let expected = Serving::Unwatchable { resources };
    assert_eq!(matched(&["widgets"], std::slice::from_ref(&silent)), (vec![], vec![expected]));
    let resources = vec![fixed.clone()];
    let expected = Serving::Unpatchable { resources };
    assert_eq!(matched(&["widgets"], std::slice::from_ref(&fixed)), (vec![], vec![expected]));
    for unfit in [silent, fixed] {
        assert_eq!(matched(&["*"], &[unfit]), (vec![], vec![]));
    }
    let is_being_deleted = with(&["delete", "deletecollection", "get", "list", "watch"]);
    let (served, unserved) = matched(&["widgets"], std::slice::from_ref(&is_being_deleted));
    assert_eq!((served.len(), unserved), (1, vec![]));
}

/// Returns the deletion handlers that are withheld for each served resource. `?` after a selector makes it an optional one, `+` one for
/// creations.
fn withheld(selectors: &[&str], resources: &[&Resource], unknown: &[&str]) -> String {
    let mut registry = Registry::new();
    for selector in selectors {
        let callback = handler(*selector, |_| async { Ok(()) });
        registry = match selector.split_at(selector.len() - 1) {
            (name, "?") => registry.on_delete(name, callback.optional()),
            (name, "+") => registry.on_create(name, callback),
            _ => registry.on_delete(*selector, callback),
        };
    }
    let resources: Vec<Resource> = resources.iter().map(|&it| it.clone()).collect();
    let unknown = unknown.iter().map(|&it| it.to_owned()).collect();
    let matched = match_handlers(registry.handlers(), &resources, &unknown);
    let withheld = matched.resources.iter().map(|served| {
        let ids = ids(&served.withheld).join(" ");
        format!("{}: {ids}", served.resource)
    });
    withheld.collect::<Vec<_>>().join("; ")
}

#[test]
fn ambiguous_deletion_handlers_are_withheld_for_each_resource_that_may_be_theirs() {
    let (a, b) = (resource("a.io", "v2", true), resource("b.io", "v1", true));
    for (selectors, resources, expected) in [
        (["widgets", "widgets.a.io"], vec![&a], ""),
        (["widgets", "widgets.a.io"], vec![&a, &b], "widgets"),
        (["gadgets.a.io", "widgets.a.io"], vec![&a], ""),
        (["widgets?", "widgets.a.io"], vec![&a, &b], ""),
    ] {
        let expected = format!("widgets.v2.a.io: {expected}");
        assert_eq!(withheld(&selectors, &resources, &[]), expected, "for {selectors:?}");
    }
}

#[test]
fn deletion_handlers_for_another_version_are_withheld_where_only_they_would_clean_up() {
    let (v1, v2) = (resource("a.io", "v1", false), resource("a.io", "v2", true));
    let older = "widgets.v1.a.io";
    for (others, resources, unknown, expected) in [
        ("widgets.a.io", vec![&v2, &v1], vec![], ""),
        ("widgets.a.io", vec![&v2], vec![], ""),
        ("widgets.a.io", vec![&v2], vec!["a.io/v1"], ""),
        ("widgets.a.io+", vec![&v2, &v1], vec![], older),
        ("widgets.a.io?", vec![&v2, &v1], vec![], older),
        ("widgets.a.io+", vec![&v2], vec![], ""),
        // An unknown version does not count as gone.
        ("widgets.a.io+", vec![&v2], vec!["a.io/v1"], older),
        ("widgets.a.io+", vec![&v2], vec!["b.io/v1"], ""),
    ] {
        let expected = format!("widgets.v2.a.io: {expected}");
        let found = withheld(&[older, others], &resources, &unknown);
        assert_eq!(found, expected, "for {others} and {unknown:?}");
    }
}

#[test]
fn a_function_that_panics_selects_nothing_and_is_told() {
    let resources = [resource("a.io", "v1", true), resource("b.io", "v1", true)];
    let picky = Selector::matching(|it| {
        assert!(it.group != "a.io", "no such group");
        true
    });
    let registry = Registry::new()
        .on_create(picky, handler("picky", |_| async { Ok(()) }))
        .on_create("widgets.a.io", handler("other", |_| async { Ok(()) }));
    let matched = match_handlers(registry.handlers(), &resources, &BTreeSet::new());
    let served = matched.resources.iter();
    let served = served.map(|it| format!("{} {}", it.resource, ids(&it.handlers).join(" ")));
    let served: Vec<_> = served.collect();
    assert_eq!(served, ["widgets.v1.b.io picky", "widgets.v1.a.io other"]);
    assert_eq!(matched.unserved.len(), 1, "{:?}", matched.unserved);
}
