//! The conversions of a registry.

use std::sync::Arc;

use crate::handler::conversion::{Conversion, ConversionFunction};
use crate::handler::registry::Registry;
use crate::handler::registry::problem::{ON_CONVERT, declaration};
use crate::handler::registry::selectors::IntoSelector;

impl Registry {
    /// Adds a function that converts objects between two versions of a resource, in place of an annotated function.
    /// Name both with group, version and plural.
    #[must_use]
    pub fn on_convert(
        mut self,
        from: impl IntoSelector,
        to: impl IntoSelector,
        conversion: Conversion,
    ) -> Self {
        let selectors = from.into_selector().and_then(|from| Ok((from, to.into_selector()?)));
        let selectors = selectors.map_err(|error| error.to_string());
        let (name, declared_at) = (conversion.name.clone(), conversion.declared_at);
        match selectors.and_then(|(from, to)| conversion.between(&from, &to)) {
            Ok(function) => self.conversions.push(Arc::new(function)),
            Err(message) => {
                self.problems.push(declaration(ON_CONVERT, &name, declared_at, &message));
            }
        }
        self
    }

    pub(crate) fn conversions(&self) -> &[Arc<ConversionFunction>] {
        &self.conversions
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::handler::conversion::conversion;
    use crate::object::selector::Selector;

    #[test]
    fn a_part_is_converted_by_one_function() {
        let up = |name| conversion(name, |spec: Value| Ok(spec));
        let versions = || {
            let of = |version| Selector::positional(&["example.com", version, "things"]).unwrap();
            (of("v1alpha1"), of("v1"))
        };
        let with = |registry: Registry, conversion| {
            let (from, to) = versions();
            registry.on_convert(from, to, conversion)
        };
        let good = with(Registry::new(), up("spec"));
        let good = with(good, up("status").of_status());
        assert_eq!((good.check(), good.len(), good.is_empty()), (Ok(()), 2, false));
        let bad = with(good, up("all").of_object());
        let problem = bad.check().unwrap_err().to_string();
        assert!(
            problem.contains("converts the same part of things.example.com from v1alpha1 to v1"),
            "{problem}"
        );
    }
}
