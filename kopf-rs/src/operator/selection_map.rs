//! Selectors for resources in settings: [`SelectorMap`].
//!
//! Must not know the purpose of the selectors.

use crate::engine::invoke::guarded;
use crate::handler::registry::selectors::IntoSelector;
use crate::object::resource::Resource;
use crate::object::selector::{Selector, SelectorError};

/// Selectors that are sent with the lists and watches of resources: [`Watching::label_selectors`](crate::Watching::label_selectors) and
/// related settings.
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
    /// Selects objects of these resources, which are named as in handlers. Replaces an earlier entry with the same name. If several entries
    /// apply to one resource, an object must satisfy all.
    ///
    /// Invalid selectors are reported when the operator starts.
    pub fn insert(&mut self, resources: impl IntoSelector, selector: impl Into<String>) {
        let resources = resources.into_selector();
        if resources.is_ok() {
            self.0.retain(|known| known.resources != resources);
        }
        self.0.push(Entry { resources, selector: selector.into() });
    }

    /// Returns true if there are no selectors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the selectors for a resource. The error is the panic message of a user's function.
    pub(super) fn of(&self, resource: &Resource) -> Result<Vec<&str>, String> {
        let mut found = Vec::new();
        for Entry { resources, selector } in &self.0 {
            if let Ok(resources) = resources
                && guarded(|| resources.means(resource))?
            {
                found.push(selector.as_str());
            }
        }
        Ok(found)
    }

    /// Checks all selectors with the function `check`.
    pub(super) fn check(&self, check: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
        for Entry { resources, selector } in &self.0 {
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
