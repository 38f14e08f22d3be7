//! The text of each file of a new operator, and the commands to run next. Pure.
//!
//! The templates are the files in `templates/`. They contain only what the user is to own: what depends on the code, such as the
//! definition of the kind, is made from the code at run time.

use std::path::Path;

use kopf_rs_flags::shell_word;

use crate::kopf::{FEATURES, Kopf};
use crate::new::names::{Kind, Name, snake_case};

/// The facts of a new operator.
#[derive(Debug)]
pub(super) struct Operator {
    pub(super) name: Name,
    pub(super) kind: Kind,
    /// True if it has a reconcile function, in place of a handler of events.
    pub(super) reconcile: bool,
}

/// Values by the names that stand in `{{braces}}` for them.
type Values<'a> = &'a [(&'a str, &'a str)];

/// The repository of kopf-rs, for machines that do not have the checkout.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

const CODE: &str = include_str!("../../templates/code.rs.in");
const SINGLE: &str = include_str!("../../templates/single.rs.in");
const EVENT: &str = include_str!("../../templates/event.rs.in");
const EVENT_TESTS: &str = include_str!("../../templates/event_tests.rs.in");
const RECONCILE: &str = include_str!("../../templates/reconcile.rs.in");
const RECONCILE_TESTS: &str = include_str!("../../templates/reconcile_tests.rs.in");
const MODULE: &str = include_str!("../../templates/module.rs.in");
const SAMPLE: &str = include_str!("../../templates/sample.yaml.in");
const CRATE: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../templates/Cargo.toml.in")),
    ("src/lib.rs", include_str!("../../templates/lib.rs.in")),
    ("src/main.rs", include_str!("../../templates/main.rs.in")),
    ("sample.yaml", SAMPLE),
    ("README.md", include_str!("../../templates/README.md.in")),
    ("Dockerfile", include_str!("../../templates/Dockerfile.in")),
    (".dockerignore", include_str!("../../templates/dockerignore.in")),
    (".gitignore", include_str!("../../templates/gitignore.in")),
    (".github/workflows/ci.yml", include_str!("../../templates/ci.yml.in")),
];

impl Operator {
    /// Returns the files of the crate by their paths; `kopf` is the kopf-rs that it depends on.
    pub(super) fn crate_files(&self, kopf: &Kopf) -> Vec<(&'static str, String)> {
        let (kopf, note) = dependency(kopf);
        let code = self.code();
        let more = [("code", &*code), ("kopf", &kopf), ("note", &note)];
        let tests = if self.reconcile { RECONCILE_TESTS } else { EVENT_TESTS };
        let tests = ("src/tests.rs", tests);
        let files = CRATE.iter().chain([&tests]);
        files.map(|&(path, template)| (path, self.filled(template, &more))).collect()
    }

    /// Returns the text of a file that is the whole operator.
    pub(super) fn single_file(&self, path: &Path) -> String {
        let (code, next) = (self.code(), self.try_command(path));
        let next = next.replace('\n', "\n//! ");
        self.filled(SINGLE, &[("code", &code), ("try", &next)])
    }

    fn code(&self) -> String {
        code(&self.kind, self.reconcile, "")
    }

    fn filled(&self, template: &str, more: Values<'_>) -> String {
        let (name, of_crate) = (self.name.to_string(), self.name.of_crate());
        let own = [("name", &*name), ("crate", &*of_crate), ("suffix", ""), ("sample", "../sample.yaml")];
        let values: Vec<_> = own.into_iter().chain(more.iter().copied()).collect();
        filled(&self.kind, template, &values)
    }

    /// Returns the text at the end of `kopf-rs new` for a crate.
    pub(super) fn next_for_crate(&self, folder: &Path) -> String {
        let (Self { name, kind, .. }, at) = (self, shell_word(folder));
        let enter = if at == "." { String::new() } else { format!("  cd {at}\n") };
        format!(
            "Created the operator `{name}` for the kind {kind}. Next:\n\n{enter}  \
             cargo test                                              # the first build takes some minutes\n  \
             kopf-rs run . --embedded --apply sample.yaml --once     # needs no cluster\n\n\
             Then change the handler in src/lib.rs. README.md has the other commands.\n"
        )
    }

    /// Returns the text at the end of `kopf-rs new --single-file`.
    pub(super) fn next_for_file(&self, file: &Path) -> String {
        let command = self.try_command(file).replace('\n', "\n  ");
        format!(
            "Created {} for the kind {}. Next, without a cluster:\n\n  {command}\n",
            file.display(),
            self.kind
        )
    }

    /// Returns the command that shows a single file at work.
    fn try_command(&self, file: &Path) -> String {
        let Kind { group, version, name: kind } = &self.kind;
        format!(
            "echo '{{apiVersion: {group}/{version}, kind: {kind}, metadata: {{name: sample}}, spec: {{message: hello}}}}' |\n  \
             kopf-rs run {} --embedded --apply - --once",
            shell_word(file)
        )
    }
}

/// Returns the code of a kind with its handler. The suffix makes the names of its functions unique in a crate.
fn code(kind: &Kind, reconcile: bool, suffix: &str) -> String {
    let suffix = ("suffix", suffix);
    let handler = filled(kind, if reconcile { RECONCILE } else { EVENT }, &[suffix]);
    filled(kind, CODE, &[("handler", &handler), suffix])
}

/// Returns the module of a further kind of a crate, its tests, and the sample, which the tests find at that path.
pub(crate) fn further_kind(kind: &Kind, sample: &str, reconcile: bool) -> [String; 3] {
    let suffix = format!("_{}", snake_case(&kind.name));
    let code = code(kind, reconcile, &suffix);
    let tests = if reconcile { RECONCILE_TESTS } else { EVENT_TESTS };
    [
        filled(kind, MODULE, &[("code", &code)]),
        filled(kind, tests, &[("suffix", &suffix), ("sample", sample)]),
        filled(kind, SAMPLE, &[]),
    ]
}

fn filled(kind: &Kind, template: &str, more: Values<'_>) -> String {
    let plural = kind.plural();
    let own =
        [("kind", &*kind.name), ("plural", &*plural), ("group", &*kind.group), ("version", &*kind.version)];
    let values: Vec<_> = own.into_iter().chain(more.iter().copied()).collect();
    let text = fill(template, &values);
    format!("{}\n", text.trim_end())
}

/// Returns the dependency on kopf-rs as a line of a manifest, and a note for the README if the line fits this machine only.
fn dependency(kopf: &Kopf) -> (String, String) {
    let features = format!("features = {FEATURES:?}");
    // A single file takes exactly the version of this program; a crate has a lock file.
    let source = |(key, value): (&String, &toml::Value)| match value {
        toml::Value::String(text) if key == "version" => {
            format!("version = {:?}", text.trim_start_matches('='))
        }
        value => format!("{key} = {value}"),
    };
    let source: Vec<_> = kopf.0.iter().map(source).collect();
    let line = format!("kopf-rs = {{ {}, {features} }}", source.join(", "));
    if !kopf.0.contains_key("path") {
        return (line, String::new());
    }
    let there = format!("git = \"{REPOSITORY}\"");
    (
        format!(
            "# A folder of this machine: for images, CI and other machines, write `{there}` in place of `path`.\n{line}"
        ),
        format!(
            "- `Cargo.toml` names kopf-rs by its folder on this machine. Before you build the image, use CI or share the crate, write there\n  \
             `{there}` in place of `path`, and run `cargo test`, which adapts `Cargo.lock`."
        ),
    )
}

/// Replaces each `{{name}}` by its value. Values are not searched for names.
pub(crate) fn fill(template: &str, values: Values<'_>) -> String {
    let mut parts = template.split("{{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let found = values.iter().find_map(|(name, value)| {
            let after = part.strip_prefix(name)?.strip_prefix("}}")?;
            Some((*value, after))
        });
        // Unknown names stay as they are, and the tests find them.
        let (value, after) = found.unwrap_or(("{{", part));
        text.extend([value, after]);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use toml::Table;

    use super::*;
    use crate::script::Script;

    fn operator(reconcile: bool) -> Operator {
        let kind = "shop.example.com/v1beta1/Proxy".parse().unwrap();
        Operator { name: Name::new("my-proxy").unwrap(), kind, reconcile }
    }

    fn files(reconcile: bool, kopf: &Kopf) -> BTreeMap<&'static str, String> {
        operator(reconcile).crate_files(kopf).into_iter().collect()
    }

    #[test]
    fn values_are_filled_in_and_not_searched() {
        let values = [("a", "{{b}}"), ("b", "2"), ("ab", "3")];
        assert_eq!(fill("{{a}} {{b}}{{ab}} {{c}} {x}", &values), "{{b}} 23 {{c}} {x}");
    }

    #[test]
    fn no_name_stays_in_braces() {
        let kopf = Kopf::at(Path::new("/w/kopf-rs"));
        for reconcile in [false, true] {
            let single = operator(reconcile).single_file(Path::new("my-proxy.rs"));
            for text in files(reconcile, &kopf).values().chain([&single]) {
                assert!(!text.contains("{{"), "{text}");
                assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{text}");
            }
        }
    }

    #[test]
    fn the_crate_names_the_kopf_that_single_files_use() {
        let manifest = |kopf: &Kopf| -> (Table, String) {
            let files = files(false, kopf);
            (files["Cargo.toml"].parse().unwrap(), files["README.md"].clone())
        };
        let (local, readme) = manifest(&Kopf::at(Path::new("/w/it's \"here\"/kopf-rs")));
        assert_eq!(local["dependencies"]["kopf-rs"]["path"].as_str(), Some("/w/it's \"here\"/kopf-rs"));
        assert!(
            readme.contains("`git = \"https://github.com/kopf-rs/kopf-rs\"` in place of `path`"),
            "{readme}"
        );
        let (published, readme) = manifest(&Kopf::version("=0.1.0"));
        assert_eq!(published["dependencies"]["kopf-rs"]["version"].as_str(), Some("0.1.0"));
        assert!(!readme.contains("in place of"), "{readme}");
    }

    /// With other versions, the crate would not build on the lock file of the checkout.
    #[test]
    fn dependencies_have_the_versions_of_this_workspace() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let root: Table = std::fs::read_to_string(root).unwrap().parse().unwrap();
        let ours = &root["workspace"]["dependencies"];
        let version =
            |value: &toml::Value| value.get("version").unwrap_or(value).as_str().unwrap().to_owned();
        let manifest: Table = files(false, &Kopf::version("=0.1.0"))["Cargo.toml"].parse().unwrap();
        for table in ["dependencies", "dev-dependencies"] {
            for (name, value) in manifest[table].as_table().unwrap() {
                let ours = version(&ours[name]);
                assert!(
                    ours.trim_start_matches('=').starts_with(&version(value)),
                    "{name} is {ours} in the workspace"
                );
            }
        }
    }

    #[test]
    fn a_single_file_has_the_code_of_the_crate_and_a_manifest() {
        let lib = files(true, &Kopf::version("=0.1.0"))["src/lib.rs"].clone();
        let single = operator(true).single_file(Path::new("a b/my-proxy.rs"));
        let code = |text: &str| text[text.find("use kopf_rs").unwrap()..].trim_end().to_owned();
        assert!(code(&lib).starts_with(&code(&single)));
        let command = "//!   kopf-rs run 'a b/my-proxy.rs' --embedded --apply - --once\n";
        assert!(single.contains(command), "{single}");
        let file = std::env::temp_dir().join(format!("kopf-rs-template-{}.rs", std::process::id()));
        std::fs::write(&file, &single).unwrap();
        let script = Script::read(&file, &file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(script.table("dependencies").contains_key("schemars"));
    }

    #[test]
    fn the_paths_in_the_image_and_the_readme_exist() {
        let files = files(false, &Kopf::version("=0.1.0"));
        let docker = &files["Dockerfile"];
        let copies: Vec<Vec<_>> = docker
            .lines()
            .filter(|line| line.starts_with("COPY "))
            .map(|it| it.split(' ').collect())
            .collect();
        let target = "/usr/local/bin/my-proxy";
        // Into the folder of cargo, and from its target folder.
        assert_eq!(copies[0], ["COPY", ".", "."]);
        assert!(docker.contains("WORKDIR /src\n"), "{docker}");
        assert_eq!(copies[1], ["COPY", "--from=build", "/src/target/release/my-proxy", target]);
        assert_eq!(copies.len(), 2);
        assert!(docker.ends_with(&format!("USER 65532:65532\nENTRYPOINT [\"{target}\"]\n")), "{docker}");
        // `cargo build --bin` builds it, since `src/main.rs` has the name of the package.
        let manifest: Table = files["Cargo.toml"].parse().unwrap();
        assert_eq!(manifest["package"]["name"].as_str(), Some("my-proxy"));
        assert!(manifest["features"].as_table().unwrap().contains_key("default"));
        assert!(files.contains_key("src/main.rs"));
        // The build and the list of ignored files need each file that the crate names.
        let ignored: Vec<_> = files[".dockerignore"].lines().collect();
        assert_eq!(ignored, ["/.cargo", "/.git", "/target"]);
        for named in ["sample.yaml", "src/lib.rs", "src/tests.rs", "src/main.rs"] {
            assert!(files["README.md"].contains(named) && files.contains_key(named), "{named}");
        }
    }

    #[test]
    fn the_next_commands_name_the_folder_and_the_file() {
        let next = operator(false).next_for_crate(Path::new("a b"));
        let start = "Created the operator `my-proxy` for the kind shop.example.com/v1beta1/Proxy. Next:\n\n  cd 'a b'\n  cargo test ";
        assert!(next.starts_with(start), "{next}");
        let here = operator(false).next_for_crate(Path::new("."));
        assert!(here.contains("Next:\n\n  cargo test"), "{here}");
        let file = operator(false).next_for_file(Path::new("my-proxy.rs"));
        assert!(file.contains("\n    kopf-rs run my-proxy.rs --embedded --apply - --once\n"), "{file}");
    }
}
