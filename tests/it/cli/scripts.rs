//! Single files: their manifests, their compiler errors, their missing parts.

use std::path::PathBuf;

use super::{Folder, ended, in_shell, kopf_rs};

const HANDLER: &str = "\
use kopf_rs::prelude::*;

#[on_create(\"configmaps\")]
async fn seen(name: &str, logger: Logger) -> HandlerResult {
    info!(logger, \"{name} is seen\");
    Ok(())
}
";

const FRONT: &str = "#!/usr/bin/env -S kopf-rs run
---
[package]
name = \"fronted\"
[dependencies]
serde_json = \"1\"
---
";

fn run(path: &str) -> std::process::Command {
    kopf_rs(&["run", path, "--embedded", "--once"])
}

#[tokio::test]
async fn a_file_without_a_manifest_outside_of_any_crate() {
    // One fixed folder per checkout, so that later runs reuse its build.
    let unique = env!("CARGO_MANIFEST_DIR").replace('/', "-");
    let folder: PathBuf = std::env::temp_dir().join(format!("kopf-rs{unique}"));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("alone.rs");
    std::fs::write(&file, HANDLER).unwrap();
    ended(run(file.to_str().unwrap())).await.with(0, &[]);
    // The operator must receive the piped input, not cargo.
    let piped = kopf_rs(&["run", file.to_str().unwrap(), "--embedded", "--apply", "-", "--once"]);
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: piped}}";
    let piped = ended(in_shell(&format!("echo '{map}' | \"$@\""), &piped)).await;
    piped.with(0, &["[default/piped] Handler 'seen' succeeded."]);
}

#[tokio::test]
async fn frontmatter_is_read_and_lines_stay_right() {
    let broken = HANDLER.replace("Ok(())", "Ok(7u8)");
    let folder = Folder::new("front")
        .file("good.rs", &format!("{FRONT}{HANDLER}"))
        .file("broken.rs", &format!("{FRONT}{broken}"));
    ended(run(&folder.at("good.rs"))).await.with(0, &[]);
    let broken = ended(run(&folder.at("broken.rs"))).await;
    // Line 13: seven lines of manifest, then the sixth line of the handler.
    broken.with(2, &["cli/front/broken.rs:13:", "does not compile"]);
    assert!(!broken.said.contains("--> fronted"), "{}", broken.said);
}

#[tokio::test]
async fn a_file_that_does_not_compile_is_shown_with_its_own_lines() {
    let broken = format!("//! ```cargo\n//! [dependencies]\n//! ```\n{HANDLER}fn f() -> u8 {{ \"no\" }}\n");
    let folder = Folder::new("broken").file("op.rs", &broken);
    let texts = ["error[E0308]: mismatched types", "broken/op.rs:11:", "op.rs does not compile"];
    ended(run(&folder.at("op.rs"))).await.with(2, &texts);
}

#[tokio::test]
async fn a_file_without_handlers_says_so() {
    let folder = Folder::new("idle").file("idle.rs", "pub fn nothing() {}\n");
    ended(run(&folder.at("idle.rs")))
        .await
        .with(2, &["error: there are no handlers: this program contains no function with #[on_create]"]);
}

#[tokio::test]
async fn a_file_that_asks_for_what_nobody_gives_says_how_to_give_it() {
    let asking = HANDLER.replace("name: &str", "name: &str, _db: State<String>");
    let part = "#[subhandler]\nasync fn part(_sizes: State<Vec<u8>>) {}\n";
    let folder = Folder::new("asking").file("asking.rs", &format!("{asking}{part}"));
    let texts = [
        "asking.rs:4:",
        "handler `seen` asks for `State<alloc::string::String>`, but the operator has no",
        "handler `part` asks for `State<alloc::vec::Vec<u8>>`, but the operator has no",
        "kopf_rs::main!(state = ..)",
    ];
    ended(run(&folder.at("asking.rs"))).await.with(2, &texts);
}

#[tokio::test]
async fn the_same_id_twice_is_named_with_both_places() {
    let twice = format!("{HANDLER}mod more {{\n{HANDLER}}}\n");
    let folder = Folder::new("twice").file("twice.rs", &twice);
    let texts = ["error: ", "seen", "twice.rs:4:", "twice.rs:12:"];
    ended(run(&folder.at("twice.rs"))).await.with(2, &texts);
}

#[tokio::test]
async fn files_of_the_same_name_are_distinguished_and_can_be_joined() {
    let second = HANDLER.replace("fn seen", "fn met");
    let folder = Folder::new("namesakes")
        .file("a/op.rs", HANDLER)
        .file("b/op.rs", &second)
        .file("map.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}");
    let (first, second, map) = (folder.at("a/op.rs"), folder.at("b/op.rs"), folder.at("map.yaml"));
    let flags = ["--embedded", "--apply", &map, "--once"];
    let run = |paths: &[&str]| ended(kopf_rs(&[&["run"], paths, &flags].concat()));
    let (seen, met) = ("Handler 'seen' succeeded.", "Handler 'met' succeeded.");
    run(&[&first]).await.with(0, &[seen]);
    run(&[&second]).await.with(0, &[met]);
    run(&[&first, &second]).await.with(0, &[seen, met]);
}
