//! Requests to the API server that a function sends, in words: `get,list pods`.
//!
//! Must not know who sends them.

#[cfg(any(feature = "cli", test))]
use std::fmt;

/// The verbs of RBAC, in the order in which rules list them.
pub(crate) const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// Requests with some verbs for objects of some resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) verbs: Vec<String>,
    pub(crate) resources: Vec<RequestedResource>,
}

/// A resource in the notation of kubectl: `pods`, `deployments.apps`, `pods/log`, `deployments.apps/scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestedResource {
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) subresource: Option<String>,
}

impl Requests {
    /// Parses verbs and resources, each separated by commas.
    ///
    /// # Errors
    /// Returns the expectation and the finding.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let (Some(verbs), Some(resources), None) = (words.next(), words.next(), words.next()) else {
            return Err(format!(
                "`requires` is verbs and resources, such as \"get,list pods\" or \"create deployments.apps\", not {text:?}"
            ));
        };
        if let Some(unknown) = verbs.split(',').find(|it| !VERBS.contains(it)) {
            return Err(format!(
                "{unknown:?} in {text:?} is no verb of the API: expected {}",
                VERBS.join(", ")
            ));
        }
        let resources = resources.split(',').map(|it| RequestedResource::parse(it).ok_or(it));
        let resources = resources.collect::<Result<Vec<_>, _>>();
        let resources = resources.map_err(|bad| {
            format!("{bad:?} in {text:?} is no resource: expected a plural in lower case, such as pods, deployments.apps or pods/log")
        })?;
        Ok(Self { verbs: verbs.split(',').map(str::to_owned).collect(), resources })
    }
}

impl RequestedResource {
    fn parse(text: &str) -> Option<Self> {
        let (resource, subresource) = match text.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource)),
            None => (text, None),
        };
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|it| matches!(it, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        };
        let is_group = resource.len() == plural.len() || group.split('.').all(is_word);
        let is_resource = is_word(plural) && is_group && subresource.is_none_or(is_word);
        is_resource.then(|| Self {
            group: group.to_owned(),
            plural: plural.to_owned(),
            subresource: subresource.map(str::to_owned),
        })
    }

    /// Creates it from a resource in the terms of RBAC: the plural, with the subresource after a slash.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn of(group: &str, resource: &str) -> Self {
        let (plural, subresource) = match resource.split_once('/') {
            Some((plural, subresource)) => (plural, Some(subresource.to_owned())),
            None => (resource, None),
        };
        Self { group: group.to_owned(), plural: plural.to_owned(), subresource }
    }

    /// Returns the plural, with the subresource after a slash.
    pub(crate) fn name(&self) -> String {
        match &self.subresource {
            None => self.plural.clone(),
            Some(subresource) => format!("{}/{subresource}", self.plural),
        }
    }
}

#[cfg(any(feature = "cli", test))]
impl fmt::Display for RequestedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        self.subresource.iter().try_for_each(|it| write!(f, "/{it}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_named_as_for_kubectl() {
        let found = Requests::parse("get,list pods,deployments.apps/scale").unwrap();
        assert_eq!(found.verbs, ["get", "list"]);
        let named: Vec<_> = found.resources.iter().map(|it| (it.group.as_str(), it.name())).collect();
        assert_eq!(named, [("", "pods".to_owned()), ("apps", "deployments/scale".to_owned())]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, named) in [
            ("pods", "is verbs and resources"),
            ("get pods now", "is verbs and resources"),
            ("read pods", "\"read\" in \"read pods\" is no verb"),
            ("get Pods", "\"Pods\" in \"get Pods\" is no resource"),
            ("get pods,", "\"\" in"),
            ("get deployments.", "\"deployments.\""),
        ] {
            let error = Requests::parse(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
