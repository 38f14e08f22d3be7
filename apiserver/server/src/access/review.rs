//! Reviews, which ask about users and permissions, and token requests. The server answers them without storing them.
//!
//! Guarantees that reviews are answered by the same authorizer that decides about requests. Must not depend on transports.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::attributes::Attributes;
use super::request::{token_request, token_review, token_target};
use super::user::User;
use super::{index, question};
use crate::call::Form;
use crate::managed::{self, Managed, Single};
use crate::object::{Body, MANAGED, at_path, metadata_mut};
use crate::render;
use crate::status::{Cause, Refusal, Subject};
use crate::store::Store;
use crate::verb::{Answer, Part, Target};

/// Metadata fields that only the server sets; values from clients are dropped.
const SYSTEM: [&str; 5] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "selfLink",
    "uid",
];

/// Answers a review whose body is decoded.
pub(crate) fn answer(
    store: &mut Store,
    target: &Target<'_>,
    mut body: Body,
) -> Result<Answer, Refusal> {
    let status = match target.kind.kind.as_str() {
        "TokenRequest" => token_request(store, target, &mut body)?,
        "TokenReview" => token_review(store, target, &mut body)?,
        "SelfSubjectReview" => {
            body.remove("spec");
            let stamp = json!({"creationTimestamp": store.clock.stamp()});
            body.insert("metadata".to_owned(), stamp);
            json!({"userInfo": target.call.user.to_json()})
        }
        "SelfSubjectRulesReview" => rules_review(store, target, &mut body)?,
        _ => access_review(store, target, &mut body)?,
    };
    let kind = &target.kind;
    body.insert("apiVersion".to_owned(), kind.api_version().into());
    body.insert("kind".to_owned(), kind.kind.as_str().into());
    body.insert("status".to_owned(), status);
    let review = Value::Object(body);
    Ok(match target.form {
        Form::Partial(version) => Answer::json(201, &render::metadata_of(&review, version)),
        _ => Answer::json(201, &review),
    })
}

/// Sets the managed fields of a review.
pub(super) fn track(store: &Store, target: &Target<'_>, body: &mut Body) -> Result<(), Refusal> {
    let (outline, empty) = (target.kind.outline(), target.kind.empty());
    let author = target.author(store)?;
    let versions = &mut Single(outline);
    let managed = managed::update(versions, &author, &Managed::default(), &empty, body);
    let managed = managed.unwrap_or_default();
    metadata_mut(body).insert(MANAGED.to_owned(), managed.to_json());
    Ok(())
}

fn invalid(group: &str, causes: &[Cause]) -> Refusal {
    let subject = Subject {
        group,
        word: "",
        name: "",
    };
    Refusal::invalid(subject, causes)
}

pub(super) fn strings(body: &Body, path: &str) -> Vec<String> {
    let items = at_path(body, path).and_then(Value::as_array);
    let items = items.into_iter().flatten().filter_map(Value::as_str);
    items.map(str::to_owned).collect()
}

pub(super) fn string(body: &Body, path: &str) -> String {
    let found = at_path(body, path).and_then(Value::as_str);
    found.unwrap_or_default().to_owned()
}

fn access_review(
    store: &mut Store,
    target: &Target<'_>,
    body: &mut Body,
) -> Result<Value, Refusal> {
    let kind = target.kind.kind.as_str();
    if kind == "LocalSubjectAccessReview" {
        crate::verb::place(&target.kind, target.path.namespace.as_deref(), body)?;
    }
    // Only the server sets these fields.
    for field in SYSTEM {
        metadata_mut(body).remove(field);
    }
    track(store, target, body)?;
    let causes = question::flaws(kind, body);
    if !causes.is_empty() {
        return Err(invalid(&target.kind.group, &causes));
    }
    let user = if kind == "SelfSubjectAccessReview" {
        target.call.user.clone()
    } else {
        Arc::new(user_of(body))
    };
    let decision = index::current(store).decide(&user, &asked(body));
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    let ignored = question::ignored(body);
    if !ignored.is_empty() {
        status["evaluationError"] = ignored.join("; ").into();
    }
    Ok(status)
}

fn user_of(body: &Body) -> User {
    let mut user = User::new(string(body, ".spec.user")).uid(string(body, ".spec.uid"));
    user.groups = strings(body, ".spec.groups");
    let extra = at_path(body, ".spec.extra").and_then(Value::as_object);
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        let items = items.filter_map(Value::as_str);
        items.map(str::to_owned).collect()
    };
    user.extra = extra
        .into_iter()
        .flatten()
        .map(|(key, values)| (key.clone(), texts(values)))
        .collect::<BTreeMap<_, _>>();
    user
}

/// Returns the attributes that a review asks about.
fn asked(body: &Body) -> Attributes {
    let resource = |field: &str| string(body, &format!(".spec.resourceAttributes.{field}"));
    let page = at_path(body, ".spec.nonResourceAttributes").filter(|found| found.is_object());
    if page.is_some() {
        return Attributes {
            verb: string(body, ".spec.nonResourceAttributes.verb"),
            page: Some(string(body, ".spec.nonResourceAttributes.path")),
            ..Attributes::default()
        };
    }
    Attributes {
        verb: resource("verb"),
        group: resource("group"),
        resource: resource("resource"),
        subresource: resource("subresource"),
        namespace: resource("namespace"),
        name: resource("name"),
        page: None,
    }
}

fn rules_review(store: &mut Store, target: &Target<'_>, body: &mut Body) -> Result<Value, Refusal> {
    let namespace = string(body, ".spec.namespace");
    if namespace.is_empty() {
        return Err(Refusal::bad_request("no namespace on request"));
    }
    let (rules, failures) = index::current(store).rules_for(&target.call.user, &namespace);
    let (mut resources, mut pages) = (Vec::new(), Vec::new());
    for rule in &rules {
        if !rule.resources.is_empty() {
            resources.push(rule.to_json());
        }
        if !rule.pages.is_empty() {
            pages.push(rule.to_json());
        }
    }
    body.insert("metadata".to_owned(), json!({}));
    body.insert("spec".to_owned(), json!({}));
    let mut status =
        json!({"resourceRules": resources, "nonResourceRules": pages, "incomplete": false});
    if let Some(failures) = failures {
        status["evaluationError"] = failures.into();
    }
    Ok(status)
}

/// Returns the target with which the body is read, if this is a review or a token request.
pub(crate) fn of<'a>(target: &Target<'a>) -> Option<Target<'a>> {
    if target.part == Part::Token {
        return Some(token_target(target));
    }
    target.kind.traits.review.then(|| target.clone())
}
