//! `list`: returns a collection, whole or in pages, at the newest or at an older revision.
//!
//! Guarantees that all pages of a list show the same revision. Must not change anything.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{Answer, Target};
use crate::call::{Call, Form, go};
use crate::convert;
use crate::object::Stored;
use crate::render::{self, ListMeta};
use crate::selector::Selector;
use crate::status::{Cause, Refusal, options};
use crate::store::Store;

/// The API version in continue tokens.
const VERSION: &str = "meta.k8s.io/v1";

/// A decoded continue token: the key where the next page begins, and its revision.
#[derive(Debug)]
struct Continue {
    /// `None` means the newest revision.
    revision: Option<u64>,
    start: String,
}

/// The objects of a page, and the metadata of the list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) items: Vec<Arc<Stored>>,
    pub(super) meta: ListMeta,
}

pub(crate) fn list(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let page = page(store, target)?;
    let mut answer = rendered(store, target, &page);
    answer.revision = Some(page.meta.revision);
    Ok(answer)
}

/// Renders a page in the requested form.
pub(super) fn rendered(store: &Store, target: &Target<'_>, page: &Page) -> Answer {
    if let Some(refusal) = target.misfit(true) {
        return Answer::json(refusal.code, &refusal.body());
    }
    let items: Vec<&Stored> = page.items.iter().map(AsRef::as_ref).collect();
    let bytes = match target.form {
        Form::Table(look) => crate::table::many(store, &target.kind, &items, &page.meta, look),
        form => render::list(&target.kind, items.into_iter(), &page.meta, form),
    };
    Answer::bytes(200, bytes)
}

/// Returns the objects that the path, the selectors and the limit of a request select.
pub(super) fn page(store: &mut Store, target: &Target<'_>) -> Result<Page, Refusal> {
    let call = target.call;
    check_numbers(call)?;
    check_options(target)?;
    let selector = Selector::parse(
        &target.kind,
        call.param("labelSelector"),
        call.param("fieldSelector"),
    )?;
    let limit = match limit(call.param("limit"))? {
        // The real server answers resource version 0 from its watch cache, which ignores the limit.
        _ if call.param("resourceVersion") == "0" && call.param("continue").is_empty() => {
            usize::MAX
        }
        limit => limit,
    };
    let from = match call.param("continue") {
        "" => None,
        token => {
            let from = parse_continue(token)?;
            if !matches!(call.param("resourceVersion"), "" | "0") {
                return Err(Refusal::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            Some(from)
        }
    };
    let paged = limit < usize::MAX;
    let revision = revision(store, target, from.as_ref(), paged)?;
    let objects = snapshot(store, target, revision);
    let start = from.map(|found| found.start).unwrap_or_default();
    let objects = in_version(store, target, objects, &start)?;
    let mut matching = objects
        .iter()
        .filter(|(key, stored)| **key >= start && selector.matches(stored));
    let page: Vec<(&String, &Arc<Stored>)> = matching.by_ref().take(limit).collect();
    let remaining = matching.count();
    // The real server counts before it filters by selector, so the next page may be empty.
    let named = target.path.namespace.is_some() || !target.kind.namespaced;
    let full = page.len() == limit && !(named && selector.is_of_one());
    let more = |last: &str| objects.range::<str, _>((Bound::Excluded(last), Bound::Unbounded));
    let meta = ListMeta {
        revision,
        next: page
            .last()
            .filter(|(key, _)| full && more(key).next().is_some())
            .map(|(key, _)| token(revision, key)),
        remaining: (remaining > 0 && is_unselected(target)).then_some(remaining),
    };
    let items = page.iter().map(|(_, stored)| Arc::clone(stored)).collect();
    Ok(Page { items, meta })
}

/// Returns whether the list has no selectors; only then does it report the number of remaining items.
fn is_unselected(target: &Target<'_>) -> bool {
    target.call.param("labelSelector").is_empty() && target.call.param("fieldSelector").is_empty()
}

/// Refuses parameters that are not numbers.
pub(super) fn check_numbers(call: &Call) -> Result<(), Refusal> {
    for name in ["limit", "timeoutSeconds"] {
        let text = call.param(name);
        if !text.is_empty() && text.parse::<i64>().is_err() {
            return Err(bad_number(text));
        }
    }
    Ok(())
}

fn limit(text: &str) -> Result<usize, Refusal> {
    if text.is_empty() {
        return Ok(usize::MAX);
    }
    let limit: i64 = text.parse().map_err(|_| bad_number(text))?;
    // A limit of zero or less means no limit.
    Ok(usize::try_from(limit)
        .ok()
        .filter(|limit| *limit > 0)
        .unwrap_or(usize::MAX))
}

/// Returns the refusal of a query parameter that is not a number.
pub(crate) fn bad_number(text: &str) -> Refusal {
    let digits = text.trim_start_matches(['+', '-']);
    let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let why = if number {
        "value out of range"
    } else {
        "invalid syntax"
    };
    Refusal::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
}

/// Parses a resource version parameter; an empty text is `None`. The error is the message of the real server.
pub(crate) fn parse_revision(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
    })
}

/// Refuses invalid combinations of parameters.
fn check_options(target: &Target<'_>) -> Result<(), Refusal> {
    let call = target.call;
    let (matching, revision) = (
        call.param("resourceVersionMatch"),
        call.param("resourceVersion"),
    );
    let forbidden = |message: &str| Cause::forbidden("resourceVersionMatch", message);
    let mut causes = Vec::new();
    if !call.param("sendInitialEvents").is_empty() {
        causes.push(Cause::forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        ));
    }
    if !matching.is_empty() {
        if revision.is_empty() {
            causes.push(forbidden(
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !call.param("continue").is_empty() {
            causes.push(forbidden(
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            let message = format!(
                "Unsupported value: {matching:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""
            );
            causes.push(Cause::new(
                "FieldValueNotSupported",
                "resourceVersionMatch",
                message,
            ));
        }
        if matching == "Exact" && revision == "0" {
            causes.push(forbidden(
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Refusal::invalid(options("ListOptions"), &causes))
}

/// Returns the revision that this list shows.
fn revision(
    store: &Store,
    target: &Target<'_>,
    from: Option<&Continue>,
    paged: bool,
) -> Result<u64, Refusal> {
    let oldest = store.oldest(target.kind.collection);
    if let Some(from) = from {
        let newest = store.revision();
        let Some(revision) = from.revision else {
            return Ok(newest);
        };
        if revision > newest {
            return Err(Refusal::too_new(revision, newest));
        }
        if revision < oldest {
            return Err(Refusal::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
            ));
        }
        return Ok(revision);
    }
    let asked = parse_revision(target.call.param("resourceVersion"))
        .map_err(|why| Refusal::bad_request(format!("invalid resource version: {why}")))?;
    let Some(asked) = asked else {
        return Ok(store.revision());
    };
    if asked > store.revision() {
        return Err(Refusal::too_new(asked, store.revision()));
    }
    let exact = match target.call.param("resourceVersionMatch") {
        "Exact" => true,
        // The pages of a list at a given version show exactly that version.
        "" => paged,
        _ => false,
    };
    if exact && asked > 0 {
        if asked < oldest {
            return Err(Refusal::expired(
                "The resourceVersion for the provided list is too old.",
            ));
        }
        return Ok(asked);
    }
    Ok(store.revision())
}

/// Returns the objects that the path covers, as of a revision.
fn snapshot(store: &Store, target: &Target<'_>, revision: u64) -> BTreeMap<String, Arc<Stored>> {
    let prefix = target.prefix();
    let Some(collection) = store.collection(target.kind.collection) else {
        return BTreeMap::new();
    };
    if revision < store.revision() {
        let mut objects = collection.at(revision);
        objects.retain(|key, _| key.starts_with(&prefix));
        return objects;
    }
    collection
        .entries_under(&prefix)
        .map(|(key, stored)| (key.clone(), stored.clone()))
        .collect()
}

/// Returns the objects from the key `start` on, converted to the version of the request.
fn in_version(
    store: &mut Store,
    target: &Target<'_>,
    mut objects: BTreeMap<String, Arc<Stored>>,
    start: &str,
) -> Result<BTreeMap<String, Arc<Stored>>, Refusal> {
    if target.kind.traits.builtin || (target.kind.conversion.is_none() && target.kind.is_native()) {
        return Ok(objects);
    }
    let objects = objects.split_off(start);
    let views = convert::views(store, &target.kind, objects.values())?;
    Ok(objects.into_keys().zip(views).collect())
}

fn token(revision: u64, last: &str) -> String {
    let token = json!({"v": VERSION, "rv": revision, "start": format!("{last}\0")});
    URL_SAFE_NO_PAD.encode(token.to_string())
}

fn parse_continue(token: &str) -> Result<Continue, Refusal> {
    let bad = |why: &str| {
        Refusal::bad_request(format!(
            "invalid continue token: continue key is not valid: {why}"
        ))
    };
    let text = URL_SAFE_NO_PAD.decode(token).map_err(|_| {
        let at = corrupt_at(token);
        bad(&format!("illegal base64 data at input byte {at}"))
    })?;
    let token: Value = go::parse(&text).map_err(|why| bad(&why))?;
    let version = token["v"].as_str().unwrap_or_default();
    if version != VERSION {
        return Err(bad(&format!(
            "server does not recognize this encoded version {version}"
        )));
    }
    let revision = token["rv"].as_i64().unwrap_or_default();
    if revision == 0 {
        return Err(bad(&format!(
            "incorrect encoded start resourceVersion (version {version})"
        )));
    }
    let start = token["start"].as_str().unwrap_or_default();
    if start.is_empty() {
        return Err(bad(&format!("encoded start key empty (version {version})")));
    }
    let plain = start.strip_prefix('/').unwrap_or(start);
    if plain.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(bad(start));
    }
    Ok(Continue {
        revision: u64::try_from(revision).ok(),
        start: start.to_owned(),
    })
}

/// Returns the position where a text stops being base64.
fn corrupt_at(token: &str) -> usize {
    let foreign = |byte: u8| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    token
        .bytes()
        .position(foreign)
        .unwrap_or_else(|| token.len().saturating_sub(1))
}
