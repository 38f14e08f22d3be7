//! Decides which children and referred objects to watch.
//!
//! There is one watch for each kind that handlers own or have owned, of objects with the operator's label. There is another one for each kind
//! that handlers refer to. Must not know what follows from a change.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster::watch::Selection;
use crate::engine::follower::Follower::{Children, Targets};
use crate::handler::definition::Handler;
use crate::happening::serving::Purpose;
use crate::object::resource::Resource;
use crate::operator::observe::watch_set::Wanted;

/// Returns the watches of the kinds that handlers own or refer to, and the kinds that are not served. Children have this label.
pub(super) fn owned_kinds(
    handlers: &[Arc<Handler>],
    resources: &[Resource],
    label: &str,
) -> (Vec<Wanted>, BTreeSet<String>) {
    let handlers = handlers.iter();
    let owns = handlers.clone().flat_map(|handler| &handler.owns);
    let owns = owns.map(|it| (&it.selector, Children { is_read: it.is_read }, true));
    // A kind that is not served has no left-over children.
    let formerly = handlers.clone().flat_map(|it| &it.formerly_owns);
    let formerly = formerly.map(|it| (it, Children { is_read: false }, false));
    let watches = handlers.flat_map(|handler| {
        let kinds = handler.watches.iter();
        kinds.map(move |it| (&it.selector, Targets(vec![handler.clone()]), true))
    });
    let (mut wanted, mut missing) = (Vec::new(), BTreeSet::new());
    for (selector, follower, is_needed) in owns.chain(formerly).chain(watches) {
        let Some(resource) = selector.select_one(resources) else {
            missing.extend(is_needed.then(|| selector.to_string()));
            continue;
        };
        let mut selection = Selection::default();
        if matches!(follower, Children { .. }) {
            label.clone_into(&mut selection.labels);
        }
        wanted.push(Wanted {
            follower: Some(follower),
            purpose: Purpose::Handlers,
            resource: Arc::new(resource.clone()),
            selection,
        });
    }
    (wanted, missing)
}
