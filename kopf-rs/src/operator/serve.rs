//! Which of the discovered resources are served, and by which handlers.
//!
//! Pure: resources and handlers in, kinds and warnings out.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::handler::decl::Handler;
use crate::object::resource::Resource;
use crate::object::selector::Selector;

/// What is to be served, and what is not, in words.
#[derive(Debug, Default)]
pub(crate) struct Served {
    pub(crate) kinds: Vec<(Resource, Vec<Arc<Handler>>)>,
    pub(crate) warnings: Vec<String>,
    /// Whether some handler is for nothing, as things are now.
    pub(crate) unresolved: bool,
}

/// Match handlers with resources.
pub(crate) fn serve(handlers: &[Arc<Handler>], resources: &[Resource]) -> Served {
    let mut served = Served::default();
    let mut missing = BTreeSet::new();
    for handler in handlers {
        let Some(selector) = handler.selector() else {
            continue;
        };
        let found = selector.select(resources);
        if found.is_empty() {
            missing.insert(selector.to_string());
        } else if found.len() > 1 && selector.is_specific() {
            served.ambiguous(selector, &found);
        } else {
            // Who asks for whatever there is, does not ask for what cannot be served.
            let fits = |it: &&Resource| selector.is_specific() || is_fit(it, handler);
            for resource in found.into_iter().filter(fits) {
                served.add(resource, handler);
            }
        }
    }
    if !missing.is_empty() {
        let missing = missing.into_iter().collect::<Vec<_>>().join(", ");
        served.warnings.push(format!(
            "Unresolved resources cannot be served (try creating their CRDs): {missing}"
        ));
    }
    served.unresolved = !served.warnings.is_empty();
    served.drop_unfit();
    served
}

impl Served {
    fn add(&mut self, resource: &Resource, handler: &Arc<Handler>) {
        match self.kinds.iter_mut().find(|(known, _)| known == resource) {
            Some((_, handlers)) => handlers.push(handler.clone()),
            None => self.kinds.push((resource.clone(), vec![handler.clone()])),
        }
    }

    fn ambiguous(&mut self, selector: &Selector, found: &[&Resource]) {
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        let warning = format!(
            "Ambiguous resources will not be served (try specifying API groups): {} => {}",
            selector,
            found.join(", ")
        );
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn drop_unfit(&mut self) {
        let is_deaf = |(resource, _): &(Resource, Vec<Arc<Handler>>)| is_deaf(resource);
        let is_rigid = |(resource, handlers): &(Resource, Vec<Arc<Handler>>)| {
            handlers.iter().any(|handler| is_rigid(resource, handler))
        };
        let warnings = [
            self.drop_if("Non-watchable", is_deaf),
            self.drop_if("Non-patchable", is_rigid),
        ];
        self.warnings.extend(warnings.into_iter().flatten());
    }

    fn drop_if(
        &mut self,
        what: &str,
        unfit: impl Fn(&(Resource, Vec<Arc<Handler>>)) -> bool,
    ) -> Option<String> {
        let dropped: Vec<_> = self.kinds.extract_if(.., |kind| unfit(kind)).collect();
        let names: Vec<_> = dropped.iter().map(|(r, _)| r.to_string()).collect();
        (!names.is_empty())
            .then(|| format!("{what} resources will not be served: {}", names.join(", ")))
    }
}

fn is_fit(resource: &Resource, handler: &Handler) -> bool {
    !is_deaf(resource) && !is_rigid(resource, handler)
}

/// It cannot be watched.
fn is_deaf(resource: &Resource) -> bool {
    lacks(resource, "list") || lacks(resource, "watch")
}

/// The handler's progress cannot be kept on it.
fn is_rigid(resource: &Resource, handler: &Handler) -> bool {
    lacks(resource, "patch") && handler.persists_progress()
}

fn lacks(resource: &Resource, verb: &str) -> bool {
    !resource.verbs.iter().any(|known| known == verb)
}
