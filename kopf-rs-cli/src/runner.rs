//! The generated crate: text for its files, decided from data alone, and written only where it changed.
//!
//! It is a workspace of its own, so it takes over what the user's workspace says about resolver, patches, profiles and versions.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::args::Features;
use crate::locks;
use crate::script::Script;
use crate::source::{Library, Source};
use crate::workspace::{Dependency, Inherited};

/// What single files may use without saying so, beside kopf-rs: the crates kopf-rs itself is made of.
const DEFAULTS: &str = r#"
serde = { version = "1", features = ["derive"] }
serde_json = "1"
tokio = { version = "1", features = ["time", "sync", "macros", "rt"] }
tracing = "0.1"
k8s-openapi = { version = "0.29", default-features = false }
kube = { version = "5", default-features = false, features = ["client"] }
"#;

/// A crate about to be written.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) folder: PathBuf,
    /// The name of the package and of its program.
    pub(crate) name: String,
    /// Files by their path below `folder`.
    files: Vec<(PathBuf, String)>,
    /// The lock files to begin with: packages that one lacks are those of the next.
    locks: Vec<PathBuf>,
    /// Compiled copies, and the user's files they stand for.
    pub(crate) stand_ins: Vec<(PathBuf, PathBuf)>,
}

/// The kopf-rs a runner links, as a dependency in a manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kopf(pub(crate) Table);

/// What operators are linked with, as those of the examples' programs: so that the framework is built once for all of them.
const FEATURES: [&str; 4] = ["cli", "embedded", "metrics", "mimalloc"];

/// The name of the program that asks operators to pause.
const PAUSING: &str = "kopf-run-pause";

/// A generated crate that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}\n  the operator is built there: set CARGO_TARGET_DIR to a folder that can be written", .path.display())]
pub(crate) struct WriteError {
    path: PathBuf,
    error: io::Error,
}

/// Names of packages given so far: in a workspace each may be there once.
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

// === impl Kopf ===

impl Kopf {
    /// That of a folder.
    pub(crate) fn at(folder: &Path) -> Self {
        Self(entry("path", folder.to_string_lossy()))
    }

    /// That of the registry.
    pub(crate) fn version(version: &str) -> Self {
        Self(entry("version", version))
    }

    /// The one a crate has: the same source, so that both are one; which version, its lock file says.
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

    /// As a dependency with the command line switched on and everything else as the user's crates have it.
    fn linked(&self, features: &[&str]) -> Value {
        let mut table = self.0.clone();
        table.insert("default-features".into(), false.into());
        table.insert("features".into(), features.to_vec().into());
        Value::Table(table)
    }
}

// === impl Runner ===

impl Runner {
    /// Decide on everything. `sources` are libraries and scripts only, at least one.
    pub(crate) fn new(
        sources: &[Source],
        target: &Path,
        mut inherited: Inherited,
        kopf: &Kopf,
        chosen: &Features,
    ) -> Self {
        let first = sources.first().map(Source::name).unwrap_or_default();
        let name = format!("kopf-run-{first}-{:08x}", fingerprint(sources));
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
        let mut features = FEATURES.to_vec();
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

    /// A program without handlers, which asks running operators to pause.
    pub(crate) fn pausing(target: &Path, mut inherited: Inherited, kopf: &Kopf) -> Self {
        let mut runner = Self {
            folder: target.join("kopf-run").join("pause"),
            name: PAUSING.to_owned(),
            files: Vec::new(),
            locks: std::mem::take(&mut inherited.locks),
            stand_ins: Vec::new(),
        };
        let features = [&FEATURES[..], &["inventory", "k8s-latest"]].concat();
        let dependencies = Table::from_iter([("kopf-rs".to_owned(), kopf.linked(&features))]);
        let manifest = root_manifest(PAUSING, dependencies, inherited);
        runner.add("Cargo.toml", manifest);
        let main = "// Written by `kopf-rs freeze`: changes are lost.\n\n\
             fn main() -> std::process::ExitCode {\n    kopf_rs::cli::pause()\n}\n";
        runner.add("src/main.rs", main.to_owned());
        runner
    }

    fn add(&mut self, path: impl Into<PathBuf>, text: String) {
        self.files.push((path.into(), text));
    }

    /// A package for a single file, below the runner's folder; gives the dependency on it.
    ///
    /// Cargo tells packages of one target folder apart by their names and their folders' names below the workspace: files of
    /// the same name elsewhere must not be taken for this one.
    fn add_script(
        &mut self,
        script: &Script,
        package: &str,
        kopf: &Kopf,
        chosen: &Features,
    ) -> Table {
        let folder = PathBuf::from(format!("{package}-of-{}", self.name));
        let mut code = script.file.clone();
        if let Some(copy) = &script.copy {
            let below = folder.join(script.file.file_name().unwrap_or_default());
            code = self.folder.join(&below);
            // The compiler names files of the workspace by their path in it.
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

    /// Write what is not there yet as it should be. Untouched files keep their times, so that cargo finds everything fresh.
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

    /// Begins with the user's lock file, and again whenever that one has changed.
    fn write_lock(&self) -> Result<(), WriteError> {
        let texts = self.locks.iter().map(fs::read_to_string);
        let Some(text) = texts
            .filter_map(Result::ok)
            .reduce(|first, second| locks::joined(first, &second))
        else {
            return Ok(());
        };
        let (own, copied) = (
            self.folder.join("Cargo.lock"),
            self.folder.join("Cargo.lock.copied"),
        );
        let current = own.is_file() && fs::read_to_string(&copied).is_ok_and(|last| last == text);
        if current {
            return Ok(());
        }
        write(&own, &text)?;
        write(&copied, &text)
    }
}

fn write(path: &Path, text: &str) -> Result<(), WriteError> {
    let failed = |error| WriteError {
        path: path.to_owned(),
        error,
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}

/// The same for the same sources, so that the next run finds the last one's crate.
fn fingerprint(sources: &[Source]) -> u32 {
    let mut hasher = DefaultHasher::new();
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

/// A library leaves the choice of the Kubernetes version to the program that links it: this one, if nobody else has chosen.
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

/// Only the root of a workspace may say these: a single file's are moved there.
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
    manifest.insert(
        "workspace".into(),
        entry("resolver", inherited.resolver).into(),
    );
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
    let defaults: Table = DEFAULTS.parse().expect("a table");
    for (key, value) in defaults {
        let underscored = key.replace('-', "_");
        let there = dependencies.contains_key(&key) || dependencies.contains_key(&underscored);
        if !there {
            dependencies.insert(key, value);
        }
    }
    dependencies
        .entry("kopf-rs")
        .or_insert_with(|| Value::Table(kopf.0.clone()));
    manifest.insert("dependencies".into(), dependencies.into());
    let lib = entry("path", code.to_string_lossy());
    manifest.insert("lib".into(), lib.into());
    printed(&manifest)
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

fn entry(key: &str, value: impl Into<String>) -> Table {
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
        assert_eq!(
            Kopf::of(&dependency(Some(registry))),
            table("version = '^0.1'")
        );
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

    #[test]
    fn a_single_file_gets_what_it_does_not_name() {
        let script = Script {
            file: "/w/op.rs".into(),
            copy: None,
            manifest: "dependencies.serde_json = '=1.0.1'\nprofile.dev.debug = 2"
                .parse()
                .unwrap(),
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
}
