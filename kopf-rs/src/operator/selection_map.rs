//! Selectors for resources, as settings have them: [`SelectorMap`].
//!
//! Must not know what they are sent for.

use crate::engine::invoke::guarded;
use crate::handler::registry::selectors::IntoSelector;
use crate::object::resource::Resource;
use crate::object::selector::{Selector, SelectorError};

/// Selectors that are sent with the lists and watches of resources: [`Watching::label_selectors`](crate::Watching::label_selectors) and its siblings.
///
/// ```
/// use kopf_rs::Settings;
///
/// let settings = Settings::with(|settings| {
///     settings.watching.label_selectors.insert("pods", "app=web,tier in (a, b)");
///     settings.watching.field_selectors.insert(("apps", "deployments"), "metadata.namespace!=kube-system");
/// });
/// # assert!(!settings.watching.label_selectors.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct SelectorMap(Vec<Entry>);

#[derive(Clone, Debug)]
struct Entry {
    resources: Result<Selector, SelectorError>,
    selector: String,
}

impl SelectorMap {
    /// Select objects of these resources, named as in handlers. It takes the place of what was said of the same words before; of several
    /// entries for one resource, an object must satisfy all.
    ///
    /// What cannot be understood is told when the operator starts.
    pub fn insert(&mut self, resources: impl IntoSelector, selector: impl Into<String>) {
        let resources = resources.into_selector();
        if resources.is_ok() {
            self.0.retain(|known| known.resources != resources);
        }
        self.0.push(Entry {
            resources,
            selector: selector.into(),
        });
    }

    /// Whether nothing is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is said of a resource. The error is what a function of the user has panicked with.
    pub(super) fn of(&self, resource: &Resource) -> Result<Vec<&str>, String> {
        let mut found = Vec::new();
        for Entry {
            resources,
            selector,
        } in &self.0
        {
            if let Ok(resources) = resources
                && guarded(|| resources.means(resource))?
            {
                found.push(selector.as_str());
            }
        }
        Ok(found)
    }

    /// What is wrong with them, as `check` says of each selector.
    pub(super) fn check(&self, check: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
        for Entry {
            resources,
            selector,
        } in &self.0
        {
            let wrong = match resources {
                Err(error) => format!("for {selector:?}: {error}"),
                Ok(resources) => match check(selector) {
                    Err(why) => {
                        format!("for {resources}: {selector:?} cannot be understood: {why}")
                    }
                    Ok(()) => continue,
                },
            };
            return Err(wrong);
        }
        Ok(())
    }
}
