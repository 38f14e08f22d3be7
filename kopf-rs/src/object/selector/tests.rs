//! Tests selectors in Kopf's forms, row by row.

use super::*;

/// Returns `group|version|name`, with `*` for parts that do not matter.
fn parsed(parts: &[&str]) -> String {
    let selector = Selector::positional(parts).unwrap();
    let any = |part: Option<String>| part.unwrap_or_else(|| "*".into());
    let SelectorName::Any(name) = selector.name else { panic!("{:?}", selector.name) };
    format!("{}|{}|{name}", any(selector.group), any(selector.version))
}

#[test]
fn positional_forms() {
    for (parts, expected) in [
        (&["pods"][..], "*|*|pods"),
        (&["kopfexamples.kopf.dev"], "kopf.dev|*|kopfexamples"),
        (&["deployments.v1.apps"], "apps|v1|deployments"),
        (&["deployments.v1beta2.apps.example.com"], "apps.example.com|v1beta2|deployments"),
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
    for parts in [&[][..], &[""], &["g", ""], &["g", "v", "n", "x"], &[".group"]] {
        assert!(Selector::positional(parts).is_err(), "{parts:?}");
    }
    assert_eq!(Selector::try_from(("apps/v1", "deployments")).unwrap().to_string(), "deployments.v1.apps");
    assert_eq!(Selector::everything(&["v1"]).unwrap().group.as_deref(), Some(""));
    assert!(Selector::everything(&["a", "b", "c"]).is_err());
}

/// Parses `group/version/plural`, followed by `/old` if another version is preferred.
fn resource(text: &str) -> Resource {
    let mut parts = text.split('/');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (group, version, plural) = (next(), next(), next());
    let preferred = next() != "old";
    let singular = plural.trim_end_matches('s').to_owned();
    Resource {
        kind: singular[..1].to_uppercase() + &singular[1..],
        short_names: vec![singular[..2].to_owned()],
        categories: vec!["all".into()],
        group,
        version,
        plural,
        singular,
        preferred,
        ..Resource::default()
    }
}

fn selected(selector: &Selector, resources: &[&str]) -> String {
    let resources: Vec<_> = resources.iter().map(|it| resource(it)).collect();
    let found: Vec<_> = selector.select(&resources).iter().map(ToString::to_string).collect();
    let word = if selector.is_specific() && found.len() > 1 { "ambiguous " } else { "" };
    word.to_owned() + &found.join(" ")
}

const PODS: [&str; 2] = ["/v1/pods", "metrics.k8s.io/v1/pods"];
const THINGS: [&str; 3] = ["a.io/v1/things", "a.io/v1beta1/things/old", "a.io/v1/others"];

#[test]
fn core_comes_first() {
    for (name, resources, expected) in [
        ("pods", &PODS[..], "pods.v1"),
        ("Pod", &PODS, "pods.v1"),
        ("pod", &PODS, "pods.v1"),
        ("po", &PODS, "pods.v1"),
        ("all", &PODS, ""),
        ("pods.v1", &PODS, "pods.v1"),
        ("pods.v1", &PODS[1..], ""),
        ("pods.metrics.k8s.io", &PODS, "pods.v1.metrics.k8s.io"),
        ("events", &["/v1/events", "events.k8s.io/v1/events"], "events.v1"),
    ] {
        let selector = Selector::positional(&[name]).unwrap();
        assert_eq!(selected(&selector, resources), expected, "{name}");
    }
}

#[test]
fn versions_and_ambiguity() {
    for (name, resources, expected) in [
        ("things", &THINGS[..], "things.v1.a.io"),
        ("things.v1beta1.a.io", &THINGS, "things.v1beta1.a.io"),
        ("things", &THINGS[1..], ""),
        ("things", &["a.io/v1/things", "b.io/v1/things"], "ambiguous things.v1.a.io things.v1.b.io"),
    ] {
        let selector = Selector::positional(&[name]).unwrap();
        assert_eq!(selected(&selector, resources), expected, "{name}");
    }
}

#[test]
fn keywords() {
    let things = |name| selected(&Selector::named(None, None, name).unwrap(), &THINGS);
    assert_eq!(things(SelectorName::Kind("Thing".into())), "things.v1.a.io");
    assert_eq!(things(SelectorName::Plural("thing".into())), "");
    assert_eq!(things(SelectorName::Singular("thing".into())), "things.v1.a.io");
    assert_eq!(things(SelectorName::Shortcut("th".into())), "things.v1.a.io");
    assert_eq!(things(SelectorName::Category("all".into())), "things.v1.a.io others.v1.a.io");
    let everything = Selector::everything(&[]).unwrap();
    let events = ["/v1/events", "events.k8s.io/v1/events", "a.io/v1/events"];
    assert_eq!(selected(&everything, &events), "events.v1.a.io");
}

#[test]
fn a_resource_selects_itself() {
    let pods = resource("/v1/pods");
    assert!(Selector::from(&pods).matches(&pods));
    assert!(!Selector::from(&pods).matches(&resource("metrics.k8s.io/v1/pods")));
}
