//! Follows README.md, `docs/first-operator.md` and the tutorial of the book literally except for one path and one profile: runs their
//! commands, writes their files, and checks the output lines that they show.
//!
//! The doctests of kopf-rs also compile their Rust code. Crates of the tour use the versions and the profile of this repository, so that
//! cargo does not build the dependencies again.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use kopf_rs_tests::{Program, StartError, Tool, skipped, tool};

use crate::cli::{PATIENCE, ended, kopf_rs, root};

/// A fenced block: its language, and its text.
struct Block<'a> {
    language: &'a str,
    text: &'a str,
}

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the text under the heading that starts with `heading`.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = page.find(&format!("\n## {heading}")).unwrap_or_else(|| panic!("no heading {heading:?}"));
    let section = &page[start + 1..];
    &section[..section.find("\n## ").unwrap_or(section.len())]
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let fences: Vec<&str> = text.split("\n```").collect();
    let blocks = fences.chunks(2).filter_map(|pair| pair.get(1));
    blocks
        .filter_map(|block| block.split_once('\n'))
        .map(|(language, text)| Block { language, text })
        .collect()
}

/// Returns the tour as one shell script. A block whose first line is a comment with a file name becomes that file.
fn script(blocks: &[Block<'_>]) -> String {
    let mut script = "set -eux\n".to_owned();
    for block in blocks {
        let file = block
            .text
            .lines()
            .next()
            .and_then(|line| line.trim_start_matches(['/', '#']).trim().rsplit(' ').next());
        match (block.language, file) {
            ("sh", _) => script.push_str(block.text),
            ("text", _) => continue,
            (_, Some(file)) => {
                script.extend(["cat > ", file, " <<'README'\n", block.text, "\nREADME"]);
            }
            (language, None) => panic!("an empty block of {language}"),
        }
        script.push('\n');
    }
    script
}

pub(crate) fn shell(script: &str, dir: &Path, like: &Command) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(dir);
    let environment: HashMap<_, _> = like.get_envs().collect();
    for (key, value) in environment {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command
}

/// A folder outside of this repository, removed at the end. Its path is fixed per checkout, so that later runs reuse the builds.
pub(crate) struct Away(pub(crate) PathBuf);

impl Away {
    pub(crate) fn new(name: &str) -> Self {
        let checkout = env!("CARGO_MANIFEST_DIR").replace('/', "-");
        let path = std::env::temp_dir().join(format!("kopf-rs-{name}{checkout}"));
        // A killed run may have left it.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the folder for temporary files can be written to");
        Self(path)
    }

    /// Writes cargo settings for all crates in the folder: the parts of this repository's manifest that affect the build of dependencies.
    pub(crate) fn profile(&self) {
        let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("a manifest is there");
        let start = manifest.find("[profile.dev]").expect("a profile is there");
        let folder = self.0.join(".cargo");
        fs::create_dir_all(&folder).expect("folders can be made");
        fs::write(folder.join("config.toml"), &manifest[start..]).expect("files can be written");
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn the_tour_leads_to_a_handled_object() {
    let tour = page("docs/first-operator.md");
    let blocks = blocks(&tour);
    // Outside this repository, because cargo would take the new crate for a workspace member.
    let folder = Away::new("tour");
    let (clone, bin) = (folder.0.join("kopf-rs"), folder.0.join("bin"));
    let there = fs::canonicalize(root()).expect("the root is there");
    symlink(&there, &clone).expect("links can be made");
    let path = std::env::var("PATH").expect("a PATH");
    folder.profile();
    // Cargo treats a linked path as another package and would build kopf-rs again, so the script uses the real path.
    let (linked, real) = ("--path ../kopf-rs/kopf-rs", there.join("kopf-rs"));
    let script = script(&blocks);
    assert!(script.contains(linked), "{script}");
    let script = script.replace(linked, &format!("--path {}", real.display()));
    // With the profile of the tests: an optimised program proves no more, and takes a build of all its dependencies.
    let (install, quick) = ("cargo install --path", "cargo install --debug --path");
    assert!(script.contains(install), "{script}");
    let script = script.replace(install, quick);
    let mut command = shell(&script, &clone, &kopf_rs(&[]));
    command
        // `cd ..` goes back along the link, because the shell reads PWD.
        .env("PWD", &clone)
        .env("CARGO_INSTALL_ROOT", &folder.0)
        .env("PATH", format!("{}:{path}", bin.display()));
    let texts = blocks.iter().filter(|block| block.language == "text");
    let shown: Vec<&str> = texts.flat_map(|block| block.text.lines()).collect();
    assert!(!shown.is_empty(), "the tour shows what is to be seen");
    let end = ended(command).await;
    end.with(0, &shown);
    let runs = script.matches("kopf-rs run").count();
    for line in shown {
        assert_eq!(end.said.matches(line).count(), runs, "{line}\n{}", end.said);
    }
}

#[tokio::test]
async fn the_tutorial_leads_to_a_kind_of_its_own() {
    let tutorial = page("docs/book/src/tutorial/own-kind.md");
    let blocks = blocks(&tutorial);
    let folder = Away::new("tutorial");
    folder.profile();
    let program = kopf_rs(&[]);
    let programs = Path::new(program.get_program()).parent().expect("a program is in a folder");
    let path = std::env::var("PATH").expect("a PATH");
    let mut command = shell(&script(&blocks), &folder.0, &program);
    command.env("PATH", format!("{}:{path}", programs.display())).env("CARGO_NET_OFFLINE", "true");
    let texts = blocks.iter().filter(|block| block.language == "text");
    let shown: Vec<&str> = texts.flat_map(|block| block.text.lines()).collect();
    assert_eq!(shown.len(), 3, "the tutorial shows what is to be seen: {shown:?}");
    let end = ended(command).await;
    end.with(0, &shown);
    // The test of the page, beside those of the crate as it is created.
    end.with(0, &["test tests::the_config_map_follows_its_page ... ok"]);
    assert!(!end.said.contains("warning"), "{}", end.said);
}

#[tokio::test]
async fn the_first_command_brings_a_pod_about() {
    let readme = page("README.md");
    let blocks = blocks(section(&readme, "Two commands"));
    let mut program =
        Program::start(shell(&format!("exec {}", blocks[1].text), root(), &kopf_rs(&[])), PATIENCE);
    let handled = |line: &str| line.contains("[default/example-app] Handler 'create_myapp' succeeded.");
    program.lines().with_patience(PATIENCE).until("of the handler", handled).await;
    let line = program.lines().until("for kubectl", |line| line.contains("kubectl --kubeconfig ")).await;
    match tool(Tool::Kubectl) {
        Ok(kubectl) => {
            let typed = &line[line.find("kubectl ").expect("just looked for")..];
            let output = Command::new("sh")
                .args(["-c", &typed.replacen("kubectl", &kubectl.display().to_string(), 1)])
                .output();
            let shown = String::from_utf8(output.expect("a shell can be started").stdout).expect("text");
            assert!(shown.contains("example-app-pod"), "{typed}\n{shown}");
        }
        Err(error) => {
            let error = StartError::Tool(error);
            let missing = error.missing().unwrap_or_else(|| panic!("kubectl: {error}"));
            skipped("the first command, looked at with kubectl", missing);
        }
    }
    program.signal("INT").await;
    assert_eq!(program.ended().await.code(), Some(0));
}

#[test]
fn what_lands_work_runs_the_second_command() {
    let readme = page("README.md");
    let blocks = blocks(section(&readme, "Two commands"));
    let ci = fs::read_to_string(root().join(".ci/run")).expect(".ci/run is there");
    assert!(ci.contains(blocks[2].text.trim()), "{ci}");
}
