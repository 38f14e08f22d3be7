//! Tests where rules are placed depending on the values that they read, and the generated objects.

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
    Arc::new(DeclaredRule { rule, selector })
}

fn found(resources: &[Resource]) -> Found {
    Found { resources: resources.to_vec(), ..Found::default() }
}

fn source<'a>(rules: &'a [Arc<DeclaredRule>], found: &'a Found) -> PolicySource<'a> {
    PolicySource { rules, found, domain: "op.kopf.rs" }
}

#[test]
fn the_values_that_a_rule_reads_decide_its_place() {
    use RulePlace::{Definition, Policy};
    let (app, pod) = (custom(), Resource::built_in("", "Pod", true));
    let own = "self.spec.a == oldSelf.spec.a";
    for (rule, resource, expected) in [
        (rule(own), &app, Definition),
        (rule(own).message("a").message_expression("self.spec.a"), &app, Definition),
        (rule(own).operations([Operation::Create, Operation::Update]), &app, Definition),
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
        declared(rule("self.spec.c > 0").field("spec.c"), &["example.com", "v2", "apps"]),
        declared(rule("request.dryRun"), &["apps"]),
        declared(rule("self.spec.d > 0"), &["others"]),
    ];
    assert_eq!(missing_in(&crd, &rules), ["keep"]);
    let made = with_rules(&crd, &rules);
    let held = |version: usize| made["spec"]["versions"][version]["schema"]["openAPIV3Schema"][RULES].clone();
    let both = [json!({"rule": "self.spec.b > 0"}), json!({"rule": "self.spec.a > 0", "message": "new"})];
    assert_eq!(held(0), json!(both));
    assert_eq!(held(1), json!([both[0], both[1], {"rule": "self.spec.c > 0", "fieldPath": ".spec.c"}]));
    assert!(missing_in(&made, &rules).is_empty());
    assert_eq!(with_rules(&made, &rules), made);
}

#[test]
fn rules_about_the_spec_are_placed_there() {
    let crd = json!({"spec": {
        "group": "example.com", "names": {"plural": "apps", "kind": "App"},
        "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}}],
    }});
    let rules = [
        declared(rule("self.spec.a > 0").field("spec.a").message_expression("self.spec.b"), &["apps"]),
        declared(rule("self.spec.a > 1").field("status"), &["apps"]),
        declared(rule("self.spec.a > 2").message_expression("self.metadata.name"), &["apps"]),
        declared(rule("true"), &["apps"]),
    ];
    let made = with_rules(&crd, &rules);
    let schema = &made["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let below = json!([{"rule": "self.a > 0", "messageExpression": "self.b", "fieldPath": ".a"}]);
    assert_eq!(schema["properties"]["spec"][RULES], below);
    assert_eq!(schema[RULES].as_array().map(Vec::len), Some(3), "{schema:#}");
    assert!(missing_in(&made, &rules).is_empty());
    assert_eq!(missing_in(&crd, &rules), ["keep"]);
}

#[test]
fn policies_contain_the_defaults_of_the_server() {
    let rules = [
        declared(
            rule("self.spec.a == oldSelf.spec.a || request.dryRun").message("a stays").field("spec.a"),
            &["apps"],
        ),
        declared(rule("self.spec.a > 0"), &["apps"]),
    ];
    let resources = [custom()];
    let [made] = &policies(source(&rules, &found(&resources)))[..] else {
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
    assert_eq!(made.binding["spec"], json!({"policyName": "keep.op.kopf.rs", "validationActions": ["Deny"]}));
    let names: Vec<_> = definitions(source(&rules, &found(&resources))).into_iter().collect();
    assert_eq!(names, ["apps.example.com"]);
}

#[test]
fn policies_cover_the_subresources_that_would_bypass_them() {
    let served = |kind: &str, group: &str, subresources: &[&str]| Resource {
        subresources: subresources.iter().map(ToString::to_string).collect(),
        ..Resource::built_in(group, kind, true)
    };
    let pod = served("Pod", "", &["status", "resize", "ephemeralcontainers", "log", "eviction"]);
    let old_pod = served("Pod", "", &["status", "log"]);
    let deployment = served("Deployment", "apps", &["status", "scale"]);
    let app = Resource { subresources: vec!["status".to_owned()], ..custom() };
    let covered = |rule: ValidationRule, resource: &Resource| {
        let rules = [declared(rule, &[resource.plural.as_str()])];
        let made = policies(source(&rules, &found(std::slice::from_ref(resource))));
        let constraints = &made[0].policy["spec"]["matchConstraints"];
        constraints["resourceRules"][0]["resources"].clone()
    };
    for (made, resource, expected) in [
        (
            rule("self.spec.containers.all(it, it.name != 'a')"),
            &pod,
            json!(["pods", "pods/ephemeralcontainers", "pods/resize"]),
        ),
        (rule("self.spec.a > 0"), &old_pod, json!(["pods"])),
        (rule("size(self) > 0"), &old_pod, json!(["pods", "pods/status"])),
        (rule("self.spec.a > 0").operations([Operation::Create]), &pod, json!(["pods"])),
        (rule("self.status.phase != 'a'"), &deployment, json!(["deployments", "deployments/status"])),
        (
            rule("self.spec.replicas <= 5 || self.metadata.name == 'a'"),
            &deployment,
            json!(["deployments", "deployments/scale"]),
        ),
        // Controllers write the status, regardless of permissions for the rest.
        (rule("request.userInfo.username == 'a'"), &deployment, json!(["deployments", "deployments/scale"])),
        (
            rule("self.spec.?replicas.orValue(1) <= 5"),
            &deployment,
            json!(["deployments", "deployments/scale"]),
        ),
        // The status subresource also changes the metadata, except for the name.
        (rule("!has(self.metadata.labels)"), &old_pod, json!(["pods", "pods/status"])),
        (
            rule("self.metadata.?annotations.hasValue()"),
            &deployment,
            json!(["deployments", "deployments/status"]),
        ),
        (rule("self.metadata.name != 'a'"), &old_pod, json!(["pods"])),
        (rule("!has(self.metadata.labels)"), &app, json!(["apps"])),
        // The rule could not be evaluated for a `Scale`, and would refuse all requests.
        (rule("self.spec.replicas <= self.spec.minReadySeconds"), &deployment, json!(["deployments"])),
    ] {
        let words = made.expression.clone();
        assert_eq!(covered(made, resource), expected, "{words}");
    }
}

#[test]
fn only_metadata_that_change_are_judged_with_a_status() {
    let pod = Resource { subresources: vec!["status".to_owned()], ..Resource::built_in("", "Pod", true) };
    let written = |expression: &str| {
        let rules = [declared(rule(expression), &["pods"])];
        let made = policies(source(&rules, &found(std::slice::from_ref(&pod))));
        let made = &made[0].policy["spec"]["validations"][0]["expression"];
        made.as_str().unwrap_or_default().to_owned()
    };
    let judged = written("has(self.metadata.labels) // all of them");
    let kept = "has(request.subResource) && request.subResource == 'status' && (has(object.metadata.labels) ? object.metadata.labels : {}) == ";
    assert!(judged.starts_with(kept), "{judged}");
    let rule = " ? true : (has(object.metadata.labels) // all of them\n)";
    assert!(judged.ends_with(rule), "{judged}");
    for field in ["annotations", "finalizers", "ownerReferences"] {
        assert!(judged.contains(&format!("has(oldObject.metadata.{field})")));
    }
    for about_it in [
        "has(object.metadata.labels) && object.status.phase != 'a'",
        "size(object) > 0",
        "object.metadata.name != 'a'",
        "object.spec.a > 0",
    ] {
        assert_eq!(written(about_it), about_it);
    }
}

#[test]
fn policies_are_written_in_the_version_that_is_served() {
    let policies_in = |version: &str| Resource {
        version: version.to_owned(),
        plural: "validatingadmissionpolicies".to_owned(),
        ..Resource::built_in(GROUP, "ValidatingAdmissionPolicy", false)
    };
    let rules = [declared(rule("request.dryRun"), &["apps"])];
    for (versions, expected) in [
        (&["v1", "v1beta1"][..], Some("v1")),
        (&["v1alpha1", "v1beta1"], Some("v1beta1")),
        (&["v1alpha1"], None),
        (&[], None),
    ] {
        let mut resources = vec![custom()];
        resources.extend(versions.iter().map(|it| policies_in(it)));
        assert_eq!(policy_version(&resources), expected, "{versions:?}");
        let made = policies(source(&rules, &found(&resources))).remove(0);
        let written = format!("{GROUP}/{}", expected.unwrap_or("v1"));
        for object in [made.policy, made.binding] {
            assert_eq!(object["apiVersion"], written.as_str());
        }
    }
}

#[test]
fn unserved_kinds_have_no_policy() {
    let rules = [declared(rule("request.dryRun"), &["others"])];
    let served = found(&[custom()]);
    let source = source(&rules, &served);
    assert!(policies(source).is_empty());
    // The kind may be served again, so its policy stays.
    assert!(names(source).contains("keep.op.kopf.rs"));
}

#[test]
fn rules_that_may_need_policies_later_need_the_permission_now() {
    let served = found(&[custom()]);
    for (rule, words, expected) in [
        (rule("request.dryRun"), "others", true),
        (rule("request.dryRun"), "apps", true),
        // The definition will contain the rule.
        (rule("self.spec.a > 0"), "others", false),
        (rule("self.spec.a > 0"), "apps", false),
    ] {
        let expression = rule.expression.clone();
        let rules = [declared(rule, &[words])];
        let needs = needs_policies(source(&rules, &served));
        assert_eq!(needs, expected, "{expression} {words}");
    }
}
