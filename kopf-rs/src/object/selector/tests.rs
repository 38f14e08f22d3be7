//! Selectors against core.md 3.1 to 3.3, row by row.

use super::*;

/// `group|version|name`, `*` where it does not matter.
fn parsed(parts: &[&str]) -> String {
    let selector = Selector::positional(parts).unwrap();
    let any = |part: Option<String>| part.unwrap_or_else(|| "*".into());
    let SelectorName::Any(name) = selector.name else {
        panic!("{:?}", selector.name)
    };
    format!("{}|{}|{name}", any(selector.group), any(selector.version))
}

#[test]
fn positional_forms() {
    for (parts, expected) in [
        (&["pods"][..], "*|*|pods"),
        (&["kopfexamples.kopf.dev"], "kopf.dev|*|kopfexamples"),
        (&["deployments.v1.apps"], "apps|v1|deployments"),
        (
            &["deployments.v1beta2.apps.example.com"],
            "apps.example.com|v1beta2|deployments",
        ),
        (&["pods.v1"], "|v1|pods"),
        (&["things.v2alpha1"], "*|v2alpha1|things"),
        (&["pods.v1."], "|v1|pods"),
        (&["x.foo1.g.io"], "foo1.g.io|*|x"),
        (&["x.v1gamma1.g.io"], "v1gamma1.g.io|*|x"),
        (&["apps/v1", "deployments"], "apps|v1|deployments"),
        (&["a/b/c", "x"], "a/b|c|x"),
        (&["v1", "pods"], "|v1|pods"),
        (&["v1beta1", "x"], "v1beta1|*|x"),
        (&["apps", "deployments"], "apps|*|deployments"),
        (&["", "v1", "pods"], "|v1|pods"),
        (&["g", "v", "n"], "g|v|n"),
    ] {
        assert_eq!(parsed(parts), expected, "{parts:?}");
    }
    for parts in [
        &[][..],
        &[""],
        &["g", ""],
        &["g", "v", "n", "x"],
        &[".group"],
    ] {
        assert!(Selector::positional(parts).is_err(), "{parts:?}");
    }
    assert_eq!(
        Selector::try_from(("apps/v1", "deployments"))
            .unwrap()
            .to_string(),
        "deployments.v1.apps"
    );
    assert_eq!(
        Selector::everything(&["v1"]).unwrap().group.as_deref(),
        Some("")
    );
    assert!(Selector::everything(&["a", "b", "c"]).is_err());
}

fn resource(text: &str) -> Resource {
    let mut parts = text.split('/');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (group, version, plural) = (next(), next(), next());
    let (preferred, verbs) = (next() != "old", next());
    let singular = plural.trim_end_matches('s').to_owned();
    Resource {
        kind: singular[..1].to_uppercase() + &singular[1..],
        short_names: vec![singular[..2].to_owned()],
        categories: vec!["all".into()],
        verbs: if verbs.is_empty() {
            ["list", "watch", "patch"].map(String::from).to_vec()
        } else {
            verbs.split('+').map(String::from).collect()
        },
        group,
        version,
        plural,
        singular,
        preferred,
        ..Resource::default()
    }
}

fn served(selector: &Selector, resources: &[&str], writes: bool) -> String {
    let resources: Vec<_> = resources.iter().map(|it| resource(it)).collect();
    let selection = selector.select(&resources, writes);
    let list = |them: &[&Resource]| {
        them.iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    if selection.is_unresolved() {
        return "unresolved".into();
    }
    [
        ("", selection.resources),
        ("ambiguous ", selection.ambiguous),
        ("unwatchable ", selection.unwatchable),
        ("unpatchable ", selection.unpatchable),
    ]
    .into_iter()
    .filter(|(_, them)| !them.is_empty())
    .map(|(word, them)| format!("{word}{}", list(&them)))
    .collect::<Vec<_>>()
    .join("; ")
}

#[test]
fn selection_over_many_resources() {
    let by = |name: &str| Selector::positional(&[name]).unwrap();
    let named = |name: SelectorName| Selector::named(None, None, name).unwrap();
    let pods = ["/v1/pods", "metrics.k8s.io/v1/pods"];
    for (selector, resources, expected) in [
        (by("pods"), &pods[..], "pods.v1"),
        (by("Pod"), &pods, "pods.v1"),
        (by("pod"), &pods, "pods.v1"),
        (by("po"), &pods, "pods.v1"),
        (by("all"), &pods, "unresolved"),
        (by("pods.v1"), &pods, "pods.v1"),
        (by("pods.v1"), &["metrics.k8s.io/v1/pods"], "unresolved"),
        (by("pods.metrics.k8s.io"), &pods, "pods.v1.metrics.k8s.io"),
        (
            named(SelectorName::Category("all".into())),
            &pods,
            "pods.v1 pods.v1.metrics.k8s.io",
        ),
        (
            by("things"),
            &["a.io/v1/things", "b.io/v1/things"],
            "ambiguous things.v1.a.io things.v1.b.io",
        ),
        (
            by("things"),
            &["a.io/v1/things", "a.io/v1beta1/things/old"],
            "things.v1.a.io",
        ),
        (
            by("things.v1beta1.a.io"),
            &["a.io/v1/things", "a.io/v1beta1/things/old"],
            "things.v1beta1.a.io",
        ),
        (by("things"), &["a.io/v1beta1/things/old"], "unresolved"),
        (
            Selector::everything(&[]).unwrap(),
            &["/v1/events", "events.k8s.io/v1/events", "a.io/v1/events"],
            "events.v1.a.io",
        ),
        (
            by("events"),
            &["/v1/events", "events.k8s.io/v1/events"],
            "events.v1",
        ),
        (
            named(SelectorName::Kind("Thing".into())),
            &["a.io/v1/things"],
            "things.v1.a.io",
        ),
        (
            named(SelectorName::Plural("thing".into())),
            &["a.io/v1/things"],
            "unresolved",
        ),
        (
            named(SelectorName::Singular("thing".into())),
            &["a.io/v1/things"],
            "things.v1.a.io",
        ),
        (
            named(SelectorName::Shortcut("th".into())),
            &["a.io/v1/things"],
            "things.v1.a.io",
        ),
        (
            by("things"),
            &["a.io/v1/things//list+patch"],
            "unwatchable things.v1.a.io",
        ),
        (
            by("things"),
            &["a.io/v1/things//list+watch"],
            "unpatchable things.v1.a.io",
        ),
    ] {
        assert_eq!(served(&selector, resources, true), expected, "{selector}");
    }
    assert_eq!(
        served(&by("things"), &["a.io/v1/things//list+watch"], false),
        "things.v1.a.io"
    );
}

#[test]
fn a_resource_selects_itself() {
    let pods = resource("/v1/pods");
    assert!(Selector::from(&pods).matches(&pods));
    assert!(!Selector::from(&pods).matches(&resource("metrics.k8s.io/v1/pods")));
}
