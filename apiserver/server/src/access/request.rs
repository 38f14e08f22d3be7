//! Token requests and token reviews.
//!
//! Guarantees kube-apiserver's messages for invalid requests. Must not depend on how tokens are created.

use std::sync::Arc;

use serde_json::{Value, json};

use super::review::{string, strings, track};
use super::token::{self, AUDIENCE, Grant};
use super::user::User;
use crate::kind::{Kind, Traits};
use crate::object::{Body, at_path, meta_text, metadata_mut, set_path, text};
use crate::status::{Cause, Refusal, Subject};
use crate::store::Store;
use crate::verb::Target;

/// The minimum lifetime of a token in seconds.
const SHORTEST: i64 = 600;
/// The maximum lifetime of a token in seconds.
const LONGEST: i64 = 1 << 32;

/// Returns the target that stands for a `TokenRequest` in the rules that apply to all kinds.
pub(super) fn token_target<'a>(target: &Target<'a>) -> Target<'a> {
    let kind = Kind {
        group: "authentication.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "TokenRequest".to_owned(),
        traits: Traits {
            builtin: true,
            review: true,
            ..Traits::default()
        },
        ..Kind::anonymous()
    };
    Target {
        kind: Arc::new(kind),
        ..target.clone()
    }
}

pub(super) fn token_review(
    store: &Store,
    target: &Target<'_>,
    body: &mut Body,
) -> Result<Value, Refusal> {
    let token = string(body, ".spec.token");
    if token.is_empty() {
        return Err(Refusal::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let mut wanted = strings(body, ".spec.audiences");
    if wanted.is_empty() {
        wanted.push(AUDIENCE.to_owned());
    }
    track(store, target, body)?;
    let accepted = |user: &User, audiences: Vec<String>| json!({"authenticated": true, "user": user.to_json(), "audiences": audiences});
    let refused = |why: String| json!({"user": {}, "error": why});
    if let Some(user) = store.access.tokens.find(&token) {
        if wanted.iter().any(|audience| audience == AUDIENCE) {
            return Ok(accepted(&user, vec![AUDIENCE.to_owned()]));
        }
        return Ok(refused(token::BadToken::Unknown.to_string()));
    }
    Ok(match token::read(store, &token, &wanted) {
        Ok(bearer) => accepted(&bearer.user, bearer.audiences),
        Err(why) => refused(why.to_string()),
    })
}

pub(super) fn token_request(
    store: &mut Store,
    target: &Target<'_>,
    body: &mut Body,
) -> Result<Value, Refusal> {
    let namespace = target.path.namespace.clone().unwrap_or_default();
    let name = target.path.name.clone().unwrap_or_default();
    let default = 3600;
    let seconds = at_path(body, ".spec.expirationSeconds").and_then(Value::as_i64);
    let seconds = seconds.unwrap_or(default);
    set_path(body, ".spec.expirationSeconds", seconds.into());
    crate::verb::place(&target.kind, Some(&namespace), body)?;
    track(store, target, body)?;
    let given = meta_text(body, "name");
    if !given.is_empty() && given != name {
        let why = "must match the service account name if specified";
        let cause = Cause::invalid("metadata.name", &given.into(), why);
        return Err(Refusal::invalid(
            target.kind.subject_by_kind(&name),
            &[cause],
        ));
    }
    let core = |word| Subject {
        group: "",
        word,
        name: &name,
    };
    let account = token::found(store, "serviceaccounts", Some(&namespace), &name)
        .ok_or_else(|| Refusal::not_found(core("serviceaccounts")))?;
    check_seconds(target, seconds)?;
    let mut audiences = strings(body, ".spec.audiences");
    if audiences.is_empty() {
        audiences.push(AUDIENCE.to_owned());
    }
    let bound = bonds(store, &namespace, &name, body)?;
    let grant = Grant {
        namespace: &namespace,
        account: &account,
        audiences: &audiences,
        seconds,
        bound,
    };
    let token = token::issue(store, grant).map_err(|why| Refusal::internal(why.to_string()))?;
    set_path(body, ".spec.audiences", json!(audiences));
    let stamp = store.clock.stamp();
    let meta = metadata_mut(body);
    meta.insert("name".to_owned(), name.into());
    meta.insert("uid".to_owned(), meta_text(&account, "uid").into());
    meta.insert("creationTimestamp".to_owned(), stamp.into());
    let end = jiff::SignedDuration::from_secs(seconds);
    let end = store.clock.now().saturating_add(end);
    let end = end.unwrap_or(jiff::Timestamp::MAX);
    Ok(json!({"token": token, "expirationTimestamp": crate::clock::stamp(end)}))
}

fn check_seconds(target: &Target<'_>, seconds: i64) -> Result<(), Refusal> {
    let why = match seconds {
        ..SHORTEST => "may not specify a duration less than 10 minutes",
        found if found > LONGEST => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    let cause = Cause::invalid("spec.expirationSeconds", &seconds.into(), why);
    Err(Refusal::invalid(target.kind.subject_by_kind(""), &[cause]))
}

/// Returns the claims about the object to which a token is bound; refuses a reference that does not match an existing object.
fn bonds(
    store: &Store,
    namespace: &str,
    account: &str,
    body: &Body,
) -> Result<Vec<(&'static str, Value)>, Refusal> {
    let Some(wanted) = at_path(body, ".spec.boundObjectRef").and_then(Value::as_object) else {
        return Ok(Vec::new());
    };
    let (version, kind) = (text(wanted, "apiVersion"), text(wanted, "kind"));
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let (word, plural) = match (group, kind) {
        ("", "Pod") => ("pod", "pods"),
        ("", "Secret") => ("secret", "secrets"),
        ("", "Node") => ("node", "nodes"),
        _ => {
            let slash = if group.is_empty() { "/" } else { "" };
            return Err(Refusal::bad_request(format!(
                "cannot bind token to object of type {slash}{version}, Kind={kind}"
            )));
        }
    };
    let name = text(wanted, "name");
    if name.is_empty() {
        return Err(Refusal::bad_request("Name parameter required."));
    }
    let subject = |word| Subject {
        group: "",
        word,
        name,
    };
    let namespace = Some(namespace).filter(|_| word != "node");
    let object = token::found(store, plural, namespace, name)
        .ok_or_else(|| Refusal::not_found(subject(plural)))?;
    if word == "pod" && string(&object, ".spec.serviceAccountName") != account {
        return Err(Refusal::bad_request(format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        )));
    }
    let uid = text(wanted, "uid");
    if !uid.is_empty() && uid != meta_text(&object, "uid") {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Refusal::conflict(subject(kind), &why));
    }
    if word == "pod" {
        return Ok(token::pod_bonds(&object));
    }
    Ok(vec![(word, token::bond(&object))])
}
