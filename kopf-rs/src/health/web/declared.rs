//! The declared handlers, with the kinds that they handle, own and refer to.
//!
//! Must not know how they are shown.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::handler::definition::Handler;
use crate::health::responder::Responder;
use crate::object::resource::Resource;
use crate::object::selector::Selector;

/// Returns the handlers in the order of their declaration. Kinds that are watched have the names of their resources.
pub(super) fn handlers(handlers: &[Arc<Handler>], responder: &Responder) -> Value {
    let facts = responder.facts(tokio::time::Instant::now());
    let watched: Vec<&Resource> = facts.watches.iter().map(|watch| &*watch.collection.resource).collect();
    handlers.iter().map(|handler| declared(handler, &watched)).collect()
}

pub(super) fn declared(handler: &Handler, watched: &[&Resource]) -> Value {
    let of = |selectors: &mut dyn Iterator<Item = &Selector>| {
        let mut names: Vec<String> = selectors.flat_map(|it| names(it, watched)).collect();
        names.sort();
        names.dedup();
        names
    };
    json!({
        "handler": handler.id,
        "attribute": handler.kind.attribute(),
        "kinds": of(&mut handler.selector.iter()),
        "field": handler.field.as_ref().map(ToString::to_string),
        "owns": of(&mut handler.owns.iter().map(|owned| &owned.selector)),
        "watches": of(&mut handler.watches.iter().map(|target| &target.selector)),
        "declaredAt": handler.declared_at.to_string(),
    })
}

/// Returns the names of the watched resources that a selector means, or the selector itself if there are none.
fn names(selector: &Selector, watched: &[&Resource]) -> Vec<String> {
    // A function of the user may panic, and the kinds that it selects are watched in any case.
    let meant = watched.iter().filter(|it| !selector.is_function() && selector.names(it));
    let meant: Vec<String> = meant.map(|it| it.group_resource()).collect();
    if meant.is_empty() { vec![selector.to_string()] } else { meant }
}
