//! The workflows of GitHub, here and in the crates that `kopf-rs new` creates.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use kopf_rs_tests::{Tool, ToolError, skipped, tool};

use crate::cli::root;

/// Returns the paths of all workflows, relative to the root.
fn workflows() -> Vec<PathBuf> {
    let folder = fs::read_dir(root().join(".github/workflows")).expect("there are workflows");
    let names = folder.map(|entry| entry.expect("it can be read").file_name());
    let mut paths: Vec<PathBuf> = names.map(|name| PathBuf::from(".github/workflows").join(name)).collect();
    paths.sort();
    paths.push("kopf-rs-cli/templates/ci.yml.in".into());
    paths
}

/// Returns the actions that run in whatever version their authors publish next.
fn unpinned(workflow: &str) -> Vec<&str> {
    let lines = workflow.lines().map(|line| line.trim_start().trim_start_matches("- "));
    let actions = lines.filter_map(|line| line.strip_prefix("uses: ")).map(str::trim);
    let is_pinned = |action: &str| {
        let version = action.split_once('@').map_or("", |(_, version)| version);
        let digits = version.strip_prefix('v').unwrap_or_default();
        let is_commit = version.len() == 40 && version.bytes().all(|it| it.is_ascii_hexdigit());
        action.starts_with("./") || is_commit || digits.starts_with(|it: char| it.is_ascii_digit())
    };
    actions.filter(|action| !is_pinned(action)).collect()
}

#[test]
fn actionlint_has_no_complaint() {
    let actionlint = match tool(Tool::Actionlint) {
        Ok(actionlint) => actionlint,
        Err(ToolError::Missing(missing)) => {
            skipped("workflows::actionlint_has_no_complaint", &missing);
            return;
        }
        Err(error) => panic!("{error}"),
    };
    // Without the programs that it runs if the machine has them.
    let mut command = Command::new(actionlint);
    command.args(["-no-color", "-shellcheck=", "-pyflakes="]).args(workflows()).current_dir(root());
    let output = command.output().expect("actionlint starts");
    let (said, complaints) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complaints}");
}

#[test]
fn actions_have_a_version() {
    for path in workflows() {
        let text = fs::read_to_string(root().join(&path)).expect("it can be read");
        let unpinned = unpinned(&text);
        assert!(unpinned.is_empty(), "{}: {unpinned:?}", path.display());
    }
    let commit = "a".repeat(40);
    let text = format!(
        "steps:\n  - uses: a/b@v1\n  - uses: a/c@main\n  - name: C\n    uses: a/d\n  - uses: a/e@{commit}\n    uses: ./f.yml"
    );
    assert_eq!(unpinned(&text), ["a/c@main", "a/d"]);
}
