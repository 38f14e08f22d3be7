//! Defaults and validation of policies and their bindings.
//!
//! Guarantees the real server's messages and defaults, except that `request` and `namespaceObject` are not type-checked.
//! Must not depend on how policies are evaluated.

use serde_json::{Value, json};

use super::{list, word};
use crate::admission::check::{check_conditions, check_rule, complete, duplicate, one_of};
use crate::cel::{self, Kind as CelKind};
use crate::object::Body;
use crate::rules::names;
use crate::selector::object;
use crate::status::Cause;

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
/// The maximum number of audit annotations per policy.
const MOST: usize = 20;

/// Fills in the defaults of a policy.
pub(in crate::admission) fn fill_policy(body: &mut Body) {
    let Some(Value::Object(spec)) = body.get_mut("spec") else {
        return;
    };
    complete(spec, "failurePolicy", json!("Fail"));
    if let Some(Value::Object(constraints)) = spec.get_mut("matchConstraints") {
        fill_constraints(constraints);
    }
}

/// Fills in the defaults of a binding.
pub(in crate::admission) fn fill_binding(body: &mut Body) {
    let Some(Value::Object(spec)) = body.get_mut("spec") else {
        return;
    };
    if let Some(Value::Object(constraints)) = spec.get_mut("matchResources") {
        fill_constraints(constraints);
    }
}

fn fill_constraints(constraints: &mut Body) {
    for (field, value) in [
        ("matchPolicy", json!("Equivalent")),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
    ] {
        complete(constraints, field, value);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let rules = constraints.get_mut(field).and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten().filter_map(Value::as_object_mut) {
            complete(rule, "scope", json!("*"));
        }
    }
}

/// Validates a policy.
pub(in crate::admission) fn of_policy(body: &Body) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = body.get("spec").unwrap_or(&Value::Null);
    let policy = word(spec, "failurePolicy");
    if !policy.is_empty() {
        one_of(
            "spec.failurePolicy",
            policy,
            &["Fail", "Ignore"],
            &mut causes,
        );
    }
    let param_kind = spec.get("paramKind").filter(|it| it.is_object());
    if let Some(kind) = param_kind {
        for field in ["apiVersion", "kind"] {
            if word(kind, field).is_empty() {
                causes.push(Cause::required(format!("spec.paramKind.{field}"), ""));
            }
        }
    }
    match spec.get("matchConstraints").filter(|it| it.is_object()) {
        None => causes.push(Cause::required("spec.matchConstraints", "")),
        Some(constraints) => {
            check_constraints(constraints, "spec.matchConstraints", &mut causes);
            if list(constraints, "resourceRules").next().is_none() {
                let field = "spec.matchConstraints.resourceRules";
                causes.push(Cause::required(field, ""));
            }
        }
    }
    let conditions: Vec<Value> = list(spec, "matchConditions").cloned().collect();
    check_conditions(&conditions, "spec", &mut causes);
    let has_params = param_kind.is_some();
    let variables = check_variables(spec, has_params, &mut causes);
    let expressions = Expressions {
        variables: &variables,
        has_params,
    };
    let audits = list(spec, "auditAnnotations").count();
    if audits == 0 && list(spec, "validations").next().is_none() {
        let why = "validations or auditAnnotations must contain at least one item";
        causes.push(Cause::required("spec.validations", why));
        causes.push(Cause::required("spec.auditAnnotations", why));
    }
    for (index, validation) in list(spec, "validations").enumerate() {
        check_validation(
            validation,
            &format!("spec.validations[{index}]"),
            expressions,
            &mut causes,
        );
    }
    if audits > MOST {
        let message = format!("Too many: {audits}: must have at most {MOST} items");
        causes.push(Cause::new(
            "FieldValueTooMany",
            "spec.auditAnnotations",
            message,
        ));
    }
    causes
}

/// Validates a binding.
pub(in crate::admission) fn of_binding(body: &Body) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = body.get("spec").unwrap_or(&Value::Null);
    let policy = word(spec, "policyName");
    if policy.is_empty() {
        causes.push(Cause::required("spec.policyName", ""));
    } else if let Some(why) = names::subdomain(policy) {
        causes.push(Cause::invalid("spec.policyName", &policy.into(), &why));
    }
    if let Some(reference) = spec.get("paramRef").filter(|it| it.is_object()) {
        check_reference(reference, &mut causes);
    }
    if let Some(constraints) = spec.get("matchResources").filter(|it| it.is_object()) {
        check_constraints(constraints, "spec.matchResources", &mut causes);
    }
    let actions: Vec<&Value> = list(spec, "validationActions").collect();
    let field = "spec.validationActions";
    if actions.is_empty() {
        let why = "at least one validation action is required";
        causes.push(Cause::required(field, why));
    }
    for (index, action) in actions.iter().enumerate() {
        let at = format!("{field}[{index}]");
        let name = action.as_str().unwrap_or_default();
        one_of(&at, name, &ACTIONS, &mut causes);
        if actions[..index].contains(action) {
            causes.push(duplicate(&at, name));
        }
    }
    let has = |name: &str| actions.iter().any(|it| it.as_str() == Some(name));
    if has("Deny") && has("Warn") {
        let given = Value::Array(actions.iter().map(|it| (*it).clone()).collect());
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        causes.push(Cause::invalid(field, &given, why));
    }
    causes
}

fn check_reference(reference: &Value, causes: &mut Vec<Cause>) {
    let at = "spec.paramRef";
    let (has_name, has_selector) = (
        !word(reference, "name").is_empty(),
        reference.get("selector").is_some_and(Value::is_object),
    );
    if has_name && has_selector {
        for field in ["name", "selector"] {
            let why = "name and selector are mutually exclusive";
            causes.push(Cause::forbidden(format!("{at}.{field}"), why));
        }
    } else if !has_name && !has_selector {
        causes.push(Cause::required(
            at,
            "one of name or selector must be specified",
        ));
    }
    let action = word(reference, "parameterNotFoundAction");
    if action.is_empty() {
        causes.push(Cause::required(format!("{at}.parameterNotFoundAction"), ""));
    } else {
        one_of(
            &format!("{at}.parameterNotFoundAction"),
            action,
            &["Deny", "Allow"],
            causes,
        );
    }
}

fn check_constraints(constraints: &Value, at: &str, causes: &mut Vec<Cause>) {
    let policy = word(constraints, "matchPolicy");
    if !policy.is_empty() {
        one_of(
            &format!("{at}.matchPolicy"),
            policy,
            &["Equivalent", "Exact"],
            causes,
        );
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if let Some(selector) = constraints.get(field).and_then(Value::as_object) {
            causes.extend(object::check(selector, &format!("{at}.{field}")));
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in list(constraints, field).enumerate() {
            check_rule(rule, &format!("{at}.{field}[{index}]"), causes);
        }
    }
}

/// The names that an expression may refer to.
#[derive(Clone, Copy)]
struct Expressions<'a> {
    variables: &'a [String],
    has_params: bool,
}

/// Validates the variables and returns their names.
fn check_variables(spec: &Value, has_params: bool, causes: &mut Vec<Cause>) -> Vec<String> {
    let mut known = Vec::new();
    for (index, variable) in list(spec, "variables").enumerate() {
        let at = format!("spec.variables[{index}]");
        let name = word(variable, "name");
        if name.trim().is_empty() {
            causes.push(Cause::required(
                format!("{at}.name"),
                "name is not specified",
            ));
        } else if known.iter().any(|it| it == name) {
            causes.push(duplicate(&format!("{at}.name"), name));
        }
        let expressions = Expressions {
            variables: &known,
            has_params,
        };
        let field = format!("{at}.expression");
        expressions.check(word(variable, "expression"), &field, None, causes);
        known.push(name.to_owned());
    }
    known
}

fn check_validation(
    validation: &Value,
    at: &str,
    expressions: Expressions<'_>,
    causes: &mut Vec<Cause>,
) {
    let text = |field: &str| word(validation, field);
    let expression = text("expression");
    let field = format!("{at}.expression");
    expressions.check(expression, &field, Some(CelKind::Bool), causes);
    let message_expression = text("messageExpression");
    if !message_expression.trim().is_empty() {
        let field = format!("{at}.messageExpression");
        expressions.check(message_expression, &field, Some(CelKind::Text), causes);
    }
    let message = text("message");
    let field = format!("{at}.message");
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    if !message.is_empty() && message.trim().is_empty() {
        let why = "must be non-empty if specified";
        causes.push(Cause::invalid(field, &message.into(), why));
    } else if has_lines(message.trim()) {
        let why = "must not contain line breaks";
        causes.push(Cause::invalid(field, &message.into(), why));
    }
    let reason = text("reason");
    if !reason.is_empty() {
        one_of(&format!("{at}.reason"), reason, &REASONS, causes);
    }
}

// === impl Expressions ===

impl Expressions<'_> {
    /// Reports an expression that does not compile, or whose type is not the wanted one.
    fn check(self, source: &str, field: &str, wanted: Option<CelKind>, causes: &mut Vec<Cause>) {
        if source.trim().is_empty() {
            causes.push(Cause::required(field, "expression is not specified"));
            return;
        }
        let compiled = cel::syntax(source).and_then(|()| cel::check(source, &self.names()));
        let flaw = match (compiled, wanted) {
            (Err(why), _) => Some(format!("compilation failed: {why}")),
            (Ok(made), Some(kind)) if *made.kind() != kind && *made.kind() != CelKind::Dyn => {
                Some(format!("must evaluate to {kind} but got {}", made.kind()))
            }
            (Ok(_), _) => None,
        };
        if let Some(why) = flaw {
            causes.push(Cause::invalid(field, &source.into(), &why));
        }
    }

    fn names(self) -> Vec<(&'static str, CelKind)> {
        let fields = self.variables.iter();
        let fields = fields.map(|it| (it.clone(), json!({"x-kubernetes-int-or-string": true})));
        let fields = Value::Object(fields.collect());
        let variables = CelKind::of(&json!({"type": "object", "properties": fields}), false);
        let mut names = vec![("variables", variables.unwrap_or(CelKind::Dyn))];
        let anything = [
            "object",
            "oldObject",
            "request",
            "namespaceObject",
            "authorizer",
        ];
        names.extend(anything.map(|it| (it, CelKind::Dyn)));
        if self.has_params {
            names.push(("params", CelKind::Dyn));
        }
        names
    }
}
