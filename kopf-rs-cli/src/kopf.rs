//! The kopf-rs that an operator depends on: where it comes from, and with which features. Pure, except that the program looks for its checkout.

use std::path::Path;

use kopf_rs_flags::shell_word;
use toml::{Table, Value};

use crate::workspace::Dependency;

/// The kopf-rs that an operator links, as a dependency in a manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kopf(pub(crate) Table);

/// The features of kopf-rs in the programs of new crates.
pub(crate) const FEATURES: [&str; 5] = ["cli", "metrics", "mimalloc", "schemars", "web"];

/// The feature that the tests of new crates, and `kopf-rs run`, add: it includes `embedded`. With different features, the tests and
/// `kopf-rs run` would each build kopf-rs again.
pub(crate) const TESTING: &str = "testing";

/// The keys of a dependency that say where it comes from.
pub(crate) const SOURCE: [&str; 7] = ["path", "version", "git", "branch", "tag", "rev", "registry"];

impl Kopf {
    /// Returns the kopf-rs of a folder.
    pub(crate) fn at(folder: &Path) -> Self {
        Self(entry("path", folder.to_string_lossy()))
    }

    /// Returns the kopf-rs of the registry.
    pub(crate) fn version(version: &str) -> Self {
        Self(entry("version", version))
    }

    /// Returns the kopf-rs that a crate depends on, from the same source, so that only one copy is linked. The lock file determines the version.
    pub(crate) fn of(dependency: &Dependency) -> Self {
        if let Some(path) = &dependency.path {
            return Self::at(path);
        }
        let source = dependency.source.as_deref().unwrap_or_default();
        let Some(git) = source.strip_prefix("git+") else {
            let mut table = entry("version", &dependency.req);
            let index = source.strip_prefix("registry+").unwrap_or(source);
            if !index.contains("crates.io-index") && !index.is_empty() {
                table.insert("registry-index".into(), index.into());
            }
            return Self(table);
        };
        let git = git.split('#').next().unwrap_or(git);
        let (url, reference) = git.split_once('?').unwrap_or((git, ""));
        let mut table = entry("git", url);
        if let Some((key, value)) = reference.split_once('=') {
            table.insert(key.into(), value.into());
        }
        Self(table)
    }

    /// Returns the checkout that this program was built from, or else its version.
    pub(crate) fn own() -> Self {
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("kopf-rs");
        if checkout.join("Cargo.toml").is_file() {
            Self::at(&checkout)
        } else {
            Self::version(concat!("=", env!("CARGO_PKG_VERSION")))
        }
    }

    /// Returns the command that adds this kopf-rs to a crate, with the features of new crates.
    pub(crate) fn cargo_add(&self) -> String {
        format!("cargo add {} --features {}", self.words(), FEATURES.join(","))
    }

    /// Returns the command that adds it to the tests of a crate.
    pub(crate) fn cargo_add_for_tests(&self) -> String {
        format!("cargo add --dev {} --features {TESTING}", self.words())
    }

    fn words(&self) -> String {
        let word = |text: &str| shell_word(Path::new(text));
        let value = |key: &str| self.0.get(key).and_then(Value::as_str);
        let name = value("version").map_or_else(|| "kopf-rs".to_owned(), |it| word(&format!("kopf-rs@{it}")));
        let sources = ["path", "git", "branch", "tag", "rev"].into_iter();
        let sources = sources.filter_map(|key| Some(format!(" --{key} {}", word(value(key)?))));
        name + &sources.collect::<String>()
    }

    /// Returns the dependency with these features; the user's crates choose others.
    pub(crate) fn linked(&self, features: &[&str]) -> Value {
        let mut table = self.0.clone();
        table.insert("default-features".into(), false.into());
        table.insert("features".into(), features.to_vec().into());
        Value::Table(table)
    }
}

/// Returns a table with one text.
pub(crate) fn entry(key: &str, value: impl Into<String>) -> Table {
    Table::from_iter([(key.to_owned(), Value::String(value.into()))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependency(source: Option<&str>) -> Dependency {
        Dependency {
            name: "kopf-rs".into(),
            req: "^0.1".into(),
            source: source.map(str::to_owned),
            path: None,
            kind: None,
            uses_default_features: true,
            features: Vec::new(),
        }
    }

    #[test]
    fn kopf_comes_from_where_the_crate_has_it() {
        let table = |text: &str| Kopf(text.parse().unwrap());
        let registry = "registry+https://github.com/rust-lang/crates.io-index";
        assert_eq!(Kopf::of(&dependency(Some(registry))), table("version = '^0.1'"));
        let git = "git+https://example.org/k.git?branch=next#0123";
        assert_eq!(
            Kopf::of(&dependency(Some(git))),
            table("git = 'https://example.org/k.git'\nbranch = 'next'")
        );
        let mut local = dependency(None);
        local.path = Some("/w/kopf-rs".into());
        assert_eq!(Kopf::of(&local), table("path = '/w/kopf-rs'"));
    }

    #[test]
    fn the_command_that_adds_it_names_its_source() {
        let features = "--features cli,metrics,mimalloc,schemars,web";
        assert_eq!(Kopf::version("=0.1.0").cargo_add(), format!("cargo add kopf-rs@=0.1.0 {features}"));
        let local = Kopf::at(Path::new("/my code/kopf-rs"));
        assert_eq!(local.cargo_add(), format!("cargo add kopf-rs --path '/my code/kopf-rs' {features}"));
        let git = Kopf("git = 'https://example.org/k.git'\nbranch = 'next'".parse().unwrap());
        let expected =
            "cargo add --dev kopf-rs --git 'https://example.org/k.git' --branch next --features testing";
        assert_eq!(git.cargo_add_for_tests(), expected);
    }
}
