//! The dependencies of both workspaces, the framework's and the API server's: licences, sources and duplicate versions as in `deny.toml`, and
//! the declared minimum Rust version.
//!
//! This is the part of `cargo deny` that needs no network; it takes a second instead of minutes of building. Each rule is tested with a bad
//! input, too.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use spdx::{Expression, Licensee, ParseMode};

use crate::cli::root;

/// The part of `deny.toml` that is enforced here.
#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    sources: Sources,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Skip>,
}

/// A version that may exist beside a newer one: `name@version`, whose trailing parts may be missing.
#[derive(Deserialize)]
struct Skip {
    #[serde(rename = "crate")]
    spec: String,
}

/// The output of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for packages of this repository.
    source: Option<String>,
    rust_version: Option<String>,
}

impl Package {
    fn is_foreign(&self) -> bool {
        self.source.is_some()
    }
}

fn rules() -> Rules {
    let text = fs::read_to_string(root().join("deny.toml")).expect("deny.toml is there");
    toml::from_str(&text).expect("deny.toml is valid")
}

/// Returns the packages of both workspaces, each version once. A version that only one of them has counts as a duplicate, too.
fn packages() -> Vec<Package> {
    let all = ["", "apiserver"].map(|folder| packages_of(&root().join(folder)));
    let named = all.into_iter().flatten().map(|it| (named(&it), it));
    let once: BTreeMap<String, Package> = named.collect();
    once.into_values().collect()
}

fn packages_of(workspace: &Path) -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--all-features", "--locked"])
        .current_dir(workspace)
        .output()
        .expect("cargo starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let metadata: Metadata = serde_json::from_slice(&output.stdout).expect("metadata in JSON");
    metadata.packages
}

fn named(package: &Package) -> String {
    format!("{} {}", package.name, package.version)
}

// === rules ===

fn bad_licenses(packages: &[Package], rules: &Licenses) -> Vec<String> {
    let allowed = rules.allow.iter().map(|it| Licensee::parse(it));
    let allowed: Vec<_> = allowed.collect::<Result<_, _>>().expect("licences of SPDX");
    let is_allowed = |package: &&Package| {
        let license = package.license.as_deref().unwrap_or_default();
        // The old form `MIT/Apache-2.0` is common.
        Expression::parse_mode(license, ParseMode::LAX).is_ok_and(|expression| {
            expression.evaluate(|wanted| allowed.iter().any(|it| it.satisfies(wanted)))
        })
    };
    let bad = packages.iter().filter(|package| !is_allowed(package));
    bad.map(|package| format!("{}: licence {:?}", named(package), package.license)).collect()
}

fn bad_sources(packages: &[Package], rules: &Sources) -> Vec<String> {
    let is_allowed = |source: &str| {
        let registry = source.strip_prefix("registry+");
        registry.is_some_and(|url| rules.allow_registry.iter().any(|it| it == url))
    };
    let sources = packages.iter().filter_map(|it| Some((it, it.source.as_deref()?)));
    sources
        .filter(|(_, source)| !is_allowed(source))
        .map(|(package, source)| format!("{}: source {source}", named(package)))
        .collect()
}

/// Returns the crates with several versions, and the entries of `skip` that match no crate.
fn duplicates(packages: &[Package], rules: &Bans) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let of_name = versions.entry(&package.name).or_default();
        of_name.push(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let mut bad = Vec::new();
    for Skip { spec } in &rules.skip {
        let (name, wanted) = spec.split_once('@').unwrap_or((spec, ""));
        let of_name = versions.get_mut(name).map_or(0, |versions| {
            let before = versions.len();
            versions.retain(|version| !is_version(version, wanted));
            before - versions.len()
        });
        if of_name == 0 {
            bad.push(format!("deny.toml: {spec} is no duplicate any more"));
        }
    }
    let several = versions.iter().filter(|(_, versions)| versions.len() > 1);
    bad.extend(several.map(|(name, versions)| format!("{name}: versions {}", versions.join(", "))));
    bad
}

fn is_version(version: &str, wanted: &str) -> bool {
    let rest = version.strip_prefix(wanted);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the packages that need a newer Rust than those of this repository declare.
fn too_new(packages: &[Package]) -> Vec<String> {
    let numbers = |version: &str| {
        let parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        let mut parts: Vec<u32> = parts.collect();
        parts.resize(3, 0);
        parts
    };
    let own = packages.iter().filter(|package| !package.is_foreign());
    let declared = own.filter_map(|package| package.rust_version.as_deref());
    let declared = declared.map(numbers).min().expect("a minimum is declared");
    let foreign = packages.iter().filter(|package| package.is_foreign());
    foreign
        .filter_map(|package| Some((package, package.rust_version.as_deref()?)))
        .filter(|(_, needed)| numbers(needed).cmp(&declared) == Ordering::Greater)
        .map(|(package, needed)| format!("{} needs Rust {needed}", named(package)))
        .collect()
}

// === the workspaces ===

#[test]
fn dependencies_are_as_deny_toml_allows() {
    let (packages, rules) = (packages(), rules());
    let mut bad = bad_licenses(&packages, &rules.licenses);
    bad.extend(bad_sources(&packages, &rules.sources));
    bad.extend(duplicates(&packages, &rules.bans));
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn no_dependency_needs_a_newer_rust_than_is_declared() {
    let bad = too_new(&packages());
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

// === bad inputs ===

fn package(name: &str, version: &str, license: &str, source: &str) -> Package {
    Package {
        name: name.to_owned(),
        version: version.to_owned(),
        license: Some(license.to_owned()),
        source: Some(source.to_owned()),
        rust_version: Some("1.90".to_owned()),
    }
}

#[test]
fn each_rule_finds_a_bad_dependency() {
    const REGISTRY: &str = "registry+https://example.com/index";
    let own =
        Package { source: None, rust_version: Some("1.89".to_owned()), ..package("own", "0.1.0", "MIT", "") };
    let packages = [
        own,
        package("a", "1.0.0", "GPL-3.0", REGISTRY),
        package("a", "2.1.0", "MIT AND GPL-3.0", "git+https://example.com/a"),
        package("b", "0.1.5", "MIT/GPL-3.0", REGISTRY),
        package("b", "0.2.0", "(GPL-3.0 OR MIT) AND MIT", REGISTRY),
    ];
    let licenses = Licenses { allow: vec!["MIT".to_owned()] };
    let bad = bad_licenses(&packages, &licenses);
    assert_eq!(bad, ["a 1.0.0: licence Some(\"GPL-3.0\")", "a 2.1.0: licence Some(\"MIT AND GPL-3.0\")"]);
    let sources = Sources { allow_registry: vec!["https://example.com/index".to_owned()] };
    let bad = bad_sources(&packages, &sources);
    assert_eq!(bad, ["a 2.1.0: source git+https://example.com/a"]);
    let skip = ["b@0.1", "c@1"].map(|spec| Skip { spec: spec.to_owned() });
    let bad = duplicates(&packages, &Bans { skip: skip.into() });
    assert_eq!(bad, ["deny.toml: c@1 is no duplicate any more", "a: versions 1.0.0, 2.1.0"]);
    assert_eq!(too_new(&packages).len(), 4);
    let same = Package { rust_version: Some("1.89.0".to_owned()), ..package("c", "0.1.0", "MIT", REGISTRY) };
    let [own, ..] = packages;
    assert!(too_new(&[own, same]).is_empty());
}
