//! The versions of kinds, and the conversion paths between them.
//!
//! This module must not depend on the conversion functions' content.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::handler::conversion::ConversionFunction;

pub(crate) mod object;

/// All kinds with conversions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversions {
    kinds: Vec<ConvertedKind>,
}

/// A kind, by the name of its definition.
#[derive(Clone, Debug)]
pub(crate) struct ConvertedKind {
    /// `plural.group`
    pub(crate) name: String,
    pub(crate) group: String,
    pairs: Vec<Pair>,
}

/// The functions that convert one version to another in one step.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) functions: Vec<Arc<ConversionFunction>>,
}

impl Conversions {
    /// Groups the functions by kind, in the order of their declaration.
    pub(crate) fn of(functions: &[Arc<ConversionFunction>]) -> Self {
        let mut conversions = Self::default();
        for function in functions {
            let kinds = &mut conversions.kinds;
            let found = kinds.iter().position(|it| it.name == function.kind);
            let at = found.unwrap_or_else(|| {
                kinds.push(ConvertedKind {
                    name: function.kind.clone(),
                    group: function.group.clone(),
                    pairs: Vec::new(),
                });
                kinds.len() - 1
            });
            kinds[at].add(function.clone());
        }
        conversions
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    pub(crate) fn kinds(&self) -> &[ConvertedKind] {
        &self.kinds
    }

    /// Returns the kind that a path of the endpoint serves.
    pub(crate) fn at_path(&self, path: &str) -> Option<&ConvertedKind> {
        let name = path.strip_prefix(PATH)?;
        self.kinds.iter().find(|kind| kind.name == name)
    }

    /// Returns the missing conversion paths between declared versions, for the first kind that lacks some.
    pub(crate) fn problem(&self) -> Option<String> {
        let mut problems = self.kinds.iter().filter_map(|kind| {
            let versions = kind.versions();
            kind.missing_between(&versions)
        });
        problems.next()
    }
}

/// The prefix of conversion paths.
pub(crate) const PATH: &str = "/convert/";

impl ConvertedKind {
    /// Returns the path at which the API server requests conversions.
    pub(crate) fn path(&self) -> String {
        format!("{PATH}{}", self.name)
    }

    fn add(&mut self, function: Arc<ConversionFunction>) {
        let (from, to) = (&function.from, &function.to);
        let mut pairs = self.pairs.iter_mut();
        match pairs.find(|it| (&it.from, &it.to) == (from, to)) {
            Some(pair) => pair.functions.push(function),
            None => self.pairs.push(Pair { from: from.clone(), to: to.clone(), functions: vec![function] }),
        }
    }

    /// Returns the versions in the functions, in the order of their declaration.
    pub(crate) fn versions(&self) -> Vec<&str> {
        let mut versions = Vec::new();
        let named = self.pairs.iter().flat_map(|it| [&it.from, &it.to]);
        for version in named.map(String::as_str) {
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
        versions
    }

    /// Returns the shortest conversion path, and among several the one declared first. Equal versions need no steps.
    pub(crate) fn way(&self, from: &str, to: &str) -> Option<Vec<&Pair>> {
        let mut reached: HashMap<&str, Option<&Pair>> = HashMap::from([(from, None)]);
        let mut open = VecDeque::from([from]);
        while let Some(version) = open.pop_front() {
            if version == to {
                let mut way = Vec::new();
                let mut at = version;
                while let Some(Some(pair)) = reached.get(at) {
                    way.push(*pair);
                    at = &pair.from;
                }
                way.reverse();
                return Some(way);
            }
            for pair in self.pairs.iter().filter(|it| it.from == version) {
                if !reached.contains_key(pair.to.as_str()) {
                    reached.insert(&pair.to, Some(pair));
                    open.push_back(&pair.to);
                }
            }
        }
        None
    }

    /// Returns the missing pairs between these versions, with the remedy.
    pub(crate) fn missing_between(&self, versions: &[&str]) -> Option<String> {
        let pairs = versions.iter().flat_map(|from| versions.iter().map(move |to| (*from, *to)));
        let missing: Vec<_> = pairs
            .filter(|(from, to)| self.way(from, to).is_none())
            .map(|(from, to)| format!("from {from} to {to}"))
            .collect();
        (!missing.is_empty()).then(|| {
            format!(
                "objects of {} cannot be converted {}: add functions with #[on_convert(..)] for that, or for a path over other versions",
                self.name,
                missing.join(", nor ")
            )
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::Value;

    use super::*;
    use crate::handler::conversion::{Conversion, conversion};
    use crate::object::selector::Selector;

    /// Returns a function between two versions of `things.example.com`.
    pub(crate) fn between(from: &str, to: &str, conversion: Conversion) -> Arc<ConversionFunction> {
        let of = |version| Selector::positional(&["example.com", version, "things"]).unwrap();
        Arc::new(conversion.between(&of(from), &of(to)).unwrap())
    }

    fn kind(pairs: &[(&str, &str)]) -> ConvertedKind {
        let functions: Vec<_> = pairs
            .iter()
            .map(|(from, to)| between(from, to, conversion("f", |spec: Value| Ok(spec))))
            .collect();
        Conversions::of(&functions).kinds.remove(0)
    }

    fn way(kind: &ConvertedKind, from: &str, to: &str) -> Option<Vec<String>> {
        let way = kind.way(from, to)?;
        Some(way.iter().map(|it| it.to.clone()).collect())
    }

    #[test]
    fn the_shortest_way_is_taken_and_the_first_of_several() {
        let kind = kind(&[("a", "b"), ("a", "c"), ("c", "d"), ("b", "d"), ("d", "e"), ("b", "e")]);
        let of = |steps: &[&str]| Some(steps.iter().map(|it| (*it).to_owned()).collect());
        assert_eq!(way(&kind, "a", "d"), of(&["b", "d"]));
        assert_eq!(way(&kind, "a", "e"), of(&["b", "e"]));
        assert_eq!(way(&kind, "a", "a"), of(&[]));
        assert_eq!(way(&kind, "e", "a"), None);
    }

    #[test]
    fn missing_pairs_are_named() {
        let chain =
            kind(&[("v1alpha1", "v1beta1"), ("v1beta1", "v1"), ("v1", "v1beta1"), ("v1beta1", "v1alpha1")]);
        assert_eq!(chain.missing_between(&chain.versions()), None);
        let missing = chain.missing_between(&["v1alpha1", "v1", "v2"]).unwrap();
        assert!(
            missing.contains(
                "cannot be converted from v1alpha1 to v2, nor from v1 to v2, nor from v2 to v1alpha1"
            ),
            "{missing}"
        );
        let one_way = kind(&[("v1alpha1", "v1")]);
        let conversions = Conversions { kinds: vec![one_way] };
        let problem = conversions.problem().unwrap();
        assert!(
            problem.starts_with("objects of things.example.com cannot be converted from v1 to v1alpha1:"),
            "{problem}"
        );
    }

    #[test]
    fn each_kind_has_its_path() {
        let conversions = Conversions { kinds: vec![kind(&[("v1", "v2")])] };
        let path = conversions.kinds[0].path();
        assert_eq!(path, "/convert/things.example.com");
        assert!(conversions.at_path(&path).is_some());
        assert!(conversions.at_path("/convert/other.example.com").is_none());
        assert!(conversions.at_path("/validate/things.example.com").is_none());
    }
}
