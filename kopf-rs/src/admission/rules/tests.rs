//! Rules by what they read, and what is made of them.

use super::*;
use crate::object::selector::Selector;

fn custom() -> Resource {
    Resource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        plural: "apps".to_owned(),
        kind: "App".to_owned(),
        singular: "app".to_owned(),
        preferred: true,
        ..Resource::default()
    }
}

fn rule(expression: &str) -> ValidationRule {
    ValidationRule::new("keep", expression)
}

fn declared(rule: ValidationRule, words: &[&str]) -> Arc<DeclaredRule> {
    let selector = Selector::positional(words).unwrap();
    Arc::new(DeclaredRule {
        declared_at: rule.declared_at(),
        rule,
        selector,
    })
}

fn source<'a>(rules: &'a [Arc<DeclaredRule>], resources: &'a [Resource]) -> PolicySource<'a> {
    PolicySource {
        rules,
        resources,
        domain: "op.kopf.rs",
        namespaces: None,
    }
}

#[test]
fn the_place_is_chosen_by_what_is_read() {
    use RulePlace::{Definition, Policy};
    let (app, pod) = (custom(), Resource::built_in("", "Pod", true));
    let own = "self.spec.a == oldSelf.spec.a";
    for (rule, resource, expected) in [
        (rule(own), &app, Definition),
        (
            rule(own).message("a").message_expression("self.spec.a"),
            &app,
            Definition,
        ),
        (
            rule(own).operations([Operation::Create, Operation::Update]),
            &app,
            Definition,
        ),
        (rule(own).operations([Operation::Update]), &app, Policy),
        (rule(own).operations([Operation::Delete]), &app, Policy),
        (rule(own).message_expression("request.name"), &app, Policy),
        (rule(own).warn(), &app, Policy),
        (rule(own).ignore_failures(), &app, Policy),
        (rule(own).policy(), &app, Policy),
        (rule(own), &pod, Policy),
        (rule("has(self.metadata.labels)"), &app, Policy),
        (rule("request.dryRun"), &app, Policy),
        (rule("object.spec.a > 0"), &app, Policy),
    ] {
        assert_eq!(place(&rule, resource), expected, "{rule:?} {resource}");
    }
}

#[test]
fn a_definition_gets_the_rules_of_its_kind() {
    let version = |name: &str| {
        json!({"name": name, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-validations": [
            {"rule": "self.spec.b > 0"}, {"rule": "self.spec.a > 0", "message": "old"},
        ]}}})
    };
    let crd = json!({"metadata": {"name": "apps.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "apps", "kind": "App"},
        "versions": [version("v1"), version("v2")],
    }});
    let rules = [
        declared(rule(" self.spec.a > 0\n").message("new"), &["apps"]),
        declared(
            rule("self.spec.c > 0").field("spec.c"),
            &["example.com", "v2", "apps"],
        ),
        declared(rule("request.dryRun"), &["apps"]),
        declared(rule("self.spec.d > 0"), &["others"]),
    ];
    assert_eq!(missing_in(&crd, &rules), ["keep"]);
    let made = with_rules(&crd, &rules);
    let held = |version: usize| {
        made["spec"]["versions"][version]["schema"]["openAPIV3Schema"][RULES].clone()
    };
    let both = [
        json!({"rule": "self.spec.b > 0"}),
        json!({"rule": "self.spec.a > 0", "message": "new"}),
    ];
    assert_eq!(held(0), json!(both));
    assert_eq!(
        held(1),
        json!([both[0], both[1], {"rule": "self.spec.c > 0", "fieldPath": ".spec.c"}])
    );
    assert!(missing_in(&made, &rules).is_empty());
    assert_eq!(with_rules(&made, &rules), made);
}

#[test]
fn what_is_about_the_spec_goes_there() {
    let crd = json!({"spec": {
        "group": "example.com", "names": {"plural": "apps", "kind": "App"},
        "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}}],
    }});
    let rules = [
        declared(
            rule("self.spec.a > 0")
                .field("spec.a")
                .message_expression("self.spec.b"),
            &["apps"],
        ),
        declared(rule("self.spec.a > 1").field("status"), &["apps"]),
        declared(
            rule("self.spec.a > 2").message_expression("self.metadata.name"),
            &["apps"],
        ),
        declared(rule("true"), &["apps"]),
    ];
    let made = with_rules(&crd, &rules);
    let schema = &made["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let below = json!([{"rule": "self.a > 0", "messageExpression": "self.b", "fieldPath": ".a"}]);
    assert_eq!(schema["properties"]["spec"][RULES], below);
    assert_eq!(
        schema[RULES].as_array().map(Vec::len),
        Some(3),
        "{schema:#}"
    );
    assert!(missing_in(&made, &rules).is_empty());
    assert_eq!(missing_in(&crd, &rules), ["keep"]);
}

#[test]
fn policies_say_all_that_the_server_would_fill_in() {
    let rules = [
        declared(
            rule("self.spec.a == oldSelf.spec.a || request.dryRun")
                .message("a stays")
                .field("spec.a"),
            &["apps"],
        ),
        declared(rule("self.spec.a > 0"), &["apps"]),
    ];
    let resources = [custom()];
    let [made] = &policies(source(&rules, &resources))[..] else {
        panic!("one rule needs a policy");
    };
    assert_eq!(made.name, "keep.op.kopf.rs");
    assert_eq!(
        made.policy["metadata"],
        json!({"name": "keep.op.kopf.rs", "labels": {"op.kopf.rs/rule": "true"}})
    );
    let expected = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
            "resourceRules": [{
                "apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["apps"], "scope": "*",
            }],
        },
        "validations": [{"expression": "object.spec.a == oldObject.spec.a || request.dryRun", "message": "spec.a: a stays"}],
    });
    assert_eq!(made.policy["spec"], expected);
    assert_eq!(
        made.binding["spec"],
        json!({"policyName": "keep.op.kopf.rs", "validationActions": ["Deny"]})
    );
    let names: Vec<_> = definitions(source(&rules, &resources))
        .into_iter()
        .collect();
    assert_eq!(names, ["apps.example.com"]);
}

#[test]
fn what_is_not_served_has_no_policy() {
    let rules = [declared(rule("request.dryRun"), &["others"])];
    let served = [custom()];
    let source = source(&rules, &served);
    assert!(policies(source).is_empty());
    // It may be served again: what was made of it stays.
    assert!(names(source).contains("keep.op.kopf.rs"));
}

#[test]
fn a_merge_takes_away_what_is_not_wanted() {
    let found = json!({"a": {"b": 1, "c": [1]}, "d": 1, "e": {"f": 1}});
    let wanted = json!({"a": {"b": 1, "c": [2]}, "e": {"f": 1}});
    assert_eq!(
        merge_to(&found, &wanted),
        json!({"a": {"c": [2]}, "d": null})
    );
    assert_eq!(merge_to(&wanted, &wanted), json!({}));
    assert_eq!(
        merge_to(&json!({"a": 1}), &json!({"a": {"b": 1}})),
        json!({"a": {"b": 1}})
    );
}
