//! One rule of an RBAC role: the requests that it allows, the rules that it covers, and its text form.
//!
//! Must not depend on the rule's holder.

use serde_json::{Map, Value, json};

use super::attributes::Attributes;

/// Verbs, and the resources or pages to which they apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) pages: Vec<String>,
}

/// Returns the rules of a stored role.
pub(crate) fn rules_of(role: &Map<String, Value>) -> Vec<Rule> {
    let rules = role.get("rules").and_then(Value::as_array);
    rules.into_iter().flatten().map(Rule::from_json).collect()
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|found| found == wanted)
}

fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|found| found == "*" || found == wanted)
}

// === impl Rule ===

impl Rule {
    pub(crate) fn from_json(json: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            let items = json.get(field).and_then(Value::as_array);
            let items = items.into_iter().flatten().filter_map(Value::as_str);
            items.map(str::to_owned).collect()
        };
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            pages: texts("nonResourceURLs"),
        }
    }

    /// Returns the rule in the format of roles and reviews.
    pub(crate) fn to_json(&self) -> Value {
        let mut rule = json!({"verbs": self.verbs});
        for (field, list) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.pages),
        ] {
            if !list.is_empty() {
                rule[field] = json!(list);
            }
        }
        rule
    }

    /// Returns whether the rule allows a request.
    pub(crate) fn allows(&self, asked: &Attributes) -> bool {
        if !has_or_all(&self.verbs, &asked.verb) {
            return false;
        }
        if let Some(page) = &asked.page {
            return self.pages.iter().any(|found| is_page(found, page));
        }
        has_or_all(&self.groups, &asked.group)
            && self.is_of(asked)
            && (self.names.is_empty() || has(&self.names, &asked.name))
    }

    fn is_of(&self, asked: &Attributes) -> bool {
        if asked.subresource.is_empty() {
            return has_or_all(&self.resources, &asked.resource);
        }
        has_or_all(&self.resources, &asked.whole_resource())
            || has(&self.resources, &format!("*/{}", asked.subresource))
    }

    /// Splits the rule into rules with one verb and one resource each.
    pub(crate) fn parts(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let mut parts = Vec::new();
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let part = Self {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        ..Self::default()
                    };
                    if self.names.is_empty() {
                        parts.push(part);
                        continue;
                    }
                    parts.extend(self.names.iter().map(|name| Self {
                        names: one(name),
                        ..part.clone()
                    }));
                }
            }
        }
        for page in &self.pages {
            parts.extend(self.verbs.iter().map(|verb| Self {
                verbs: one(verb),
                pages: one(page),
                ..Self::default()
            }));
        }
        parts
    }

    /// Returns whether the rule grants at least the permissions of `part`.
    pub(crate) fn covers(&self, part: &Self) -> bool {
        let all =
            |own: &[String], wanted: &[String]| wanted.iter().all(|wanted| has_or_all(own, wanted));
        let resource = |wanted: &String| {
            has_or_all(&self.resources, wanted)
                || wanted
                    .split_once('/')
                    .is_some_and(|(_, sub)| has(&self.resources, &format!("*/{sub}")))
        };
        let named = self.names.is_empty()
            || (!part.names.is_empty() && part.names.iter().all(|name| has(&self.names, name)));
        let page = |wanted: &String| self.pages.iter().any(|own| is_page(own, wanted));
        all(&self.verbs, &part.verbs)
            && all(&self.groups, &part.groups)
            && part.resources.iter().all(resource)
            && named
            && part.pages.iter().all(page)
    }

    /// Returns whether the rules differ only in their verbs.
    pub(crate) fn is_about_the_same(&self, other: &Self) -> bool {
        self.pages.is_empty()
            && other.pages.is_empty()
            && (&self.groups, &self.resources, &self.names)
                == (&other.groups, &other.resources, &other.names)
    }

    /// Returns the rule in the format of refusals.
    pub(crate) fn told(&self) -> String {
        let mut parts = Vec::new();
        for (word, list) in [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.names),
            ("NonResourceURLs", &self.pages),
            ("Verbs", &self.verbs),
        ] {
            if !list.is_empty() {
                parts.push(format!("{word}:{}", quoted(list)));
            }
        }
        format!("{{{}}}", parts.join(", "))
    }
}

/// Formats a list of strings as Go does.
pub(crate) fn quoted(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

/// Returns whether a path matches a page; a pattern that ends in an asterisk matches all paths with its prefix.
fn is_page(pattern: &str, path: &str) -> bool {
    pattern == path
        || pattern
            .strip_suffix('*')
            .is_some_and(|start| path.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        let words: Vec<Vec<String>> = text
            .split(' ')
            .map(|word| word.split(',').map(str::to_owned).collect())
            .collect();
        Rule {
            verbs: words[0].clone(),
            groups: words[1].clone(),
            resources: words[2].clone(),
            names: words.get(3).cloned().unwrap_or_default(),
            pages: Vec::new(),
        }
    }

    fn asked(text: &str) -> Attributes {
        let mut words = text.split(' ').map(str::to_owned);
        let mut next = || words.next().unwrap_or_default();
        Attributes {
            verb: next(),
            group: next(),
            resource: next(),
            subresource: next(),
            name: next(),
            ..Attributes::default()
        }
    }

    #[test]
    fn rules_by_table() {
        for (own, wanted, expected) in [
            ("get,list a pods", "get a pods", true),
            ("get a pods", "list a pods", false),
            ("* * *", "x y z s", true),
            ("get a pods", "get a pods log", false),
            ("get a */log", "get a pods log", true),
            ("get a pods/log", "get a pods log", true),
            ("get a pods one", "get a pods  one", true),
            ("get a pods one", "get a pods", false),
        ] {
            assert_eq!(
                rule(own).allows(&asked(wanted)),
                expected,
                "{own} / {wanted}"
            );
        }
        assert!(is_page("/api/*", "/api/v1") && !is_page("/api", "/api/v1"));
    }

    #[test]
    fn a_rule_covers_its_parts_and_no_others() {
        let own = rule("get,list a,b pods,*/log");
        assert!(own.parts().iter().all(|part| own.covers(part)));
        assert!(own.covers(&rule("get a jobs/log")));
        assert!(!own.covers(&rule("delete a pods")));
        assert!(!rule("get a pods one").covers(&rule("get a pods")));
        assert_eq!(
            rule("get,delete a pods n").told(),
            r#"{APIGroups:["a"], Resources:["pods"], ResourceNames:["n"], Verbs:["get" "delete"]}"#
        );
    }
}
