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
    /// The advice if `register` cannot be replaced.
    pub(super) hint: Option<String>,
    /// Code of the module above, and what replaces it.
    register: Option<(String, String)>,
}

const WEBHOOK: &str = include_str!("../../templates/webhook.rs.in");
const CONVERSION: &str = include_str!("../../templates/conversion.rs.in");

impl Addition {
    /// Returns the module of a kind with a handler.
    pub(super) fn kind(kind: &Kind, reconcile: bool) -> Self {
        let module = module_name(&kind.name);
        let sample = format!("{module}.yaml");
        let [code, tests, text] = further_kind(kind, &format!("../../{sample}"), reconcile);
        Self { module, code, tests: Some(tests), sample: Some((sample, text)), hint: None, register: None }
    }

    /// Returns the module of a webhook for a kind.
    pub(super) fn webhook(kind: &FoundKind) -> Self {
        let snake = snake_case(&kind.kind);
        let code = filled(WEBHOOK, kind, &[("suffix", &format!("_{snake}"))]);
        let module = format!("{snake}_webhook");
        Self { module, code, tests: None, sample: None, hint: None, register: None }
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
        let register = (format!("&{name}::crd()"), format!("&{version}::definition()"));
        Self {
            module: version.to_owned(),
            code,
            tests: None,
            sample: None,
            hint: Some(format!(
                "The definition is not registered with both versions, because there is no `{}`: register `{}` instead",
                register.0, register.1
            )),
            register: Some(register),
        }
    }

    /// Returns the text of the module above with the new definition, and whether it has one.
    pub(super) fn registered(&self, text: &str) -> (String, bool) {
        match &self.register {
            Some((old, new)) if text.matches(old.as_str()).count() == 1 => (text.replacen(old, new, 1), true),
            Some(_) => (text.to_owned(), false),
            None => (text.to_owned(), true),
        }
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
        let others = [Addition::webhook(&found()), Addition::conversion(&found(), "v2")];
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
        let (text, is_registered) = addition.registered("register_crd(&client, &MyOrder::crd()).await");
        assert_eq!((text.as_str(), is_registered), ("register_crd(&client, &v2::definition()).await", true));
        assert!(!addition.registered("nothing").1);
    }
}
