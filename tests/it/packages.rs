//! The crates that are published on crates.io: which ones, what their manifests tell there, and which files their packages contain.
//!
//! `./test package` packages them, and `./test unpacked` builds them from their packages. This module has the rules that cargo does not check, and
//! those that a build would check late; it must not build anything.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::cli::root;

/// A crate with its folder, and the folder of its workspace.
struct Published {
    name: &'static str,
    folder: &'static str,
    workspace: &'static str,
    /// What its package contains besides the code and the files that every package has.
    more: &'static [&'static str],
}

/// In the order in which they are published: each after those that it depends on.
const PUBLISHED: [Published; 6] = [
    Published {
        name: "kopf-rs-apiserver",
        folder: "apiserver/server",
        workspace: "apiserver",
        more: &["examples/", "tables/", "FIDELITY.md"],
    },
    Published { name: "kopf-rs-schedule", folder: "kopf-rs-schedule", workspace: "", more: &[] },
    Published { name: "kopf-rs-flags", folder: "kopf-rs-flags", workspace: "", more: &[] },
    Published { name: "kopf-rs-macros", folder: "kopf-rs-macros", workspace: "", more: &[] },
    Published { name: "kopf-rs", folder: "kopf-rs", workspace: "", more: &["docs/"] },
    Published { name: "kopf-rs-cli", folder: "kopf-rs-cli", workspace: "", more: &["templates/"] },
];

/// Files of every package. Cargo adds the last four.
const ALWAYS: [&str; 7] = [
    "README.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "Cargo.toml",
    "Cargo.toml.orig",
    "Cargo.lock",
    ".cargo_vcs_info.json",
];

/// The output of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    description: Option<String>,
    license: Option<String>,
    homepage: Option<String>,
    repository: Option<String>,
    documentation: Option<String>,
    readme: Option<String>,
    rust_version: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    /// The registries that it may be published to: `None` for all, and empty for none.
    publish: Option<Vec<String>>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    req: String,
    kind: Option<String>,
    path: Option<String>,
}

fn cargo(folder: &str, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(args).current_dir(root().join(folder)).output();
    let output = output.expect("cargo starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints text")
}

/// Returns the packages of both workspaces that may be published.
fn packages() -> Vec<Package> {
    let args = ["metadata", "--no-deps", "--format-version=1", "--locked"];
    let all = ["", "apiserver"].into_iter().flat_map(|workspace| {
        let metadata: Metadata = serde_json::from_str(&cargo(workspace, &args)).expect("metadata in JSON");
        metadata.packages
    });
    all.filter(|package| package.publish.as_ref().is_none_or(|registries| !registries.is_empty())).collect()
}

// === rules ===

/// Returns the parts of a manifest that crates.io or a reader of it would miss.
fn lacking(package: &Package) -> Vec<&'static str> {
    let texts = [
        ("description", &package.description),
        ("license", &package.license),
        ("homepage", &package.homepage),
        ("repository", &package.repository),
        ("documentation", &package.documentation),
        ("readme", &package.readme),
        ("rust-version", &package.rust_version),
    ];
    let missing = texts.iter().filter(|(_, text)| text.as_deref().is_none_or(str::is_empty));
    let mut lacking: Vec<_> = missing.map(|(key, _)| *key).collect();
    // crates.io refuses more than five, and long ones.
    if !(1..=5).contains(&package.keywords.len()) || package.keywords.iter().any(|it| it.len() > 20) {
        lacking.push("keywords");
    }
    if !(1..=5).contains(&package.categories.len()) {
        lacking.push("categories");
    }
    lacking
}

/// Returns our own dependencies of a package that are published later than it, or that may have another version than it.
fn out_of_order(package: &Package, earlier: &[&str]) -> Vec<String> {
    let ours = package.dependencies.iter().filter(|it| it.path.is_some());
    // Cargo removes dependencies of tests from packages if they name no version.
    let ours = ours.filter(|it| it.kind.as_deref() != Some("dev") || it.req != "*");
    let exact = format!("={}", package.version);
    ours.filter(|it| !earlier.contains(&&*it.name) || it.req != exact)
        .map(|it| format!("{} {}", it.name, it.req))
        .collect()
}

/// Returns the files that a package has and need not have, or the other way round.
fn wrong_files(files: &str, more: &[&str]) -> Vec<String> {
    let files: BTreeSet<&str> = files.lines().collect();
    let missing =
        ALWAYS.iter().filter(|file| !files.contains(*file)).map(|file| format!("{file} is missing"));
    let known = |file: &str| {
        let folders = more.iter().chain(&["src/"]);
        ALWAYS.contains(&file) || folders.into_iter().any(|start| file.starts_with(start))
    };
    let foreign = files.iter().filter(|file| !known(file)).map(|file| format!("{file} is of no use"));
    missing.chain(foreign).collect()
}

/// Returns the files that the code of a package includes, but that the package does not contain. Only tests may do so: nobody runs
/// those of a package.
fn left_out(file: &str, code: &str, files: &BTreeSet<&str>) -> Vec<String> {
    let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut before = "";
    let mut included = Vec::new();
    for line in code.lines() {
        let is_built = !before.contains("doctest") && !line.trim_start().starts_with("//");
        let rest = line.split_once("include_str!(\"").filter(|_| is_built);
        included.extend(rest.and_then(|(_, rest)| rest.split('"').next()));
        before = line;
    }
    let missing = included.iter().map(|name| beside(file, name)).filter(|path| !files.contains(&**path));
    missing.map(|path| format!("{file} includes {path}")).collect()
}

/// Returns the path of a file that another one names relative to itself.
fn beside(file: &str, name: &str) -> String {
    let mut path: Vec<&str> = file.split('/').collect();
    path.pop();
    for part in name.split('/') {
        match part {
            ".." if path.last().is_some_and(|last| *last != "..") => {
                path.pop();
            }
            part => path.push(part),
        }
    }
    path.join("/")
}

/// Returns the lines of manifests in a page that name another version of our crates.
fn other_versions<'a>(page: &'a str, version: &str) -> Vec<&'a str> {
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    let lines = page.lines().filter(|line| line.starts_with("kopf-rs") && line.contains("= "));
    lines.filter(|line| !line.contains(&format!("\"{minor}\""))).collect()
}

/// Returns the first Rust code of a page.
fn example(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("```rust")?;
    let (_, code) = rest.split_once('\n')?;
    code.split_once("```").map(|(code, _)| code)
}

// === the crates ===

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn manifests_tell_what_crates_io_shows() {
    let packages = packages();
    let names: BTreeSet<&str> = packages.iter().map(|it| &*it.name).collect();
    assert_eq!(
        names,
        PUBLISHED.iter().map(|it| it.name).collect(),
        "`publish = false` is missing, or a row here"
    );
    let versions: BTreeSet<&str> = packages.iter().map(|it| &*it.version).collect();
    assert_eq!(versions.len(), 1, "all crates have one version: {versions:?}");
    let mut wrong = Vec::new();
    for package in &packages {
        let at = PUBLISHED.iter().position(|it| it.name == package.name).expect("just compared");
        let earlier: Vec<&str> = PUBLISHED[..at].iter().map(|it| it.name).collect();
        wrong.extend(lacking(package).iter().map(|key| format!("{}: {key} is missing or bad", package.name)));
        let late = out_of_order(package, &earlier);
        wrong.extend(late.iter().map(|it| format!("{}: depends on {it}", package.name)));
        let page = page(&format!("{}/README.md", PUBLISHED[at].folder));
        wrong.extend(
            other_versions(&page, &package.version).iter().map(|it| format!("{}: {it}", package.name)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn packages_contain_what_a_build_needs() {
    let mut wrong = Vec::new();
    for Published { name, folder, workspace, more } in &PUBLISHED {
        let files = cargo(workspace, &["package", "--list", "--allow-dirty", "--offline", "-p", name]);
        wrong.extend(wrong_files(&files, more).into_iter().map(|it| format!("{name}: {it}")));
        let files: BTreeSet<&str> = files.lines().collect();
        for file in files.iter().filter(|file| Path::new(file).extension() == Some("rs".as_ref())) {
            let code = page(&format!("{folder}/{file}"));
            wrong.extend(left_out(file, &code, &files).into_iter().map(|it| format!("{name}: {it}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The doctests of the crates compile these examples.
#[test]
fn examples_of_the_pages_are_compiled_elsewhere() {
    let code = page("kopf-rs/README.md");
    let code = example(&code).expect("an example");
    assert!(page("README.md").contains(code), "README.md has another example:\n{code}");
    let schedule = page("kopf-rs-schedule/README.md");
    let schedule = example(&schedule).expect("an example");
    let source = page("kopf-rs-schedule/src/lib.rs");
    let lines = source.lines().filter_map(|line| line.strip_prefix("///"));
    let documented: Vec<_> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    assert!(documented.join("\n").contains(schedule), "lib.rs has another example:\n{schedule}");
    for Published { name, folder, .. } in &PUBLISHED {
        let page = page(&format!("{folder}/README.md"));
        let own = Path::new(folder).starts_with("apiserver");
        let known = ["kopf-rs", "kopf-rs-schedule"].contains(name) || own;
        assert!(known || example(&page).is_none(), "{name}: nothing compiles the example of its README");
    }
}

// === bad inputs ===

#[test]
fn each_rule_finds_a_bad_package() {
    let text = |it: &str| Some(it.to_owned());
    let dependency = |name: &str, req: &str, kind: Option<&str>| Dependency {
        name: name.to_owned(),
        req: req.to_owned(),
        kind: kind.map(str::to_owned),
        path: text("/there"),
    };
    let package = Package {
        name: "a".to_owned(),
        version: "1.2.3".to_owned(),
        description: text("It does."),
        license: text("MIT"),
        homepage: None,
        repository: text("https://example.com"),
        documentation: text(""),
        readme: text("README.md"),
        rust_version: text("1.89"),
        keywords: ["a", "b", "c", "d", "e", "f"].map(str::to_owned).into(),
        categories: Vec::new(),
        publish: None,
        dependencies: vec![
            dependency("earlier", "=1.2.3", None),
            dependency("later", "=1.2.3", None),
            dependency("earlier", "^1.2.3", None),
            dependency("tests", "*", Some("dev")),
        ],
    };
    assert_eq!(lacking(&package), ["homepage", "documentation", "keywords", "categories"]);
    assert_eq!(out_of_order(&package, &["earlier"]), ["later =1.2.3", "earlier ^1.2.3"]);
    let files = "README.md\nLICENSE-MIT\nCargo.toml\nCargo.toml.orig\nCargo.lock\n.cargo_vcs_info.json\nsrc/lib.rs\ntests/it.rs\ndocs/a.md";
    assert_eq!(wrong_files(files, &["docs/"]), ["LICENSE-APACHE is missing", "tests/it.rs is of no use"]);
    let code = "a(include_str!(\"../docs/a.md\"));\n// include_str!(\"b\")\n#[cfg(doctest)]\n#[doc = include_str!(\"../../c.md\")]\nstruct C;\n\
                #[doc = include_str!(\"../../d.md\")]\nstruct D;\n#[cfg(test)]\nmod tests {\ninclude_str!(\"e\")";
    let there = BTreeSet::from(["docs/a.md"]);
    assert_eq!(left_out("src/lib.rs", code, &there), ["src/lib.rs includes ../d.md"]);
    let page = "kopf-rs = \"1.1\"\nkopf-rs = { version = \"1.2\" }\nkopf-rs is a framework\nserde = \"1\"";
    assert_eq!(other_versions(page, "1.2.3"), ["kopf-rs = \"1.1\""]);
    assert_eq!(example("a\n```rust,no_run\nb();\n```\n```rust\nc();\n```"), Some("b();\n"));
    assert_eq!(example("```sh\na\n```"), None);
}
