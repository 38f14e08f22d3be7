//! Decides which discovered resources are served, in which version, and by which handlers.
//!
//! Pure: takes resources and handlers, returns resources with their handlers, and the rest. Guarantees at most one version per resource, and
//! only one of the two groups of Events: an object has the same uid in all versions, so two watches of it would act like two operators on
//! one object.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::invoke::guarded;
use crate::handler::definition::Handler;
use crate::happening::serving::Serving;
use crate::object::resource::Resource;
use crate::object::selector::Selector;

/// The resources to serve, and those that cannot be served.
#[derive(Debug, Default)]
pub(crate) struct Matched {
    pub(crate) resources: Vec<ServedResource>,
    pub(crate) unserved: Vec<Serving>,
    /// Some handlers are at present for resources that do not exist or are ambiguous.
    pub(crate) is_unresolved: bool,
}

/// A resource in the version that is served, and its handlers.
#[derive(Debug)]
pub(crate) struct ServedResource {
    pub(crate) resource: Resource,
    pub(crate) handlers: Vec<Arc<Handler>>,
    /// Deletion handlers that apply to its objects but are not served at present, and may be served again: they are ambiguous, or for
    /// another version that exists or about which nothing is known.
    pub(crate) withheld: Vec<Arc<Handler>>,
}

impl Matched {
    /// Adds kinds that handlers own and that are not served either.
    pub(crate) fn unresolved_too(&mut self, kinds: &BTreeSet<String>) {
        if !kinds.is_empty() {
            let selectors = kinds.iter().cloned().collect();
            self.unserved.push(Serving::Unresolved { selectors });
            self.is_unresolved = true;
        }
    }

    /// Removes the resources for which `choose` fails because a function in the settings has panicked. That function may exist to keep
    /// objects away from this operator.
    pub(crate) fn drop_unselected<T>(&mut self, choose: impl Fn(&ServedResource) -> Result<T, String>) {
        let unserved = &mut self.unserved;
        self.resources.retain(|served| {
            let Err(panic) = choose(served) else {
                return true;
            };
            let resource = Box::new(served.resource.clone());
            unserved.push(Serving::SelectionPanicked { resource, panic });
            false
        });
    }
}

/// A resource that a handler applies to, in the version that it takes.
struct Demand<'a> {
    handler: &'a Arc<Handler>,
    resource: &'a Resource,
    version: VersionDemand,
}

/// The version of a resource that a handler takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VersionDemand {
    /// The version that the handler names.
    Named,
    /// The preferred version, since the handler names none.
    Preferred,
    /// Any version, since the handler is for many resources and names no version: the preferred one unless other handlers take another.
    Any,
    /// One of the versions that the handler's function accepts.
    Accepted,
}

/// Matches handlers with resources. The contents of the versions `unknown` (`group/version`) are not known.
pub(crate) fn match_handlers(
    handlers: &[Arc<Handler>],
    resources: &[Resource],
    unknown: &BTreeSet<String>,
) -> Matched {
    let mut matched = Matched::default();
    let mut demands = Vec::new();
    let mut unresolved = BTreeSet::new();
    for handler in handlers {
        let Some(selector) = handler.selector() else {
            continue;
        };
        let found = if selector.is_function() {
            matched.accepted(handler, selector, resources)
        } else {
            selector.select(resources)
        };
        if found.is_empty() {
            unresolved.insert(selector.to_string());
        } else if found.len() > 1 && selector.is_specific() {
            matched.ambiguous(selector, &found);
        } else {
            // A handler for all resources leaves out those that cannot be served.
            let fits = |it: &&Resource| selector.is_specific() || is_fit(it, handler);
            let version = VersionDemand::of(selector);
            demands.extend(found.into_iter().filter(fits).map(|resource| Demand {
                handler,
                resource,
                version,
            }));
        }
    }
    if !unresolved.is_empty() {
        let selectors = unresolved.into_iter().collect();
        matched.unserved.push(Serving::Unresolved { selectors });
    }
    matched.is_unresolved = !matched.unserved.is_empty();
    matched.serve(&demands, resources);
    matched.drop_unfit();
    matched.withhold(handlers, resources, unknown);
    matched
}

impl Matched {
    /// Returns the resources that a function of the user selects: none of those for which it panics.
    fn accepted<'a>(
        &mut self,
        handler: &Handler,
        selector: &Selector,
        resources: &'a [Resource],
    ) -> Vec<&'a Resource> {
        let mut first_panic = None;
        let accepted = resources.iter().filter(|resource| {
            let accepts = guarded(|| selector.matches(resource));
            accepts.unwrap_or_else(|panic| {
                first_panic.get_or_insert((*resource, panic));
                false
            })
        });
        let accepted = accepted.collect();
        if let Some((resource, panic)) = first_panic {
            self.unserved.push(Serving::SelectorPanicked {
                handler: handler.id.clone(),
                resource: Box::new(resource.clone()),
                panic,
            });
        }
        accepted
    }

    fn ambiguous(&mut self, selector: &Selector, found: &[&Resource]) {
        let selector = selector.to_string();
        let is_known = self
            .unserved
            .iter()
            .any(|it| matches!(it, Serving::Ambiguous { selector: known, .. } if *known == selector));
        if !is_known {
            let resources = found.iter().map(|&it| it.clone()).collect();
            self.unserved.push(Serving::Ambiguous { selector, resources });
        }
    }

    /// Chooses a version of each resource, and assigns the handlers.
    fn serve(&mut self, demands: &[Demand<'_>], resources: &[Resource]) {
        for demand in demands {
            let Some(chosen) = chosen_version(demand.resource, demands, resources) else {
                continue;
            };
            let accepts = || {
                let selector = demand.handler.selector();
                selector.is_some_and(|it| guarded(|| it.matches(chosen)) == Ok(true))
            };
            if demand.version == VersionDemand::Any || demand.resource == chosen {
                self.add(chosen, demand.handler);
            } else if demand.version == VersionDemand::Accepted && accepts() {
                // The same handler accepts the served version, too, by another demand.
            } else {
                self.not_in_this_version(demand, chosen);
            }
        }
    }

    fn add(&mut self, resource: &Resource, handler: &Arc<Handler>) {
        let known = self.resources.iter_mut();
        match known.into_iter().find(|it| it.resource == *resource) {
            Some(known) if known.handlers.last().is_some_and(|it| Arc::ptr_eq(it, handler)) => {}
            Some(known) => known.handlers.push(handler.clone()),
            None => self.resources.push(ServedResource {
                resource: resource.clone(),
                handlers: vec![handler.clone()],
                withheld: Vec::new(),
            }),
        }
    }

    /// Records deletion handlers that may have put finalizers on objects while they were served, or will do so.
    ///
    /// A handler that names another version than the served one holds nothing if a deletion handler is called in the served version, because
    /// the operator then cleans up there. It holds nothing either if the server no longer serves its version, because it would never be
    /// called.
    fn withhold(&mut self, handlers: &[Arc<Handler>], resources: &[Resource], unknown: &BTreeSet<String>) {
        for handler in handlers.iter().filter(|it| it.needs_finalizer()) {
            let Some(selector) = handler.selector().filter(|it| it.is_specific()) else {
                continue;
            };
            let found = selector.select(resources);
            for served in &mut self.resources {
                let may_be_served = if found.is_empty() {
                    is_version_unknown(selector, &served.resource, unknown)
                } else {
                    found.iter().any(|it| is_same(it, &served.resource))
                };
                let mut those = served.handlers.iter();
                let is_served = those.any(|it| Arc::ptr_eq(it, handler));
                let is_other_version = !selector.matches(&served.resource);
                let is_cleaned_up = is_other_version && served.handlers.iter().any(|it| it.needs_finalizer());
                if may_be_served && !is_served && !is_cleaned_up {
                    served.withheld.push(handler.clone());
                }
            }
        }
    }

    fn not_in_this_version(&mut self, demand: &Demand<'_>, chosen: &Resource) {
        let id = demand.handler.id.clone();
        for known in &mut self.unserved {
            if let Serving::OtherVersion { handlers, resource, .. } = known
                && **resource == *demand.resource
            {
                handlers.push(id);
                return;
            }
        }
        self.unserved.push(Serving::OtherVersion {
            handlers: vec![id],
            resource: Box::new(demand.resource.clone()),
            served: Box::new(chosen.clone()),
        });
    }

    fn drop_unfit(&mut self) {
        let resources = self.drop_if(|served| is_unwatchable(&served.resource));
        if !resources.is_empty() {
            self.unserved.push(Serving::Unwatchable { resources });
        }
        let resources = self.drop_if(|served| {
            let mut handlers = served.handlers.iter();
            handlers.any(|handler| is_unpatchable(&served.resource, handler))
        });
        if !resources.is_empty() {
            self.unserved.push(Serving::Unpatchable { resources });
        }
    }

    fn drop_if(&mut self, unfit: impl Fn(&ServedResource) -> bool) -> Vec<Resource> {
        let dropped = self.resources.extract_if(.., |served| unfit(served));
        dropped.map(|served| served.resource).collect()
    }
}

impl VersionDemand {
    fn of(selector: &Selector) -> Self {
        match &selector.version {
            Some(_) => Self::Named,
            None if selector.is_function() => Self::Accepted,
            None if selector.is_specific() => Self::Preferred,
            None => Self::Any,
        }
    }
}

/// Returns the version in which a resource is served: the preferred one if a handler takes it, else the highest that handlers name, else,
/// for handlers that take any, the preferred one.
fn chosen_version<'a>(
    resource: &Resource,
    demands: &[Demand<'a>],
    resources: &'a [Resource],
) -> Option<&'a Resource> {
    // Prefers the core group of Events to the other one.
    let rank = |it: &&'a Resource| {
        let is_core = it.group.is_empty();
        (it.preferred, is_core, priority(&it.version))
    };
    let of_this = demands.iter();
    let of_this = of_this.filter(|demand| is_same(demand.resource, resource));
    let by = |versions: &[VersionDemand]| {
        let demands = of_this.clone().filter(|it| versions.contains(&it.version));
        demands.map(|demand| demand.resource).max_by_key(rank)
    };
    let wanted = by(&[VersionDemand::Named, VersionDemand::Preferred]);
    let wanted = wanted.or_else(|| by(&[VersionDemand::Accepted]));
    let any = || {
        let versions = resources.iter().filter(|it| is_same(it, resource));
        versions.max_by_key(rank)
    };
    wanted.or_else(any)
}

/// Returns whether the selector names a version of the resource whose contents are unknown. A failed discovery does not prove that the
/// resource is gone.
fn is_version_unknown(selector: &Selector, resource: &Resource, unknown: &BTreeSet<String>) -> bool {
    let Some(version) = &selector.version else {
        return false;
    };
    let named = Resource { version: version.clone(), ..resource.clone() };
    selector.matches(&named) && unknown.contains(&named.api_version())
}

/// Returns whether two resources contain the same objects.
fn is_same(one: &Resource, other: &Resource) -> bool {
    one.identity() == other.identity()
}

/// Returns the rank of a version in Kubernetes' order: stable, beta, alpha, each by number; then all others by name.
fn priority(version: &str) -> (u8, u32, u32, Reverse<&str>) {
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten()
    };
    let parsed = || {
        let rest = version.strip_prefix('v')?;
        if let Some(major) = number(rest) {
            return Some((3, major, 0));
        }
        let stages = [("beta", 2), ("alpha", 1)];
        stages.iter().find_map(|(stage, rank)| {
            let (major, minor) = rest.split_once(stage)?;
            Some((*rank, number(major)?, number(minor)?))
        })
    };
    let (rank, major, minor) = parsed().unwrap_or_default();
    (rank, major, minor, Reverse(version))
}

fn is_fit(resource: &Resource, handler: &Handler) -> bool {
    !is_unwatchable(resource) && !is_unpatchable(resource, handler)
}

fn is_unwatchable(resource: &Resource) -> bool {
    lacks(resource, "list") || lacks(resource, "watch")
}

/// Returns whether the handler's progress cannot be stored on such objects.
fn is_unpatchable(resource: &Resource, handler: &Handler) -> bool {
    let writes = handler.is_for_changes() || handler.is_background();
    lacks(resource, "patch") && !is_being_deleted(resource) && writes
}

/// Returns whether the definition of the resource is being deleted. Discovery then lists no writing verbs, although only creations are
/// refused: objects with finalizers must be released by a PATCH.
fn is_being_deleted(resource: &Resource) -> bool {
    let writes = ["create", "update", "patch"];
    !lacks(resource, "deletecollection") && writes.iter().all(|verb| lacks(resource, verb))
}

fn lacks(resource: &Resource, verb: &str) -> bool {
    !resource.verbs.iter().any(|known| known == verb)
}

#[cfg(test)]
mod tests;
