//! The generated crate: its files are computed from data alone, and written only if they differ.
//!
//! The crate is a workspace of its own, so it inherits the resolver, the patches, the profiles and the versions of
//! the user's workspace.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::args::Features;
use crate::kopf::{FEATURES, Kopf, SOURCE, TESTING, entry};
use crate::locks;
use crate::script::Script;
use crate::source::{Library, Source};
use crate::workspace::Inherited;

/// The default dependencies of single files beside kopf-rs: crates that kopf-rs itself uses.
const DEFAULTS: &str = r#"
serde = { version = "1", features = ["derive"] }
serde_json = "1"
tokio = { version = "1", features = ["time", "sync", "macros", "rt"] }
tracing = "0.1"
k8s-openapi = { version = "0.29", default-features = false }
kube = { version = "5", default-features = false, features = ["client"] }
"#;

/// A crate to be written.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) folder: PathBuf,
    /// The name of the package and its program.
    pub(crate) name: String,
    /// Files by their path below `folder`.
    files: Vec<(PathBuf, String)>,
    /// The lock files to merge: a later one provides the packages that the earlier ones lack.
    locks: Vec<PathBuf>,
    /// Compiled copies, with the user's files that they replace.
    pub(crate) stand_ins: Vec<(PathBuf, PathBuf)>,
}

/// The name of the program for tasks that need no handlers.
const TASKS: &str = "kopf-run-tasks";

/// A generated crate that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}\n  the operator is built there: set CARGO_TARGET_DIR to a folder that can be written", .path.display())]
pub(crate) struct WriteError {
    path: PathBuf,
    error: io::Error,
}

/// The package names in use, since each must be unique in a workspace.
#[derive(Default)]
struct Names(Vec<String>);

// === impl Names ===

impl Names {
    fn unique(&mut self, wanted: &str) -> String {
        let taken = |name: &String| self.0.contains(name);
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
        let name = names.find(|name| !taken(name)).unwrap_or_default();
        self.0.push(name.clone());
        name
    }
}

// === impl Runner ===

impl Runner {
    /// Computes all files. `sources` must contain only libraries and scripts, at least one.
    pub(crate) fn new(
        sources: &[Source],
        target: &Path,
        mut inherited: Inherited,
        kopf: &Kopf,
        chosen: &Features,
    ) -> Self {
        let first = sources.first().map(Source::name).unwrap_or_default();
        let name = format!("kopf-run-{first}-{:08x}", fingerprint(sources, chosen));
        let folder = target.join("kopf-run").join(&name["kopf-run-".len()..]);
        let mut runner = Self {
            folder,
            name,
            files: Vec::new(),
            locks: std::mem::take(&mut inherited.locks),
            stand_ins: Vec::new(),
        };
        let mut dependencies = Table::new();
        let mut names = Names::default();
        let mut features = [&FEATURES[..], &[TESTING]].concat();
        for (at, source) in sources.iter().enumerate() {
            let dependency = match source {
                Source::Library(library) => {
                    inherited.spare(&library.package.name);
                    features.extend(kubernetes_version(library));
                    of_library(library, chosen)
                }
                Source::Script(script) => {
                    adopt_tables(&mut inherited, script);
                    let package = names.unique(&script.name());
                    runner.add_script(script, &package, kopf, chosen)
                }
                Source::Program(_) => continue,
            };
            dependencies.insert(format!("user{at}"), Value::Table(dependency));
        }
        dependencies.insert("kopf-rs".into(), kopf.linked(&features));
        let version = version_of(&sources[0]);
        let main = main_rs(&first, &version, dependencies.keys());
        runner.add("src/main.rs", main);
        let manifest = root_manifest(&runner.name, dependencies, inherited);
        runner.add("Cargo.toml", manifest);
        runner
    }

    /// Computes a program without handlers, for tasks that need none.
    pub(crate) fn of_tasks(target: &Path, mut inherited: Inherited, kopf: &Kopf) -> Self {
        let mut runner = Self {
            folder: target.join("kopf-run").join("tasks"),
            name: TASKS.to_owned(),
            files: Vec::new(),
            locks: std::mem::take(&mut inherited.locks),
            stand_ins: Vec::new(),
        };
        let features = [&FEATURES[..], &[TESTING, "inventory", "k8s-latest"]].concat();
        let dependencies = Table::from_iter([("kopf-rs".to_owned(), kopf.linked(&features))]);
        let manifest = root_manifest(TASKS, dependencies, inherited);
        runner.add("Cargo.toml", manifest);
        let main = "// Written by `kopf-rs`: changes are lost.\n\n\
             fn main() -> std::process::ExitCode {\n    kopf_rs::cli::do_task()\n}\n";
        runner.add("src/main.rs", main.to_owned());
        runner
    }

    fn add(&mut self, path: impl Into<PathBuf>, text: String) {
        self.files.push((path.into(), text));
    }

    /// Adds a package for a single file below the runner's folder; returns the dependency on it.
    ///
    /// Cargo identifies packages within a target folder by their names and their folder names in the workspace, so
    /// files with the same name in different folders must get different ones.
    fn add_script(&mut self, script: &Script, package: &str, kopf: &Kopf, chosen: &Features) -> Table {
        let folder = PathBuf::from(format!("{package}-of-{}", self.name));
        let mut code = script.file.clone();
        if let Some(copy) = &script.copy {
            let below = folder.join(script.file.file_name().unwrap_or_default());
            code = self.folder.join(&below);
            // The compiler reports files of the workspace by their path within it.
            for compiled in [&code, &below] {
                self.stand_ins.push((compiled.clone(), script.file.clone()));
            }
            self.add(below, copy.clone());
        }
        let manifest = script_manifest(script, package, &code, kopf);
        self.add(folder.join("Cargo.toml"), manifest);
        let mut dependency = entry("path", folder.to_string_lossy());
        dependency.insert("package".into(), package.into());
        with_features(&mut dependency, chosen);
        dependency
    }

    /// Writes the files that differ. Unchanged files keep their timestamps, so that cargo rebuilds nothing.
    pub(crate) fn write(&self) -> Result<(), WriteError> {
        for (path, text) in &self.files {
            let path = self.folder.join(path);
            if fs::read_to_string(&path).is_ok_and(|there| there == *text) {
                continue;
            }
            write(&path, text)?;
        }
        self.write_lock()
    }

    /// Starts with the user's lock file, and starts again whenever that has changed.
    fn write_lock(&self) -> Result<(), WriteError> {
        let texts = self.locks.iter().map(fs::read_to_string);
        let Some(text) = texts.filter_map(Result::ok).reduce(|first, second| locks::joined(first, &second))
        else {
            return Ok(());
        };
        let (own, copied) = (self.folder.join("Cargo.lock"), self.folder.join("Cargo.lock.copied"));
        let current = own.is_file() && fs::read_to_string(&copied).is_ok_and(|last| last == text);
        if current {
            return Ok(());
        }
        write(&own, &text)?;
        write(&copied, &text)
    }
}

fn write(path: &Path, text: &str) -> Result<(), WriteError> {
    let failed = |error| WriteError { path: path.to_owned(), error };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}

/// Returns the same number for the same sources and features, so that the next run finds the crate of the last one,
/// and concurrent runs with other features do not overwrite it.
fn fingerprint(sources: &[Source], chosen: &Features) -> u32 {
    let mut hasher = DefaultHasher::new();
    chosen.hash(&mut hasher);
    for source in sources {
        match source {
            Source::Library(library) => library.package.manifest_path.hash(&mut hasher),
            Source::Script(script) => script.file.hash(&mut hasher),
            Source::Program(program) => program.package.manifest_path.hash(&mut hasher),
        }
    }
    let [_, _, _, _, a, b, c, d] = hasher.finish().to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

fn version_of(source: &Source) -> String {
    match source {
        Source::Library(library) => library.package.version.clone(),
        Source::Program(program) => program.package.version.clone(),
        Source::Script(script) => {
            let package = script.table("package");
            let said = package.get("version").and_then(Value::as_str);
            said.unwrap_or("0.0.0").to_owned()
        }
    }
}

fn of_library(library: &Library, chosen: &Features) -> Table {
    let mut dependency = entry("path", library.package.folder().to_string_lossy());
    dependency.insert("package".into(), library.package.name.clone().into());
    with_features(&mut dependency, chosen);
    dependency
}

fn with_features(dependency: &mut Table, chosen: &Features) {
    if !chosen.features.is_empty() {
        dependency.insert("features".into(), chosen.features.clone().into());
    }
    if chosen.no_default_features {
        dependency.insert("default-features".into(), false.into());
    }
}

/// Returns a Kubernetes version for a library that leaves the choice to the final program.
fn kubernetes_version(library: &Library) -> Option<&'static str> {
    let chooses = |name: &str, prefixes: &[&str]| {
        library.package.dependency(name).is_some_and(|dependency| {
            let mut features = dependency.features.iter();
            features.any(|feature| prefixes.iter().any(|prefix| feature.starts_with(prefix)))
        })
    };
    let chosen = library.kopf.uses_default_features
        || chooses("kopf-rs", &["k8s-latest"])
        || chooses("k8s-openapi", &["v1_", "latest", "earliest"]);
    (!chosen).then_some("k8s-latest")
}

/// Moves tables that are valid only in the root of a workspace from a single file to the generated root.
fn adopt_tables(inherited: &mut Inherited, script: &Script) {
    inherited.patch.extend(script.table("patch"));
    inherited.profile.extend(script.table("profile"));
}

fn root_manifest(name: &str, dependencies: Table, inherited: Inherited) -> String {
    let mut package = entry("name", name);
    package.insert("version".into(), "0.0.0".into());
    package.insert("edition".into(), "2024".into());
    package.insert("publish".into(), false.into());
    let mut manifest = Table::new();
    manifest.insert("package".into(), package.into());
    manifest.insert("dependencies".into(), dependencies.into());
    manifest.insert("workspace".into(), entry("resolver", inherited.resolver).into());
    for (key, table) in [("patch", inherited.patch), ("profile", inherited.profile)] {
        if !table.is_empty() {
            manifest.insert(key.into(), table.into());
        }
    }
    printed(&manifest)
}

fn script_manifest(script: &Script, name: &str, code: &Path, kopf: &Kopf) -> String {
    let mut manifest = script.manifest.clone();
    for root_only in ["patch", "profile", "workspace", "replace", "bin"] {
        manifest.remove(root_only);
    }
    let mut package = script.table("package");
    package.insert("name".into(), name.into());
    let defaults = [("version", "0.0.0"), ("edition", "2024")];
    for (key, value) in defaults {
        package.entry(key).or_insert_with(|| value.into());
    }
    package.insert("publish".into(), false.into());
    manifest.insert("package".into(), package.into());
    let mut dependencies = script.table("dependencies");
    let mut defaults: Table = DEFAULTS.parse().expect("a table");
    defaults.insert("kopf-rs".into(), Value::Table(kopf.0.clone()));
    for (key, value) in defaults {
        let underscored = key.replace('-', "_");
        let there = if dependencies.contains_key(&underscored) { underscored } else { key };
        match dependencies.get_mut(&there) {
            Some(own) => complete(own, value),
            None => drop(dependencies.insert(there, value)),
        }
    }
    manifest.insert("dependencies".into(), dependencies.into());
    let lib = entry("path", code.to_string_lossy());
    manifest.insert("lib".into(), lib.into());
    printed(&manifest)
}

/// Adds the default of a dependency to one that names features only, such as `kube.features = ["derive"]`.
fn complete(own: &mut Value, default: Value) {
    let Value::Table(own) = own else {
        return;
    };
    if own.contains_key("workspace") || own.keys().any(|key| SOURCE.contains(&key.as_str())) {
        return;
    }
    let default = match default {
        Value::Table(default) => default,
        version => Table::from_iter([("version".to_owned(), version)]),
    };
    for (key, value) in default {
        match (own.get_mut(&key), value) {
            (None, value) => drop(own.insert(key, value)),
            (Some(Value::Array(own)), Value::Array(features)) => own.extend(features),
            _ => {}
        }
    }
}

fn main_rs<'a>(name: &str, version: &str, externs: impl Iterator<Item = &'a String>) -> String {
    let linked: Vec<String> = externs
        .filter(|name| *name != "kopf-rs")
        .map(|name| format!("extern crate {name} as _;\n"))
        .collect();
    format!(
        "// Written by `kopf-rs run`: changes are lost.\n{}\n\
         fn main() -> std::process::ExitCode {{\n    kopf_rs::cli::run({name:?}, {version:?})\n}}\n",
        linked.concat()
    )
}

fn printed(manifest: &Table) -> String {
    format!("# Written by `kopf-rs run`: changes are lost.\n{manifest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_versions_of_this_workspace() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let root: Table = fs::read_to_string(root).unwrap().parse().unwrap();
        let ours = root["workspace"]["dependencies"].as_table().unwrap();
        let version = |value: &Value| {
            let said = value.get("version").unwrap_or(value);
            said.as_str().unwrap().to_owned()
        };
        let defaults: Table = DEFAULTS.parse().unwrap();
        for (name, value) in &defaults {
            assert!(
                version(&ours[name]).starts_with(&version(value)),
                "{name} is {} in the workspace",
                version(&ours[name])
            );
        }
    }

    /// Runs with other features at the same time must not replace each other's crate.
    #[test]
    fn each_choice_of_features_has_a_crate_of_its_own() {
        let folder = |features: &[&str], no_default_features: bool| {
            let script = Script { file: "/w/op.rs".into(), copy: None, manifest: Table::new() };
            let chosen = Features {
                features: features.iter().map(|it| (*it).to_owned()).collect(),
                no_default_features,
            };
            let (target, kopf) = (Path::new("/t"), Kopf::version("=0.1.0"));
            let sources = [Source::Script(script)];
            let runner = Runner::new(&sources, target, Inherited::default(), &kopf, &chosen);
            runner.folder
        };
        let plain = folder(&[], false);
        assert!(plain.starts_with("/t/kopf-run"), "{plain:?}");
        assert_eq!(folder(&[], false), plain);
        assert_ne!(folder(&["a"], false), plain);
        assert_ne!(folder(&["a"], false), folder(&["a", "b"], false));
        assert_ne!(folder(&[], true), plain);
    }

    #[test]
    fn a_single_file_gets_what_it_does_not_name() {
        let script = Script {
            file: "/w/op.rs".into(),
            copy: None,
            manifest: "dependencies.serde_json = '=1.0.1'\nprofile.dev.debug = 2".parse().unwrap(),
        };
        let text = script_manifest(&script, "op", &script.file, &Kopf::version("=0.1.0"));
        let manifest: Table = text.parse().unwrap();
        let dependencies = manifest["dependencies"].as_table().unwrap();
        assert_eq!(dependencies["serde_json"].as_str(), Some("=1.0.1"));
        assert_eq!(dependencies["kopf-rs"]["version"].as_str(), Some("=0.1.0"));
        assert!(dependencies.contains_key("k8s-openapi"));
        assert!(!manifest.contains_key("profile"));
        assert_eq!(manifest["lib"]["path"].as_str(), Some("/w/op.rs"));
        assert_eq!(manifest["package"]["edition"].as_str(), Some("2024"));
    }

    #[test]
    fn a_single_file_may_name_features_only() {
        let text = "kopf-rs.features = ['schemars']\nkube.features = ['derive']\ntracing.optional = true\n\
                    serde = { version = '=1.0.1', features = [] }";
        let manifest = Table::from_iter([("dependencies".to_owned(), text.parse::<Table>().unwrap().into())]);
        let script = Script { file: "/w/op.rs".into(), copy: None, manifest };
        let text = script_manifest(&script, "op", &script.file, &Kopf::at(Path::new("/k")));
        let manifest: Table = text.parse().unwrap();
        let expected: Table = "kopf-rs = { features = ['schemars'], path = '/k' }\n\
            kube = { features = ['derive', 'client'], version = '5', default-features = false }\n\
            tracing = { optional = true, version = '0.1' }\n\
            serde = { version = '=1.0.1', features = [] }"
            .parse()
            .unwrap();
        for (name, expected) in expected {
            assert_eq!(manifest["dependencies"][&name], expected);
        }
    }
}
