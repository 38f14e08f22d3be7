//! Cargo's data about a folder: its packages, its target folder, and the tables of its root manifest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

/// The relevant parts of `cargo metadata --no-deps`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    pub(crate) target_directory: PathBuf,
}

/// One package of a workspace.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// `None` for a local package, whose files may change.
    pub(crate) source: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) targets: Vec<Target>,
    pub(crate) dependencies: Vec<Dependency>,
    /// The features, with those that each of them enables.
    pub(crate) features: BTreeMap<String, Vec<String>>,
    pub(crate) default_run: Option<String>,
}

/// A library, a program, an example, ...
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

/// A dependency as declared in the manifest, with workspace inheritance resolved.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) req: String,
    pub(crate) source: Option<String>,
    pub(crate) path: Option<PathBuf>,
    /// `None` for ordinary dependencies, otherwise `dev` or `build`.
    pub(crate) kind: Option<String>,
    pub(crate) uses_default_features: bool,
    pub(crate) features: Vec<String>,
}

/// The settings that a generated workspace inherits from the user's workspace, so that dependencies have the same
/// versions and build settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Inherited {
    pub(crate) resolver: String,
    pub(crate) patch: Table,
    pub(crate) profile: Table,
    /// Lock files: the workspace's own first, if it has one, then the one of the kopf-rs checkout.
    pub(crate) locks: Vec<PathBuf>,
}

/// The default profile: omits the debugging information of dependencies, which takes half of the build time.
const QUICK: &str = "
dev.debug = 'line-tables-only'
dev.package.'*'.debug = false
dev.build-override.debug = 'line-tables-only'
";

// === impl Package ===

impl Package {
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("."))
    }

    /// Returns the library if it can be linked into a program.
    pub(crate) fn library(&self) -> Option<&Target> {
        self.targets.iter().find(|target| target.kind.iter().any(|kind| kind == "lib" || kind == "rlib"))
    }

    pub(crate) fn programs(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().filter(|target| target.kind.iter().any(|kind| kind == "bin"))
    }

    /// Returns whether a dependency of that name has the feature, also by a default feature of the package; `in_tests`, also by a
    /// dependency of tests.
    pub(crate) fn enables(&self, dependency: &str, feature: &str, in_tests: bool) -> bool {
        let counts = |it: &Dependency| it.kind.is_none() || in_tests && it.kind.as_deref() == Some("dev");
        let mut found = self.dependencies.iter().filter(|it| it.name == dependency && counts(it));
        let names = [format!("{dependency}/{feature}"), format!("{dependency}?/{feature}")];
        let mut defaults = vec!["default"];
        let mut at = 0;
        while let Some(name) = defaults.get(at) {
            let new = self.features.get(*name).into_iter().flatten().map(String::as_str);
            let new: Vec<&str> = new.filter(|it| !defaults.contains(it)).collect();
            defaults.extend(new);
            at += 1;
        }
        found.any(|it| it.features.iter().any(|it| it == feature))
            || names.iter().any(|it| defaults.contains(&it.as_str()))
    }

    /// Returns the ordinary dependency of that name.
    pub(crate) fn dependency(&self, name: &str) -> Option<&Dependency> {
        self.dependencies.iter().find(|dependency| dependency.name == name && dependency.kind.is_none())
    }
}

// === impl Inherited ===

impl Inherited {
    /// Reads the root manifest of a workspace. Skips invalid parts, since cargo has read it before and reports
    /// errors. A workspace without profiles gets the quick one; packages that its lock file lacks get the versions of
    /// `lock`.
    pub(crate) fn of(root: &Path, lock: Option<PathBuf>) -> Self {
        let manifest: Table = std::fs::read_to_string(root.join("Cargo.toml"))
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or_default();
        let table = |key: &str| match manifest.get(key) {
            Some(Value::Table(table)) => table.clone(),
            _ => Table::new(),
        };
        let own_lock = root.join("Cargo.lock");
        let none = Self::none(lock);
        let profile = table("profile");
        Self {
            resolver: resolver(&manifest),
            patch: absolute_paths(table("patch"), root),
            profile: if profile.is_empty() { none.profile } else { profile },
            locks: own_lock.is_file().then_some(own_lock).into_iter().chain(none.locks).collect(),
        }
    }

    /// For single files outside of any workspace: the quick profile, as in a checkout of kopf-rs.
    pub(crate) fn none(lock: Option<PathBuf>) -> Self {
        Self {
            resolver: "3".into(),
            patch: Table::new(),
            profile: QUICK.parse().expect("a table"),
            locks: lock.into_iter().collect(),
        }
    }

    /// Exempts `package`, which is built as a package of the workspace rather than as a dependency, from the profile
    /// settings of `package."*"`.
    pub(crate) fn spare(&mut self, package: &str) {
        for (name, profile) in &mut self.profile {
            let Value::Table(profile) = profile else {
                continue;
            };
            let own = own_settings(name, profile);
            if let Some(Value::Table(packages)) = profile.get_mut("package")
                && !own.is_empty()
            {
                packages.entry(package).or_insert_with(|| Value::Table(own));
            }
        }
    }
}

/// Returns, for each setting of `package."*"`, the value that applies to the workspace's own packages.
fn own_settings(name: &str, profile: &Table) -> Table {
    let everyone = profile.get("package").and_then(|packages| packages.get("*")).and_then(Value::as_table);
    let Some(everyone) = everyone else {
        return Table::new();
    };
    let settings = everyone.keys().filter_map(|key| {
        let value = profile.get(key).cloned().or_else(|| default_of(name, key));
        value.map(|value| (key.clone(), value))
    });
    settings.collect()
}

/// Returns cargo's own default of a profile setting.
fn default_of(profile: &str, key: &str) -> Option<Value> {
    let release = profile != "dev" && profile != "test";
    match key {
        "opt-level" => Some(Value::Integer(if release { 3 } else { 0 })),
        "debug" | "debug-assertions" | "overflow-checks" => Some(Value::Boolean(!release)),
        "codegen-units" => Some(Value::Integer(if release { 16 } else { 256 })),
        _ => None,
    }
}

fn resolver(manifest: &Table) -> String {
    let said = |section: &str, key: &str| {
        manifest.get(section).and_then(|section| section.get(key)).and_then(Value::as_str)
    };
    let said_outright = said("workspace", "resolver").or_else(|| said("package", "resolver"));
    let by_edition = match said("package", "edition") {
        Some("2021") => "2",
        Some("2015" | "2018") => "1",
        _ => "3",
    };
    said_outright.unwrap_or(by_edition).to_owned()
}

/// Makes every `path = "..."` in the table absolute, so that the table can be written elsewhere.
pub(crate) fn absolute_paths(mut table: Table, base: &Path) -> Table {
    for (key, value) in &mut table {
        match value {
            Value::String(path) if key == "path" => {
                *path = base.join(&*path).to_string_lossy().into_owned();
            }
            Value::Table(inner) => *inner = absolute_paths(std::mem::take(inner), base),
            _ => {}
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_patches_become_absolute() {
        let patch: Table = "crates-io.a.path = '../a'\ncrates-io.b.git = 'x'".parse().unwrap();
        let absolute = absolute_paths(patch, Path::new("/w/root"));
        assert_eq!(absolute["crates-io"]["a"]["path"].as_str(), Some("/w/root/../a"));
        assert_eq!(absolute["crates-io"]["b"]["git"].as_str(), Some("x"));
    }

    #[test]
    fn settings_for_dependencies_do_not_reach_the_users_crate() {
        let mut inherited = Inherited {
            profile: "dev.debug = 1\ndev.package.'*'.debug = false\ndev.package.'*'.opt-level = 3"
                .parse()
                .unwrap(),
            ..Inherited::default()
        };
        inherited.spare("mine");
        let mine = &inherited.profile["dev"]["package"]["mine"];
        assert_eq!(mine["debug"].as_integer(), Some(1));
        assert_eq!(mine["opt-level"].as_integer(), Some(0));
    }

    #[test]
    fn single_files_are_built_as_this_repository_is() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let root: Table = std::fs::read_to_string(root).unwrap().parse().unwrap();
        assert_eq!(Inherited::none(None).profile["dev"], root["profile"]["dev"]);
    }

    #[test]
    fn the_resolver_is_the_workspaces_own() {
        let of = |text: &str| resolver(&text.parse().unwrap());
        assert_eq!(of("workspace.resolver = '2'"), "2");
        assert_eq!(of("package.edition = '2021'"), "2");
        assert_eq!(of("package.edition = '2024'"), "3");
    }
}
