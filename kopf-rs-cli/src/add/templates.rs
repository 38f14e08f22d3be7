//! The text of the files that `kopf-rs add` adds. Pure.

use crate::add::sources::FoundKind;
use crate::new::names::{Kind, module_name, snake_case};
use crate::new::templates::{fill, further_kind};

/// The addition to a crate.
pub(super) struct Addition {
    /// The name of the module.
    pub(super) module: String,
    pub(super) code: String,
    /// A file of tests, if they are not part of the code.
    pub(super) tests: Option<String>,
    /// The name and the text of a sample object.
    pub(super) sample: Option<(String, String)>,
    /// The kind and the version whose definition replaces the one that the parent module registers.
    converts: Option<(String, String)>,
}

const WEBHOOK: &str = include_str!("../../templates/webhook.rs.in");
const CONVERSION: &str = include_str!("../../templates/conversion.rs.in");

impl Addition {
    /// Returns the module of a kind with a handler.
    pub(super) fn kind(kind: &Kind, reconcile: bool) -> Self {
        let module = module_name(&kind.name);
        let sample = format!("{module}.yaml");
        let [code, tests, text] = further_kind(kind, &format!("../../{sample}"), reconcile);
        Self { module, code, tests: Some(tests), sample: Some((sample, text)), converts: None }
    }

    /// Returns the module of a webhook for a kind, whose name may not be enough to tell it from others.
    pub(super) fn webhook(kind: &FoundKind, is_ambiguous: bool) -> Self {
        let group = kind.group.replace(['.', '-'], "_");
        let group = if is_ambiguous { format!("_{group}") } else { String::new() };
        let snake = snake_case(&kind.kind) + &group;
        let code = filled(WEBHOOK, kind, &[("suffix", &format!("_{snake}"))]);
        let module = format!("{snake}_webhook");
        Self { module, code, tests: None, sample: None, converts: None }
    }

    /// Returns the module of another version of a kind, which begins as a copy.
    pub(super) fn conversion(kind: &FoundKind, version: &str) -> Self {
        let FoundKind { kind: name, code, .. } = kind;
        let spec =
            code.replacen(&format!("version = \"{}\"", kind.version), &format!("version = \"{version}\""), 1);
        let snake = snake_case(name);
        let more =
            [("new", version), ("snake", &*snake), ("spec", &*spec), ("type", &*kind.spec), ("import", "")];
        let code = filled(CONVERSION, kind, &more);
        let (module, converts) = (version.to_owned(), Some((name.clone(), version.to_owned())));
        Self { module, code, tests: None, sample: None, converts }
    }

    /// Returns the text of the parent module with the new definition, or advice on how to register it.
    pub(super) fn registered(&self, text: String) -> (String, Option<String>) {
        let Some((kind, version)) = &self.converts else { return (text, None) };
        let (old, new) = (format!("&{kind}::crd()"), format!("&{version}::definition()"));
        if text.matches(&old).count() == 1 {
            return (text.replacen(&old, &new, 1), None);
        }
        let advice = if text.contains("::definition()") {
            format!(
                "The registered definition does not have the version {version} yet: add `super::{version}::{kind}::crd()` to the versions \
                 in the function `definition` that returns it"
            )
        } else {
            format!(
                "Both versions are not registered yet, because `{old}` does not occur exactly once in the parent module: register `{new}` instead"
            )
        };
        (text, Some(advice))
    }
}

fn filled(template: &str, kind: &FoundKind, more: &[(&str, &str)]) -> String {
    let own = [
        ("kind", &*kind.kind),
        ("group", &*kind.group),
        ("version", &*kind.version),
        ("module", &*kind.module),
    ];
    let values: Vec<_> = own.into_iter().chain(more.iter().copied()).collect();
    fill(template, &values)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn found() -> FoundKind {
        FoundKind {
            group: "example.com".to_owned(),
            version: "v1".to_owned(),
            kind: "MyOrder".to_owned(),
            code: "#[kube(group = \"example.com\", version = \"v1\", kind = \"MyOrder\")]\npub struct MyOrderSpec {\n}".to_owned(),
            spec: "MyOrderSpec".to_owned(),
            module: "crate::my_order".to_owned(),
            file: PathBuf::from("src/my_order.rs"),
            imports_definition: true,
            is_stored: true,
        }
    }

    #[test]
    fn no_name_stays_in_braces() {
        let kind: Kind = "shop.example.com/v1/Match".parse().unwrap();
        let kinds = [false, true].map(|reconcile| Addition::kind(&kind, reconcile));
        assert_eq!(kinds[0].module, "match_kind");
        let others = [Addition::webhook(&found(), false), Addition::conversion(&found(), "v2")];
        for addition in kinds.iter().chain(&others) {
            let sample = addition.sample.as_ref().map(|(_, text)| text);
            for text in [Some(&addition.code), addition.tests.as_ref(), sample].into_iter().flatten() {
                assert!(!text.contains("{{") && text.ends_with('\n'), "{text}");
            }
        }
    }

    #[test]
    fn another_version_is_registered_with_the_first() {
        let addition = Addition::conversion(&found(), "v2");
        assert!(addition.code.contains("version = \"v2\", kind = \"MyOrder\")]\npub struct MyOrderSpec"));
        let (text, advice) = addition.registered("register_crd(&client, &MyOrder::crd()).await".to_owned());
        assert_eq!((text.as_str(), advice), ("register_crd(&client, &v2::definition()).await", None));
        let (text, advice) = Addition::conversion(&found(), "v3").registered(text);
        assert_eq!(text, "register_crd(&client, &v2::definition()).await");
        assert!(advice.unwrap().contains("add `super::v3::MyOrder::crd()` to the versions"));
        let (_, advice) = addition.registered("nothing".to_owned());
        assert!(advice.unwrap().contains("register `&v2::definition()` instead"));
    }
}
