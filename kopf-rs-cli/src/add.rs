//! `kopf-rs add`: adds a module with a kind, a webhook or a conversion to a crate that depends on kopf-rs.
//!
//! Overwrites nothing, and removes its files after a failure, as `kopf-rs new` does. Of the files of the crate, it changes only the one that
//! declares the module.

mod sources;
mod templates;

use std::fs;
use std::path::{Path, PathBuf};

use crate::add::sources::{FoundKind, Sources, with_module};
use crate::add::templates::Addition;
use crate::args::{Add, AddWhat};
use crate::cargo::{self, CargoError};
use crate::kopf::{Kopf, TESTING};
use crate::new::{NewError, Written, format};
use crate::workspace::Package;

/// Why nothing is added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddError {
    #[error(
        "{} has no Cargo.toml\n  expected the folder of a crate that depends on kopf-rs: go there, or name it by --path; `kopf-rs new NAME` creates one",
        .0.display()
    )]
    NoCrate(PathBuf),
    #[error(
        "{}: package `{package}` has no library\n  expected src/lib.rs with the annotated functions; move them there, and write `kopf_rs::main!(the_library);` into src/main.rs",
        .path.display()
    )]
    NoLibrary { path: PathBuf, package: String },
    #[error(
        "{}: package `{package}` lacks dependencies or their features, which the added code uses: {}\n  run in the folder of the package: {command}",
        .path.display(), .missing.join(", ")
    )]
    Lacks { path: PathBuf, package: String, missing: Vec<String>, command: String },
    #[error("{} exists\n  `kopf-rs add` overwrites nothing: remove the file, or choose another name", .0.display())]
    Exists(PathBuf),
    #[error("{}, line {line} declares the module `{module}` already\n  `kopf-rs add` overwrites nothing: remove it, or choose another name", .file.display())]
    Declared { file: PathBuf, line: usize, module: String },
    #[error("{} defines the kind {kind} already\n  expected a new kind; `kopf-rs add conversion` adds another version of it", .file.display())]
    KindExists { file: PathBuf, kind: String },
    #[error("{} defines the version {version} of {kind} already\n  expected a new version, such as `kopf-rs add conversion {free}`", .file.display())]
    VersionExists { file: PathBuf, kind: String, version: String, free: String },
    #[error(
        "{}: the library defines no kind{wanted}\n  expected a type with `#[kube(group = \"..\", version = \"..\", kind = \"..\")]`{found}; `kopf-rs add kind` adds one",
        .path.display()
    )]
    NoKind { path: PathBuf, wanted: String, found: String },
    #[error("{}: the library defines several kinds: {}\n  expected --kind with one of them", .path.display(), .kinds.join(", "))]
    WhichKind { path: PathBuf, kinds: Vec<String> },
    #[error("`{0}` is no version: expected one such as v2 or v1beta1")]
    Version(String),
    #[error(
        "cannot derive the next version from {0}\n  expected the version to add, such as `kopf-rs add conversion v2`"
    )]
    NoNext(String),
    #[error(transparent)]
    Cargo(#[from] CargoError),
    #[error(transparent)]
    Write(#[from] NewError),
}

impl AddError {
    /// Returns whether the input is invalid, as opposed to a failed operation.
    pub(crate) fn is_wrong_usage(&self) -> bool {
        match self {
            Self::Cargo(error) => error.is_wrong_usage(),
            Self::Write(error) => error.is_wrong_usage(),
            _ => true,
        }
    }
}

/// The crate to extend.
struct Crate {
    /// The folder as the user has typed it.
    shown: PathBuf,
    sources: Sources,
}

/// Adds the module, and prints the changed files.
pub(crate) fn add(args: &Add) -> Result<(), AddError> {
    let krate = Crate::find(&args.path)?;
    match &args.what {
        AddWhat::Kind { kind, reconcile } => {
            let kinds = krate.sources.kinds();
            if let Some(found) = kinds.iter().find(|it| it.kind == kind.name && it.group == kind.group) {
                return Err(AddError::KindExists { file: found.file.clone(), kind: kind.to_string() });
            }
            krate.write(&Addition::kind(kind, *reconcile), &krate.sources.root)
        }
        AddWhat::Webhook { kind } => {
            let kind = krate.kind(kind.as_deref())?;
            let is_ambiguous = is_ambiguous(&krate.sources.stored_kinds(), &kind.kind);
            krate.write(&Addition::webhook(&kind, is_ambiguous), &krate.sources.root)
        }
        AddWhat::Conversion { version, kind } => {
            let kind = krate.kind(kind.as_deref())?;
            let version = krate.version(version.as_deref(), &kind)?;
            krate.write(&Addition::conversion(&kind, &version), &kind.file)
        }
    }
}

impl Crate {
    fn find(folder: &Path) -> Result<Self, AddError> {
        let shown = folder.to_owned();
        let manifest = shown.join("Cargo.toml");
        let Some(manifest) = manifest.canonicalize().ok().filter(|it| it.is_file()) else {
            return Err(AddError::NoCrate(shown));
        };
        let workspace = cargo::metadata(&manifest, &["--offline".into()])?;
        let Some(package) = workspace.packages.iter().find(|it| it.manifest_path == manifest) else {
            return Err(AddError::NoCrate(shown));
        };
        check_dependencies(package, &shown)?;
        let no_library = || AddError::NoLibrary { path: shown.clone(), package: package.name.clone() };
        let library = package.library().ok_or_else(no_library)?;
        let below = library.src_path.strip_prefix(package.folder()).unwrap_or(&library.src_path);
        let sources = Sources::read(&shown.join(below));
        Ok(Self { shown, sources })
    }

    /// Returns the kind of this name, or the only one.
    fn kind(&self, wanted: Option<&str>) -> Result<FoundKind, AddError> {
        let kinds = self.sources.stored_kinds();
        let shown =
            |it: &FoundKind| if is_ambiguous(&kinds, &it.kind) { it.full_name() } else { it.kind.clone() };
        let names: Vec<String> = kinds.iter().map(shown).collect();
        let is_wanted =
            |it: &&FoundKind| wanted.is_none_or(|wanted| it.kind == wanted || it.full_name() == wanted);
        let fits: Vec<&FoundKind> = kinds.iter().filter(is_wanted).collect();
        match fits[..] {
            [only] => Ok(only.clone()),
            [] => Err(AddError::NoKind {
                path: self.shown.clone(),
                wanted: wanted.map(|it| format!(" `{it}`")).unwrap_or_default(),
                found: if names.is_empty() {
                    String::new()
                } else {
                    format!(", or one of {}", names.join(", "))
                },
            }),
            _ => Err(AddError::WhichKind { path: self.shown.clone(), kinds: names }),
        }
    }

    /// Returns the version to add: the wanted one, or the next one that the kind does not have.
    fn version(&self, wanted: Option<&str>, kind: &FoundKind) -> Result<String, AddError> {
        let mut all = self.sources.kinds();
        all.retain(|it| (&it.group, &it.kind) == (&kind.group, &kind.kind));
        let find = |version: &str| all.iter().find(|it| it.version == version);
        let free = std::iter::successors(next(&kind.version), |it| next(it)).find(|it| find(it).is_none());
        let Some(version) = wanted.map(str::to_owned) else {
            return free.ok_or_else(|| AddError::NoNext(kind.version.clone()));
        };
        let is_fit = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
        let number = version.strip_prefix('v').unwrap_or_default();
        if !number.starts_with(|it: char| it.is_ascii_digit()) || !number.chars().all(is_fit) {
            return Err(AddError::Version(version));
        }
        let Some(found) = find(&version) else { return Ok(version) };
        let (file, kind, free) = (found.file.clone(), found.kind.clone(), free.unwrap_or_default());
        Err(AddError::VersionExists { file, kind, version, free })
    }

    /// Writes the files, and declares the module in `parent`.
    fn write(&self, addition: &Addition, parent: &Path) -> Result<(), AddError> {
        let read = |error| NewError::Write { path: parent.to_owned(), error };
        let text = fs::read_to_string(parent).map_err(read)?;
        let module = &addition.module;
        if let Some(line) = sources::declares(&text, module) {
            return Err(AddError::Declared { file: parent.to_owned(), line, module: module.clone() });
        }
        let folder = sources::folder_of(parent);
        let mut files = vec![(folder.join(format!("{module}.rs")), addition.code.clone())];
        files.extend(addition.tests.iter().map(|text| (folder.join(module).join("tests.rs"), text.clone())));
        let mut all = files.clone();
        all.extend(addition.sample.iter().map(|(name, text)| (self.shown.join(name), text.clone())));
        for path in all.iter().map(|(path, _)| path).chain([&folder.join(module).join("mod.rs")]) {
            if path.exists() {
                return Err(AddError::Exists(path.clone()));
            }
        }
        let mut written = Written::default();
        for (path, text) in &all {
            written.file(path, text)?;
        }
        format(&files.into_iter().map(|(path, _)| path).collect::<Vec<_>>());
        let (changed, advice) = addition.registered(with_module(&text, module));
        replace(parent, &changed, &mut written)?;
        written.keep();
        for (path, _) in &all {
            eprintln!("Added {}", shown(path));
        }
        eprintln!("Changed {}: it declares the module `{module}`", shown(parent));
        if let Some(advice) = advice {
            eprintln!("{advice}");
        }
        eprintln!("Next: cargo test");
        Ok(())
    }
}

/// Returns whether several groups have a kind of this name.
fn is_ambiguous(kinds: &[FoundKind], kind: &str) -> bool {
    kinds.iter().filter(|it| it.kind == kind).count() > 1
}

/// Returns a path in the current folder without its `./`.
fn shown(path: &Path) -> std::path::Display<'_> {
    path.strip_prefix(".").unwrap_or(path).display()
}

/// Replaces a file by a complete new one, because a full disk would leave an empty file after a write into it.
fn replace(file: &Path, text: &str, written: &mut Written) -> Result<(), NewError> {
    let failed = |error| NewError::Write { path: file.to_owned(), error };
    // A link stays a link.
    let file = file.canonicalize().map_err(failed)?;
    let beside = file.with_extension("rs.tmp");
    written.file(&beside, text)?;
    let permissions = fs::metadata(&file).map_err(failed)?.permissions();
    fs::set_permissions(&beside, permissions).and_then(|()| fs::rename(&beside, &file)).map_err(failed)
}

/// Fails if the crate lacks a dependency, or a feature of one, that the added code uses.
fn check_dependencies(package: &Package, shown: &Path) -> Result<(), AddError> {
    const NEEDED: [(&str, Option<&str>); 6] = [
        ("k8s-openapi", None),
        ("kopf-rs", Some("schemars")),
        ("kube", Some("derive")),
        ("schemars", None),
        ("serde", Some("derive")),
        ("serde_json", None),
    ];
    let (mut missing, mut commands) = (Vec::new(), Vec::new());
    for (name, feature) in NEEDED {
        let found = package.dependency(name);
        let lacking = feature.filter(|it| !package.enables(name, it, false));
        let flag = lacking.map(|it| format!(" --features {it}")).unwrap_or_default();
        match (found, lacking) {
            (Some(_), None) => continue,
            (Some(_), Some(feature)) => missing.push(format!("{name} (features: {feature})")),
            (None, _) => missing.push(name.to_owned()),
        }
        let is_kopf_missing = name == "kopf-rs" && found.is_none();
        commands.push(if is_kopf_missing {
            Kopf::own().cargo_add()
        } else {
            format!("cargo add {name}{flag}")
        });
    }
    if !package.enables("kopf-rs", TESTING, true) {
        let kopf = package.dependency("kopf-rs").map_or_else(Kopf::own, Kopf::of);
        missing.push(format!("kopf-rs for tests (features: {TESTING})"));
        commands.push(kopf.cargo_add_for_tests());
    }
    let has_tokio =
        package.dependencies.iter().any(|it| it.name == "tokio" && it.kind.as_deref() != Some("build"));
    if !has_tokio {
        missing.push("tokio for tests".to_owned());
        commands.push("cargo add --dev tokio --features macros,rt,test-util".to_owned());
    }
    if missing.is_empty() {
        return Ok(());
    }
    let (package, command) = (package.name.clone(), commands.join(" && "));
    Err(AddError::Lacks { path: shown.to_owned(), package, missing, command })
}

/// Returns the version that usually follows: v1alpha1, v1beta1, v1, v2.
fn next(version: &str) -> Option<String> {
    let number = version.strip_prefix('v')?;
    if let Some((major, _)) = number.split_once("alpha") {
        return Some(format!("v{major}beta1"));
    }
    if let Some((major, _)) = number.split_once("beta") {
        return Some(format!("v{major}"));
    }
    let number: u32 = number.parse().ok()?;
    Some(format!("v{}", number.checked_add(1)?))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;
    use crate::args::{Cli, Subcommand};

    const MANIFEST: &str = "[package]\nname = 'op'\nedition = '2024'\n[workspace]\n[dependencies]\nk8s-openapi = '0.29'\nschemars = '1'\n\
        serde_json = '1'\nserde = { version = '1', features = ['derive'] }\nkube = { version = '5', features = ['derive'] }\n\
        kopf-rs = { version = '0.1', features = ['schemars', 'testing'] }\n[dev-dependencies]\ntokio = '1'\n";

    const LIB: &str = "//! An operator.\n\nuse kopf_rs::prelude::*;\n\n#[derive(CustomResource)]\n\
        #[kube(group = \"example.com\", version = \"v1\", kind = \"Demo\")]\npub struct DemoSpec {\n    a: String,\n}\n";

    /// A folder of one test, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let path = std::env::temp_dir().join(format!("kopf-rs-add-{name}-{}", std::process::id()));
            let _old = fs::remove_dir_all(&path);
            fs::create_dir_all(path.join("src")).unwrap();
            for (below, text) in files {
                fs::write(path.join(below), text).unwrap();
            }
            Self(path)
        }

        fn run(&self, line: &str) -> Result<(), String> {
            let words = ["kopf-rs", "add"].into_iter().chain(line.split(' '));
            let words = words.chain(["--path", self.0.to_str().unwrap()]);
            let matches = Cli::command().try_get_matches_from(words).map_err(|error| error.to_string())?;
            let Subcommand::Add(args) = Cli::from_arg_matches(&matches).unwrap().command else {
                panic!("not `add`");
            };
            add(&args).map_err(|error| error.to_string())
        }

        fn text(&self, below: &str) -> String {
            fs::read_to_string(self.0.join(below)).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _removed = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn modules_are_added_beside_the_code_that_is_there() {
        let folder = Folder::new("all", &[("Cargo.toml", MANIFEST), ("src/lib.rs", LIB)]);
        folder.run("webhook").unwrap();
        folder.run("conversion").unwrap();
        folder.run("kind shop.example.org/v1/Order").unwrap();
        let declared =
            "//! An operator.\n\npub mod order;\npub mod v2;\npub mod demo_webhook;\n\nuse kopf_rs";
        assert!(folder.text("src/lib.rs").starts_with(declared), "{}", folder.text("src/lib.rs"));
        assert!(folder.text("src/v2.rs").contains("pub fn demo_from_v2(spec: DemoSpec)"));
        assert!(folder.text("src/demo_webhook.rs").contains("use crate::Demo;"));
        assert!(folder.text("order.yaml").starts_with("apiVersion: shop.example.org/v1\nkind: Order\n"));
        assert!(folder.text("src/order/tests.rs").contains("include_str!(\"../../order.yaml\")"));
        folder.run("webhook --kind Order").unwrap();
        assert!(folder.text("src/order_webhook.rs").contains("use crate::order::Order;"));
        folder.run("conversion --kind Demo").unwrap();
        assert!(folder.text("src/v3.rs").contains("pub fn demo_from_v3(spec: DemoSpec)"));
        let refused = folder.run("conversion v2 --kind Demo").unwrap_err();
        assert!(refused.contains("such as `kopf-rs add conversion v4`"), "{refused}");
    }

    #[test]
    fn kinds_of_one_name_are_told_apart_by_their_groups() {
        let folder = Folder::new("same", &[("Cargo.toml", MANIFEST), ("src/lib.rs", LIB)]);
        folder.run("kind other.org/v1/Demo").unwrap();
        for line in ["webhook", "webhook --kind Demo"] {
            let refused = folder.run(line).unwrap_err();
            assert!(refused.contains("several kinds: other.org/v1/Demo, example.com/v1/Demo"), "{refused}");
        }
        folder.run("webhook --kind other.org/v1/Demo").unwrap();
        folder.run("webhook --kind example.com/v1/Demo").unwrap();
        let other = folder.text("src/demo_other_org_webhook.rs");
        assert!(
            other.contains("use crate::demo::Demo;") && other.contains("check_demo_other_org("),
            "{other}"
        );
        assert!(folder.text("src/demo_example_com_webhook.rs").contains("use crate::Demo;"));
    }

    #[test]
    fn the_changed_file_is_complete_at_every_moment() {
        let folder = Folder::new("moment", &[("Cargo.toml", MANIFEST), ("src/lib.rs", LIB)]);
        // A write into the file itself would also change this second name of it.
        fs::hard_link(folder.0.join("src/lib.rs"), folder.0.join("src/former.txt")).unwrap();
        folder.run("webhook").unwrap();
        assert!(folder.text("src/lib.rs").contains("pub mod demo_webhook;"));
        assert_eq!(folder.text("src/former.txt"), LIB);
    }

    #[test]
    fn nothing_is_changed_where_something_is_wrong() {
        let files = [
            ("Cargo.toml", MANIFEST),
            ("src/lib.rs", LIB),
            ("src/demo_webhook.rs", "mine"),
            ("ab.yaml", "mine"),
        ];
        let folder = Folder::new("wrong", &files);
        for (line, said) in [
            ("webhook", "demo_webhook.rs exists\n  `kopf-rs add` overwrites nothing"),
            ("kind example.org/v1/Ab", "ab.yaml exists"),
            ("kind example.com/v2/Demo", "lib.rs defines the kind example.com/v2/Demo already"),
            ("kind Demo", "expected three parts, such as example.com/v1/Backup"),
            ("webhook --kind Other", "defines no kind `Other`\n  expected a type with `#[kube("),
            ("conversion v1", "defines the version v1 of Demo already"),
            ("conversion stable", "`stable` is no version: expected one such as v2"),
        ] {
            let refused = folder.run(line).unwrap_err();
            assert!(refused.contains(said), "{line}: {refused}");
        }
        assert_eq!((folder.text("src/lib.rs"), folder.text("ab.yaml")), (LIB.to_owned(), "mine".to_owned()));
        assert!(!folder.0.join("src/ab.rs").exists());
        fs::write(folder.0.join("src/lib.rs"), format!("{LIB}\nmod order;\n")).unwrap();
        let refused = folder.run("kind example.org/v1/Order").unwrap_err();
        assert!(refused.contains("lib.rs, line 11 declares the module `order` already"), "{refused}");
    }

    #[test]
    fn a_folder_without_kopf_is_refused() {
        let empty = Folder::new("empty", &[]);
        assert!(
            empty.run("webhook").unwrap_err().contains("has no Cargo.toml\n  expected the folder of a crate")
        );
        let plain = "[package]\nname = 'plain'\nedition = '2024'\n[workspace]\n[dependencies]\nkube = '5'\n";
        let plain = Folder::new("plain", &[("Cargo.toml", plain), ("src/lib.rs", "")]);
        let refused = plain.run("kind example.org/v1/Order").unwrap_err();
        assert!(
            refused.contains("package `plain` lacks") && refused.contains("kube (features: derive)"),
            "{refused}"
        );
        assert!(refused.contains(&Kopf::own().cargo_add()), "{refused}");
        let untested = MANIFEST.replace(", 'testing'", "");
        let enabled = format!("{untested}[features]\ndefault = ['a']\na = ['kopf-rs/testing']\n");
        let disabled = enabled.replace("default = ['a']", "");
        let refused = |manifest: &str| {
            let folder = Folder::new("untested", &[("Cargo.toml", manifest), ("src/lib.rs", LIB)]);
            folder.run("webhook").err()
        };
        for manifest in [&untested, &disabled] {
            let refused = refused(manifest).unwrap();
            assert!(refused.ends_with("cargo add --dev 'kopf-rs@^0.1' --features testing"), "{refused}");
        }
        assert_eq!(refused(&enabled), None);
    }

    #[test]
    fn versions_follow_each_other() {
        for (version, expected) in [
            ("v1alpha1", Some("v1beta1")),
            ("v1beta2", Some("v1")),
            ("v1", Some("v2")),
            ("v9", Some("v10")),
            ("stable", None),
        ] {
            assert_eq!(next(version).as_deref(), expected, "{version}");
        }
    }
}
