//! Proxy requests to Pods, Services and Nodes, none of which runs.
//!
//! Guarantees the real server's refusals for unreachable targets. Must not depend on the proxied request.

use serde_json::Value;

use super::Target;
use crate::object::at_path;
use crate::status::Refusal;
use crate::store::{Store, key};

/// Returns the refusal of a proxy request.
pub(super) fn refuse(store: &mut Store, target: &Target<'_>) -> Refusal {
    let named = Target {
        path: &bare(target),
        ..target.clone()
    };
    let found = match named.stored(store) {
        Ok(found) => found.body(),
        Err(refusal) => return refusal,
    };
    match target.kind.plural.as_str() {
        "services" => of_service(store, &named),
        "pods" => {
            let address = at_path(&found, ".status.podIP").and_then(Value::as_str);
            address.filter(|address| !address.is_empty()).map_or_else(
                || Refusal::bad_request("address not allowed"),
                |address| {
                    Refusal::unavailable(format!(
                        "error trying to reach service: nothing runs at {address}"
                    ))
                },
            )
        }
        _ => Refusal::unavailable("error trying to reach service: no node runs"),
    }
}

/// Returns the path of the object alone: in a proxy path, a scheme and a port may surround its name.
fn bare(target: &Target<'_>) -> crate::call::Path {
    let mut path = target.path.clone();
    let parts: Vec<&str> = target.name().split(':').collect();
    let name = match parts.as_slice() {
        [_, name, _] | [name, ..] => (*name).to_owned(),
        [] => String::new(),
    };
    path.name = Some(name);
    path
}

/// Returns the refusal for a Service without endpoints; if its Endpoints object is missing, the Service is reported as not found.
fn of_service(store: &Store, target: &Target<'_>) -> Refusal {
    let name = target.name();
    let key = key(target.namespace(), name);
    let endpoints = store
        .kinds
        .kind("", "v1", "endpoints")
        .and_then(|kind| store.get(kind.collection, &key));
    let Some(endpoints) = endpoints else {
        return Refusal::not_found(target.kind.subject(name));
    };
    let body = endpoints.body();
    let subsets = at_path(&body, ".subsets").and_then(Value::as_array);
    if subsets.is_none_or(Vec::is_empty) {
        return Refusal::unavailable(format!("no endpoints available for service {name:?}"));
    }
    Refusal::unavailable("error trying to reach service: nothing runs there")
}
