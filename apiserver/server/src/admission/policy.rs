//! Admission policies: CEL expressions that refuse writes or warn about them, where a binding applies them.
//!
//! Guarantees the real server's messages, order and codes, except that several policies are evaluated in the order of their names
//! instead of at random. An evaluation failure refuses the write, unless the policy ignores failures. Must not depend on how objects
//! are written.

pub(super) mod flaws;
mod judge;
mod params;

use serde_json::Value;

use super::hook::{Rule, Target, word};
use super::round::Event;
use crate::object::{Body, metadata, text};
use crate::selector::object::ObjectSelector;
use crate::status::{Refusal, Subject};
use crate::store::Store;
use judge::{Judged, Seen};
use params::ParamRef;

/// A policy with one of its bindings.
#[derive(Clone, Debug)]
pub(super) struct BoundPolicy {
    name: String,
    binding: String,
    policy: Policy,
    /// The constraints of the binding, if it has its own.
    narrowed: Option<Constraints>,
    actions: Vec<String>,
    params: Option<ParamRef>,
}

/// The specification of a policy.
#[derive(Clone, Debug)]
struct Policy {
    constraints: Constraints,
    ignores_failures: bool,
    /// The `apiVersion` and `kind` of its parameters.
    param_kind: Option<(String, String)>,
    conditions: Vec<String>,
    /// Names and expressions, in order.
    variables: Vec<(String, String)>,
    validations: Vec<Validation>,
}

/// A validation expression, and the message and reason of its failure.
#[derive(Clone, Debug)]
struct Validation {
    expression: String,
    message: String,
    message_expression: String,
    reason: String,
}

/// Selects the requests to which a policy applies.
#[derive(Clone, Debug)]
struct Constraints {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    exact: bool,
    namespaces: ObjectSelector,
    objects: ObjectSelector,
}

/// The reason and message of a refusal.
struct Denial {
    reason: String,
    message: String,
}

/// Pairs policies with their bindings. A policy without a binding, or a binding without a policy, has no effect.
pub(super) fn bound(policies: &[Body], bindings: &[Body]) -> Vec<BoundPolicy> {
    let mut bound = Vec::new();
    for policy in policies {
        let name = name_of(policy);
        let spec = policy.get("spec").unwrap_or(&Value::Null);
        for binding in bindings {
            let wish = binding.get("spec").unwrap_or(&Value::Null);
            if word(wish, "policyName") != name {
                continue;
            }
            bound.push(BoundPolicy {
                name: name.to_owned(),
                binding: name_of(binding).to_owned(),
                policy: Policy::of(spec),
                narrowed: wish.get("matchResources").map(Constraints::of),
                actions: words(wish, "validationActions"),
                params: wish.get("paramRef").map(ParamRef::of),
            });
        }
    }
    bound
}

fn name_of(object: &Body) -> &str {
    metadata(object).map_or("", |meta| text(meta, "name"))
}

fn words(map: &Value, field: &str) -> Vec<String> {
    let items = map.get(field).and_then(Value::as_array);
    let items = items.into_iter().flatten().filter_map(Value::as_str);
    items.map(str::to_owned).collect()
}

fn list<'a>(map: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    map.get(field)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Evaluates all policies for a write, which they can refuse or warn about.
pub(super) fn check(store: &mut Store, event: &Event) -> Result<(), Refusal> {
    let all = store.admission.policies.clone();
    let mut denial = None;
    for bound in all.iter() {
        let Some(version) = bound.version_for(event) else {
            continue;
        };
        let request = event.shown_as(store, &version)?;
        let found = bound.judge(store, event, &request);
        for Denial { reason, message } in found {
            let by = format!(
                "ValidatingAdmissionPolicy '{}' with binding '{}'",
                bound.name, bound.binding
            );
            if bound.has("Warn")
                && let Some(round) = &mut store.admission.round
            {
                round
                    .warnings
                    .push(format!("Validation failed for {by}: {message}"));
            }
            if bound.has("Deny") && denial.is_none() {
                denial = Some((reason, format!("{by} denied request: {message}")));
            }
        }
    }
    match denial {
        None => Ok(()),
        Some((reason, message)) => {
            let subject = Subject {
                group: &event.group,
                word: &event.plural,
                name: event.request["name"].as_str().unwrap_or("Unknown"),
            };
            Err(Refusal::denied_by_policy(subject, &reason, &message))
        }
    }
}

// === impl BoundPolicy ===

impl BoundPolicy {
    fn has(&self, action: &str) -> bool {
        self.actions.iter().any(|it| it == action)
    }

    /// Returns the version in which the policy evaluates the object, or `None` if it does not apply.
    fn version_for(&self, event: &Event) -> Option<String> {
        let version = self.policy.constraints.version_for(event)?;
        let narrowed = self.narrowed.as_ref();
        let is_bound = narrowed.is_none_or(|it| it.version_for(event).is_some());
        is_bound.then_some(version)
    }

    /// Returns the denials of a request, for all parameters.
    fn judge(&self, store: &Store, event: &Event, request: &Value) -> Vec<Denial> {
        let found = match (&self.policy.param_kind, &self.params) {
            (Some(kind), Some(params)) => params.find(store, kind, &event.namespace),
            _ => Ok(vec![Value::Null]),
        };
        let params = match found {
            Ok(params) => params,
            Err(_) if self.policy.ignores_failures => return Vec::new(),
            Err(why) => {
                return vec![Denial {
                    reason: "Invalid".to_owned(),
                    message: format!("failed to configure binding: {why}"),
                }];
            }
        };
        let namespace = namespace_of(store, event);
        let mut denials = Vec::new();
        for params in &params {
            let seen = Seen {
                request,
                params,
                namespace: &namespace,
                has_params: self.policy.param_kind.is_some(),
            };
            for judged in judge::judge(&self.policy, seen) {
                match judged {
                    Judged::Fails(_) if self.policy.ignores_failures => {}
                    Judged::Fails(message) => denials.push(Denial {
                        reason: "Invalid".to_owned(),
                        message,
                    }),
                    Judged::Denies { reason, message } => {
                        denials.push(Denial { reason, message });
                    }
                }
            }
        }
        denials
    }
}

/// Returns the namespace of the written object, as expressions see it.
fn namespace_of(store: &Store, event: &Event) -> Value {
    let name = match event.plural.as_str() {
        "namespaces" if event.group.is_empty() => "",
        _ => event.namespace.as_str(),
    };
    let kind = store.kinds.kind("", "v1", "namespaces");
    let found = kind.and_then(|kind| store.get(kind.collection, name));
    found.map_or(Value::Null, |found| Value::Object(found.body()))
}

// === impl Policy ===

impl Policy {
    fn of(spec: &Value) -> Self {
        let param_kind = spec.get("paramKind").filter(|it| it.is_object());
        let variables = list(spec, "variables");
        Self {
            constraints: Constraints::of(spec.get("matchConstraints").unwrap_or(&Value::Null)),
            ignores_failures: word(spec, "failurePolicy") == "Ignore",
            param_kind: param_kind.map(|it| {
                (
                    word(it, "apiVersion").to_owned(),
                    word(it, "kind").to_owned(),
                )
            }),
            conditions: list(spec, "matchConditions")
                .map(|it| word(it, "expression").to_owned())
                .collect(),
            variables: variables
                .map(|it| {
                    (
                        word(it, "name").to_owned(),
                        word(it, "expression").to_owned(),
                    )
                })
                .collect(),
            validations: list(spec, "validations").map(Validation::of).collect(),
        }
    }
}

// === impl Validation ===

impl Validation {
    fn of(validation: &Value) -> Self {
        let text = |field: &str| word(validation, field).trim().to_owned();
        let reason = text("reason");
        Self {
            expression: text("expression"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: if reason.is_empty() {
                "Invalid".to_owned()
            } else {
                reason
            },
        }
    }
}

// === impl Constraints ===

impl Constraints {
    fn of(constraints: &Value) -> Self {
        let rules = |field: &str| list(constraints, field).map(Rule::of).collect();
        let selector = |field: &str| {
            let found = constraints.get(field);
            found.map(ObjectSelector::of).unwrap_or_default()
        };
        Self {
            rules: rules("resourceRules"),
            excluded: rules("excludeResourceRules"),
            exact: word(constraints, "matchPolicy") == "Exact",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    fn version_for(&self, event: &Event) -> Option<String> {
        let surroundings = event.surroundings.as_ref();
        if !surroundings.is_none_or(|labels| self.namespaces.matches(labels))
            || !event
                .labels
                .iter()
                .any(|labels| self.objects.matches(labels))
        {
            return None;
        }
        let fits = |rules: &[Rule], target: Target<'_>| rules.iter().any(|it| it.fits(target));
        let is_excluded = event.version_wanted(self.exact, |target| fits(&self.excluded, target));
        if is_excluded.is_some() {
            return None;
        }
        event.version_wanted(self.exact, |target| {
            self.rules.is_empty() || fits(&self.rules, target)
        })
    }
}
