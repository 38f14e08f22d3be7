//! Wrong arguments are reported at once, before any build.

use super::{Folder, ended, kopf_rs};

async fn refused(args: &[&str], code: i32, texts: &[&str]) {
    ended(kopf_rs(args)).await.with(code, texts);
}

#[tokio::test]
async fn wrong_usage_ends_with_2() {
    for (args, text) in [
        (&["run", "x", "-A", "-n", "a"][..], "give one of the two"),
        (&["run", "x", "--log-format", "xml"], "[possible values: plain, full, json]"),
        (&["run", "x", "--embeded"], "'--embedded'"),
        (&["run", "x", "--embedded=high"], "invalid value 'high' for '--embedded"),
        (&["run", "x", "--embedded", "--context", "c"], "cannot be used with"),
        (
            &["run", "x", "--timeout", "3s"],
            "required arguments were not provided:\n  <--install|--upgrade|--uninstall|--once>",
        ),
        (&["run", "x", "--once", "--timeout", "soon"], "expected seconds, or a time such as 90s, 10m or 1h"),
        (&["why", "-n", "team"], "required arguments were not provided"),
        (&["why", "-o", "json", "--if", "spec.size=3"], "required arguments were not provided"),
        (&["run", "x", "--if", "spec.size=3"], "required arguments were not provided"),
        (&["why", "./x"], "expected KIND/NAME, such as widgets/mine"),
        (&["why", "x", "a/b", "--once"], "cannot be used with"),
        (&["manifests", "x", "--once"], "cannot be used with"),
        (&["run", "-nproduction", "./absent"], "./absent does not exist"),
        (&["walk"], "unrecognized subcommand 'walk'"),
        (&[], "Usage: kopf-rs"),
    ] {
        refused(args, 2, &[text]).await;
    }
}

#[tokio::test]
async fn help_and_version_say_enough_to_begin() {
    let help = ["kopf-rs run op.rs --embedded", "--apply", "--namespace", "Exit codes"];
    refused(&["run", "--help"], 0, &help).await;
    refused(&["--version"], 0, &[concat!("kopf-rs ", env!("CARGO_PKG_VERSION"))]).await;
}

#[tokio::test]
async fn paths_that_are_nothing_to_run_are_named() {
    let folder = Folder::new("nothing").file("empty/notes.txt", "").file("files/op.rs", "");
    let absent = folder.at("absent");
    refused(&["run", &absent], 2, &["error: ", "absent does not exist"]).await;
    let empty = folder.at("empty");
    refused(&["run", &empty], 2, &["empty has no Cargo.toml", "cargo init --lib"]).await;
    let files = folder.at("files");
    refused(&["run", &files], 2, &["files has no Cargo.toml", "kopf-rs run", "files/op.rs"]).await;
    let text = folder.at("empty/notes.txt");
    refused(&["run", &text], 2, &["notes.txt is neither the folder of a crate nor a .rs file"]).await;
}

#[tokio::test]
async fn without_a_path_it_is_this_folder() {
    let folder = Folder::new("nothing").file("empty/notes.txt", "");
    let mut command = kopf_rs(&["run"]);
    command.current_dir(folder.path().join("empty"));
    ended(command).await.with(2, &[". has no Cargo.toml"]);
}

#[tokio::test]
async fn a_missing_cargo_is_named() {
    let mut command = kopf_rs(&["run", "examples/myapp"]);
    command.env_remove("CARGO").env("PATH", "");
    let texts = ["cargo is not found", "https://rustup.rs"];
    ended(command).await.with(1, &texts);
}

#[tokio::test]
async fn a_manifest_comment_that_is_no_toml_is_named_by_line() {
    let folder = Folder::new("manifests")
        .file("comment.rs", "//! Mine.\n//! ```cargo\n//! [dependencies]\n//! a = = 1\n//! ```\n")
        .file("front.rs", "---\n[dependencies\n---\n")
        .file("open.rs", "---\n[dependencies]\n");
    let comment = folder.at("comment.rs");
    refused(&["run", &comment], 2, &["comment.rs:4: the manifest is not valid TOML"]).await;
    let front = folder.at("front.rs");
    refused(&["run", &front], 2, &["front.rs:2: the manifest is not valid TOML"]).await;
    let open = folder.at("open.rs");
    refused(&["run", &open], 2, &["open.rs:1: the manifest that begins here has no end"]).await;
}
