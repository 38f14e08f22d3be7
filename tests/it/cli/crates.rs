//! Crates: the generated program for each, built with a stub of kopf-rs that only prints how it was called.

use std::process::Command;

use kopf_rs_tests::Program;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::{Folder, PATIENCE, ended, kopf_rs};

const KOPF: &str = r#"
[package]
name = "kopf-rs"
version = "0.1.0"
edition = "2024"
[features]
default = ["more"]
cli = []
embedded = []
metrics = []
mimalloc = []
web = []
more = []
k8s-latest = []
schemars = []
testing = []
[workspace]
"#;

const KOPF_LIB: &str = r#"
use std::process::ExitCode;
pub mod cli {
    pub fn run(name: &str, version: &str) -> super::ExitCode {
        let args: Vec<_> = std::env::args().skip(1).collect();
        println!("{name} {version} {args:?} cli={} more={}", cfg!(feature = "cli"), cfg!(feature = "more"));
        super::ExitCode::from(7)
    }
}
#[macro_export]
macro_rules! main {
    () => {
        fn main() -> std::process::ExitCode { $crate::cli::run(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")) }
    };
}
"#;

/// Returns a folder `name` with the stub of kopf-rs; its builds are in it, too.
fn bench(name: &str) -> Folder {
    Folder::new(name).file("kopf-rs/Cargo.toml", KOPF).file("kopf-rs/src/lib.rs", KOPF_LIB)
}

fn manifest(name: &str, more: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"1.2.3\"\nedition = \"2024\"\n[workspace]\n\
         [dependencies]\nkopf-rs = {{ path = \"../kopf-rs\" }}\n{more}"
    )
}

fn run(folder: &Folder, args: &[&str]) -> Command {
    let mut command = kopf_rs(&["run", "--offline"]);
    command.args(args).current_dir(folder.path()).env("CARGO_TARGET_DIR", folder.path().join("target"));
    command
}

/// Returns `kopf-rs dev` for a crate, on a cluster that the stub does not use.
fn dev(folder: &Folder, args: &[&str]) -> Command {
    let mut command = kopf_rs(&["dev", "--offline", "--kubeconfig", "none"]);
    command.args(args).current_dir(folder.path()).env("CARGO_TARGET_DIR", folder.path().join("target"));
    command
}

/// A build script that reports to a port, and never ends.
const STUCK: &str = "fn main() {
    let port = std::env::var(\"PORT_OF_TEST\").unwrap();
    let _open = std::net::TcpStream::connect(format!(\"127.0.0.1:{port}\")).unwrap();
    loop {
        std::thread::park();
    }
}
";

#[tokio::test]
async fn builds_end_with_the_program() {
    let folder = bench("stuck")
        .file("op/Cargo.toml", &manifest("stuck", ""))
        .file("op/src/lib.rs", "")
        .file("op/build.rs", STUCK);
    for (mut command, code) in [(run(&folder, &["op"]), 143), (dev(&folder, &["op"]), 0)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("it has an address");
        command.env("PORT_OF_TEST", address.port().to_string());
        let mut program = Program::start(command, PATIENCE);
        let accepted = timeout(PATIENCE, listener.accept()).await;
        let (mut script, _) = accepted.expect("the build script runs").expect("it connects");
        program.signal("TERM").await;
        // Waits for the end of all output, which cargo would keep open.
        assert_eq!(program.ended().await.code(), Some(code));
        let left = timeout(PATIENCE, script.read_to_end(&mut Vec::new())).await;
        left.expect("the build script has ended").expect("its connection is closed");
    }
}

#[tokio::test]
async fn an_operator_that_ends_by_itself_starts_again_at_the_next_change() {
    let folder = bench("ending").file("op/Cargo.toml", &manifest("ending", "")).file("op/src/lib.rs", "");
    let mut program = Program::start(dev(&folder, &["op", "-n", "team"]), PATIENCE);
    let lines = program.lines().clone();
    let called = "ending 1.2.3 [\"--namespace=team\", \"--kubeconfig=none\", \"--dev\"]";
    let until = async |times: usize, text: &str| {
        let has_text = |line: &str| line.contains(text);
        lines.until(text, |line| has_text(line) && lines.count(has_text) >= times).await
    };
    until(1, called).await;
    until(1, "The operator ended by itself with exit code 7.").await;
    std::fs::write(folder.path().join("op/src/lib.rs"), "pub fn more() {}\n").expect("files can be written");
    until(2, called).await;
    until(2, "The operator ended by itself with exit code 7.").await;
    program.signal("TERM").await;
    assert_eq!(program.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_library_gets_a_program_around_it() {
    let folder = bench("library")
        .file("op/Cargo.toml", &manifest("my-op", "[features]\nloud = []"))
        .file("op/src/lib.rs", "#[cfg(feature = \"loud\")]\ncompile_error!(\"loud\");\n");
    let ran = ended(run(&folder, &["-n", "a,b", "op", "--once"])).await;
    let called = "my-op 1.2.3 [\"--namespace=a,b\", \"--once\"] cli=true more=true";
    ran.with(7, &[called]);
    let again = ended(run(&folder, &["op", "--once"])).await;
    again.with(7, &["[\"--once\"]"]);
    assert!(!again.said.contains("Compiling"), "{}", again.said);
    let loud = ended(run(&folder, &["op", "--features", "loud"])).await;
    loud.with(2, &["error: loud", "op/src/lib.rs:2:1", "error: op does not compile"]);
}

#[tokio::test]
async fn the_users_choice_of_features_is_kept() {
    let plain = manifest("plain", "").replace("kopf-rs\" }", "kopf-rs\", default-features = false }");
    let folder = bench("features").file("op/Cargo.toml", &plain).file("op/src/lib.rs", "");
    let ran = ended(run(&folder, &["op"])).await;
    ran.with(7, &["plain 1.2.3 [] cli=true more=false"]);
}

#[tokio::test]
async fn a_program_on_main_is_run_as_it_is() {
    let folder = bench("program")
        .file("op/Cargo.toml", &manifest("prog", ""))
        .file("op/src/main.rs", "kopf_rs::main!();\n");
    let ran = ended(run(&folder, &["op", "-v"])).await;
    ran.with(7, &["prog 1.2.3 [\"--verbose\"]"]);
    let joined = ended(run(&folder, &["op", "op"])).await;
    joined.with(2, &["prog is a program of its own"]);
}

#[tokio::test]
async fn several_crates_make_one_operator() {
    let folder = bench("several")
        .file("one/Cargo.toml", &manifest("one", ""))
        .file("one/src/lib.rs", "")
        .file("two/Cargo.toml", &manifest("two", ""))
        .file("two/src/lib.rs", "")
        .file("odd/Cargo.toml", &manifest("odd", "").replace("../kopf-rs", "../other"))
        .file("other/Cargo.toml", KOPF)
        .file("other/src/lib.rs", KOPF_LIB)
        .file("odd/src/lib.rs", "");
    ended(run(&folder, &["one", "two"])).await.with(7, &["one 1.2.3 []"]);
    let odd = ended(run(&folder, &["one", "odd"])).await;
    odd.with(2, &["the paths depend on different versions of kopf-rs"]);
}

#[tokio::test]
async fn a_workspace_lends_its_patches_and_asks_for_a_package() {
    let root = "[workspace]\nmembers = [\"a\", \"b\"]\n[patch.crates-io]\nkopf-rs = { path = \"kopf-rs\" }\n";
    let member = |name: &str| {
        let manifest = manifest(name, "").replace("[workspace]\n", "");
        manifest.replace("{ path = \"../kopf-rs\" }", "\"0.1\"")
    };
    let folder = Folder::new("workspace")
        .file("Cargo.toml", root)
        .file("kopf-rs/Cargo.toml", &KOPF.replace("[workspace]", ""))
        .file("kopf-rs/src/lib.rs", KOPF_LIB)
        .file("a/Cargo.toml", &member("a"))
        .file("a/src/lib.rs", "")
        .file("b/Cargo.toml", &member("b"))
        .file("b/src/lib.rs", "");
    ended(run(&folder, &["a"])).await.with(7, &["a 1.2.3 []"]);
    let unsaid = ended(run(&folder, &["."])).await;
    unsaid.with(2, &["choose one with --package NAME", "a, b"]);
    ended(run(&folder, &[".", "--package", "b"])).await.with(7, &["b 1.2.3 []"]);
    let wrong = ended(run(&folder, &[".", "--package", "c"])).await;
    wrong.with(2, &["has no package `c`"]);
}

#[tokio::test]
async fn crates_that_cannot_be_operators_are_refused() {
    let folder = bench("refused")
        .file("neither/Cargo.toml", &manifest("neither", ""))
        .file("neither/src/main.rs", "fn main() {}\n")
        .file("none/Cargo.toml", &manifest("none", "").replace("kopf-rs =", "#"))
        .file("none/src/lib.rs", "")
        .file("bad/Cargo.toml", "[package\n")
        .file("unlocked/Cargo.toml", &manifest("unlocked", ""))
        .file("unlocked/src/lib.rs", "");
    let neither = ended(run(&folder, &["neither"])).await;
    neither.with(2, &["has neither a library nor a program whose main is `kopf_rs::main!()`"]);
    let none = ended(run(&folder, &["none"])).await;
    none.with(2, &["does not depend on kopf-rs", "cargo add kopf-rs"]);
    let bad = ended(run(&folder, &["bad"])).await;
    bad.with(2, &["cargo cannot read", "bad/Cargo.toml"]);
    let unlocked = ended(run(&folder, &["unlocked", "--locked"])).await;
    unlocked.with(2, &["unlocked/Cargo.toml", "--locked"]);
}

/// Returns the number of programs that `kopf-rs run` has generated in this target folder.
fn made_in(folder: &Folder, target: &str) -> usize {
    let made = folder.path().join(target).join("kopf-run");
    std::fs::read_dir(made).map_or(0, Iterator::count)
}

#[tokio::test]
async fn one_kopf_is_built_in_one_folder() {
    let folder = bench("shared")
        .file("a/Cargo.toml", &manifest("a", ""))
        .file("a/src/lib.rs", "")
        .file("chosen/Cargo.toml", &manifest("chosen", ""))
        .file("chosen/src/lib.rs", "")
        .file("chosen/.cargo/config.toml", "[build]\ntarget-dir = \"mine\"\n");
    let shared = ["target", "cache/kopf-rs/target", "a/target", "chosen/mine"];
    for target in shared {
        let _ = std::fs::remove_dir_all(folder.path().join(target));
    }
    let run = |args: &[&str]| {
        let mut command = run(&folder, args);
        let cache = folder.path().join("cache");
        command.env_remove("CARGO_TARGET_DIR").env("XDG_CACHE_HOME", cache);
        ended(command)
    };
    let made = || shared.map(|target| made_in(&folder, target));
    let _ = std::fs::remove_file(folder.path().join("Cargo.lock"));
    run(&["a"]).await.with(7, &["a 1.2.3 []"]);
    assert_eq!(made(), [0, 1, 0, 0], "in the cache");
    // A checkout has such a lock file.
    std::fs::write(folder.path().join("Cargo.lock"), "version = 4\n").unwrap();
    run(&["a"]).await.with(7, &["a 1.2.3 []"]);
    run(&["chosen"]).await.with(7, &["chosen 1.2.3 []"]);
    assert_eq!(made(), [1, 1, 0, 1], "in that of the checkout, and in the chosen one");
}
