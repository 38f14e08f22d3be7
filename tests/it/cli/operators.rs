//! Operators as programs: connection, initial objects, exit, signals, output.

use std::process::Command;
use std::time::Duration;

use kopf_rs_tests::Program;
use serde_json::Value;
use tokio::time::timeout;

use super::{Folder, PATIENCE, ended, in_shell, kopf_rs, operator};

const OBEY: &str = include_str!("../../programs/obey.rs");

fn folder() -> Folder {
    let object = |name: &str, what: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{do: {what}}}\n"
        )
    };
    let (good, bad) = (object("good", "nothing"), object("bad", "fail"));
    Folder::new("operators")
        .file("empty/notes.txt", "")
        .file("good/good.yaml", &good)
        .file("good.txt", &good)
        .file("good.json", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"good"}}"#)
        .file("block.yaml", &object("stuck", "block"))
        .file("retry.yaml", &object("never", "retry"))
        .file("panic.yaml", &object("wild", "panic"))
        .file("print.yaml", &object("loud", "print"))
        .file("both.yaml", &format!("{good}---\n{bad}"))
        .file("broken.yaml", &format!("{good}---\nkind: ConfigMap\n  name: x\n"))
        .file("unknown.yaml", &format!("{good}---\n{}", good.replace("ConfigMap", "Gadget")))
        .file("misspelt.yaml", &good.replace("\ndata:", "\ndato:"))
        .file(
            "settings.yaml",
            "queueing:\n  worker_limit: 10\nwatching:\n  label_selectors: {configmaps: '!never'}\n",
        )
        .file("typo.yaml", "queueing:\n  exit_timeout: 1\n  workr_limit: 10\n")
        .file("invalid.yaml", &good.replace("name: good", "name: NOT_GOOD"))
        .file(
            "nobody.kubeconfig",
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n\
             clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n",
        )
}

fn obey(args: &[&str]) -> Command {
    let folder = folder();
    let args: Vec<String> = args.iter().map(|arg| arg.replace('@', &folder.at(""))).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    operator("obey", &args)
}

/// Returns `obey` as the `"$@"` of a shell script; `%` in the script is the folder.
fn obey_in_shell(script: &str, args: &[&str]) -> Command {
    in_shell(&script.replace('%', &folder().at("")), &obey(args))
}

#[tokio::test]
async fn without_a_cluster_the_ways_to_one_are_reported() {
    let texts = ["error: no cluster is configured", "--kubeconfig", "--embedded"];
    ended(obey(&[])).await.with(1, &texts);
    let unreachable = obey(&["--kubeconfig", "@/nobody.kubeconfig"]);
    ended(unreachable).await.with(1, &["error: ", "127.0.0.1:9"]);
    let absent = obey(&["--kubeconfig", "@/absent"]);
    ended(absent).await.with(1, &["error: ", "absent"]);
}

#[tokio::test]
async fn settings_come_from_a_file_and_from_the_environment() {
    let good = ["--embedded", "--apply", "@/good", "--once"];
    let run = |settings: &str, variable: Option<(&str, &str)>| {
        let mut command = obey(&[&good[..], &["--settings", settings]].concat());
        command.envs(variable);
        command
    };
    let limit = "KOPF_RS_QUEUEING_WORKER_LIMIT";
    let handled = ["[default/good] Handler 'obey' succeeded."];
    let both = run("@/settings.yaml", Some((limit, "3")));
    ended(both).await.with(0, &handled);
    let typo = "typo.yaml, line 3: there is no setting in `queueing` called `workr_limit`; did you mean `worker_limit`?";
    ended(run("@/typo.yaml", None)).await.with(2, &[typo]);
    ended(run("@/absent", None)).await.with(2, &["absent: No such file"]);
    let many = run("@/settings.yaml", Some((limit, "many")));
    let texts =
        ["KOPF_RS_QUEUEING_WORKER_LIMIT: `queueing.worker_limit` is \"many\": expected a whole number"];
    ended(many).await.with(2, &texts);
    let near = run("@/settings.yaml", Some(("KOPF_RS_QUEUEING_WORKR_LIMIT", "1")));
    ended(near).await.with(2, &["did you mean KOPF_RS_QUEUEING_WORKER_LIMIT?"]);
}

#[tokio::test]
async fn a_bad_namespace_pattern_is_wrong_usage() {
    let texts = ["error: namespace pattern `Prod`"];
    ended(obey(&["-n", "Prod"])).await.with(2, &texts);
}

#[tokio::test]
async fn a_liveness_url_that_cannot_be_served_is_reported() {
    let liveness = |url: &str| obey(&["--embedded", "--liveness", url]);
    let texts = ["error: the liveness URL `https://", "only http is served"];
    ended(liveness("https://127.0.0.1:8080/healthz")).await.with(2, &texts);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it is bound").port();
    let texts = ["error: the liveness endpoint", "choose another port"];
    ended(liveness(&format!("http://127.0.0.1:{port}/healthz"))).await.with(1, &texts);
}

#[tokio::test]
async fn objects_that_cannot_be_applied_are_named_by_place() {
    for (path, code, text) in [
        ("absent", 2, "absent: no such file or folder"),
        ("empty", 2, "empty: the folder has no .yaml, .yml or .json file"),
        ("broken.yaml", 2, "broken.yaml, document 2, line "),
        ("unknown.yaml", 1, "unknown.yaml, document 2, line 6: Gadget default/good is refused"),
        ("invalid.yaml", 1, "invalid.yaml, document 1, line 1: ConfigMap default/NOT_GOOD is refused"),
        ("misspelt.yaml", 1, "misspelt.yaml, document 1, line 1: ConfigMap default/good is refused"),
        ("misspelt.yaml", 1, "unknown field \"dato\""),
    ] {
        let path = format!("@/{path}");
        let ended = ended(obey(&["--embedded", "--apply", &path, "--once"])).await;
        ended.with(code, &[text]);
    }
}

#[tokio::test]
async fn objects_are_applied_once_startup_handlers_and_webhooks_are_at_work() {
    let object = |name: &str, forbidden: bool| {
        format!(
            "apiVersion: programs.test/v1\nkind: Guarded\nmetadata: {{name: {name}, namespace: default}}\nspec: {{forbidden: {forbidden}}}\n"
        )
    };
    let folder = Folder::new("guarded")
        .file("good.yaml", &object("good", false))
        .file("bad.yaml", &object("bad", true));
    for (file, code, texts) in [
        ("good.yaml", 0, &["Guarded default/good created.", "[default/good] its size is 3"][..]),
        (
            "bad.yaml",
            1,
            &["bad.yaml, document 1, line 1: Guarded default/bad is refused", "spec.forbidden is set"],
        ),
    ] {
        let file = folder.at(file);
        let args = ["--embedded", "--apply", &file, "--once"];
        ended(operator("guarded", &args)).await.with(code, texts);
    }
}

#[tokio::test]
async fn an_operator_may_be_given_a_name() {
    let good = ["--embedded", "--apply", "@/good", "--once", "--verbose"];
    let named = [&good[..], &["--name", "other-name"]].concat();
    let texts = ["other-name.kopf.rs/last-handled-configuration", "Serving all namespaces"];
    ended(obey(&named)).await.with(0, &texts);
    let wrong = [&good[..], &["--name", "no name!"]].concat();
    let texts = ["error: the operator's name `no name!` cannot be used"];
    ended(obey(&wrong)).await.with(2, &texts);
}

#[tokio::test]
async fn objects_may_come_through_a_pipe() {
    let handled = ["[default/good] Handler 'obey' succeeded."];
    for (script, path) in [
        ("cat %/good.txt | \"$@\"", "/dev/stdin"),
        ("cat %/good.json | \"$@\"", "-"),
        ("cat %/good.txt | \"$@\" 3<&0 </dev/null", "/dev/fd/3"),
    ] {
        let args = ["--embedded", "--apply", path, "--once"];
        ended(obey_in_shell(script, &args)).await.with(0, &handled);
    }
    let broken = obey_in_shell("echo 'kind: [' | \"$@\"", &["--embedded", "--apply", "-"]);
    let place = ["error: standard input, document 1, line "];
    ended(broken).await.with(2, &place);
    let empty = obey_in_shell("false | \"$@\"", &["--embedded", "--apply", "-"]);
    let nothing = ["--apply -: there is no object in it"];
    ended(empty).await.with(2, &nothing);
}

#[tokio::test]
async fn once_gives_up_after_its_timeout_what_never_succeeds() {
    let args = ["--embedded", "--apply", "@/retry.yaml", "--once", "--timeout", "3s"];
    let texts = [
        "Not everything is handled within 3 seconds (--timeout).",
        "Not handled: configmaps.v1 default/never: its handlers had not finished: '",
    ];
    ended(obey(&args)).await.with(1, &texts);
}

#[tokio::test]
async fn a_panic_is_reported_with_its_place_and_only_once() {
    let args = ["--embedded", "--apply", "@/panic.yaml", "--once", "--timeout", "1s"];
    let end = ended(obey(&args)).await;
    end.with(1, &["panicked at ", "obey.rs:", ": asked to panic"]);
    assert!(!end.said.contains("thread '"), "{}", end.said);
}

#[tokio::test]
async fn what_cannot_be_printed_is_dropped_and_its_handler_succeeds() {
    let args = ["--embedded", "--apply", "@/print.yaml", "--once", "--timeout", "60s"];
    let texts = ["is dropped from now on", "[default/loud] Handler 'obey' succeeded.", "ended with 0"];
    for stdout in ["> /dev/full", "| true"] {
        let script = format!("{{ \"$@\"; echo \"ended with $?\" >&2; }} {stdout}");
        let end = ended(obey_in_shell(&script, &args)).await;
        end.with(0, &texts);
        assert_eq!(end.said.matches("failed printing to stdout").count(), 1, "{}", end.said);
    }
}

#[tokio::test]
async fn once_ends_when_everything_is_handled_and_tells_failures() {
    let good = ended(obey(&["--embedded", "--apply", "@/good", "--once"])).await;
    good.with(0, &["[default/good] Handler 'obey' succeeded."]);
    for noise in ["kubectl --kubeconfig", "Serving all namespaces"] {
        assert!(!good.said.contains(noise), "{}", good.said);
    }
    let both = ended(obey(&["--embedded", "--apply", "@/both.yaml", "--once"])).await;
    both.with(
        1,
        &[
            "[default/good] Handler 'obey' succeeded.",
            "[default/bad] Handler 'obey' failed permanently: asked to fail",
            "Failed permanently: 'obey' for default/bad",
        ],
    );
}

#[tokio::test]
async fn lines_in_json_carry_the_object() {
    let args = ["--embedded", "--apply", "@/good", "--once", "--log-format", "json"];
    let said = ended(obey(&args)).await.said;
    let lines: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let line = |message: &str| {
        let mut lines = lines.iter();
        lines.find(|line| line["message"] == message).unwrap_or_else(|| panic!("{message}: {said}"))
    };
    let plain = line("seen plainly");
    assert_eq!(plain["count"], 1);
    assert_eq!(plain["severity"], "info");
    for line in [plain, line("Handler 'obey' succeeded.")] {
        assert_eq!(line["object"]["kind"], "ConfigMap");
        assert_eq!(line["object"]["name"], "good");
        assert_eq!(line["object"]["namespace"], "default");
    }
}

#[tokio::test]
async fn the_first_signal_ends_gracefully() {
    for signal in ["INT", "TERM"] {
        let mut program = Program::start(obey(&["--embedded", "--apply", "@/good"]), PATIENCE);
        let handled = |line: &str| line.ends_with("[default/good] Handler 'obey' succeeded.");
        program.lines().until("of the handler", handled).await;
        program.signal(signal).await;
        let status = program.ended().await;
        let said = program.lines().all().join("\n");
        assert_eq!(status.code(), Some(0), "{said}");
        let told = format!("Signal SIG{signal} is received. Operator is stopping.");
        assert!(said.contains(&told), "{said}");
    }
}

/// `timeout` of coreutils ends a program like this: one signal to the process, and one to its group.
#[tokio::test]
async fn a_signal_that_comes_twice_in_a_moment_is_one() {
    let mut program = Program::start(obey(&["--embedded", "--apply", "@/good"]), PATIENCE);
    let handled = |line: &str| line.ends_with("[default/good] Handler 'obey' succeeded.");
    program.lines().until("of the handler", handled).await;
    program.signals(&["TERM", "INT"]).await;
    let status = program.ended().await;
    let said = program.lines().all().join("\n");
    assert_eq!(status.code(), Some(0), "{said}");
}

#[tokio::test]
async fn the_second_signal_ends_immediately() {
    for (second, code) in [("INT", 130), ("TERM", 143)] {
        let mut program = Program::start(obey(&["--embedded", "--apply", "@/block.yaml"]), PATIENCE);
        program.lines().until("of the handler", |line| line.ends_with("] blocking")).await;
        program.signal("TERM").await;
        program.lines().until("of the first", |line| line.contains("Signal SIGTERM is received.")).await;
        // The operator takes a signal in the same moment for a repetition, so signal again until it exits.
        let status = loop {
            program.signal(second).await;
            if let Ok(status) = timeout(Duration::from_secs(1), program.ended()).await {
                break status;
            }
        };
        assert_eq!(status.code(), Some(code));
    }
}

#[tokio::test]
async fn the_embedded_server_can_be_looked_into() {
    let mut program = Program::start(obey(&["--embedded", "--apply", "@/good"]), PATIENCE);
    let handled = |line: &str| line.ends_with("[default/good] Handler 'obey' succeeded.");
    program.lines().until("of the handler", handled).await;
    let line = program.lines().until("for kubectl", |line| line.contains("kubectl --kubeconfig ")).await;
    assert!(line.ends_with(" get configmap,pod --all-namespaces"), "{line}");
    let file = line.split_once("--kubeconfig ").and_then(|(_, rest)| rest.split(' ').next()).unwrap();
    let kubeconfig = kube::config::Kubeconfig::read_from(file).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let maps = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(
        kube::Client::try_from(config).unwrap(),
        "default",
    );
    assert_eq!(maps.get("good").await.unwrap().data.unwrap()["do"], "nothing");
    program.signal("TERM").await;
    assert_eq!(program.ended().await.code(), Some(0));
    assert!(!std::path::Path::new(file).exists(), "{file} is left behind");
}

/// A handler that requires state values and the program's flags, and a program that provides them.
const STATE: &str = r#"
#[derive(clap::Args)]
struct Flags {
    #[arg(long)]
    db_url: String,
}

struct Db {
    url: String,
}

async fn connect(flags: &Flags) -> std::io::Result<Db> {
    Ok(Db { url: flags.db_url.clone() })
}

#[on_startup]
async fn tell(db: State<Db>, #[inject] times: State<u32>, #[inject] flags: State<Flags>, logger: Logger) {
    info!(logger, "the database is at {}, {} times, by --db-url {}", db.url, *times, flags.db_url);
}

kopf_rs::main!(flags = Flags, state = connect(&flags).await?, state = 7_u32);
"#;

/// It chooses the features of the operators that `kopf-rs run` builds, so that kopf-rs is built once for all.
#[tokio::test]
async fn a_program_on_main_has_the_same_flags_and_its_own() {
    let root = super::root().canonicalize().unwrap();
    let manifest = format!(
        "[package]\nname = \"on-main\"\nversion = \"1.2.3\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
         kopf-rs = {{ path = \"{}/kopf-rs\", features = [\"cli\", \"embedded\", \"metrics\", \"mimalloc\"] }}\nclap = {{ version = \"4\", features = [\"derive\"] }}\nserde_json = \"1\"\ntracing = \"0.1\"\n\
         [profile.dev]\ndebug = \"line-tables-only\"\n[profile.dev.package.\"*\"]\ndebug = false\n",
        root.display()
    );
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap();
    let folder = Folder::new("on-main")
        .file("Cargo.toml", &manifest)
        .file("src/main.rs", &OBEY.replace("kopf_rs::main!();\n", STATE));
    // Cargo removes unused entries from the copied lock file, so it is copied again when the repository's lock file changes.
    let copied = folder.path().join("Cargo.lock.copied");
    if std::fs::read_to_string(&copied).ok().as_ref() != Some(&lock) {
        std::fs::write(folder.path().join("Cargo.lock"), &lock).unwrap();
        std::fs::write(copied, lock).unwrap();
    }
    let good = super::operators::folder().at("good");
    let args = ["run", &folder.at(""), "--embedded", "--apply", &good, "--once", "--log-format", "plain"];
    let ran = ended(kopf_rs(&[&args[..], &["--", "--db-url", "db.local"]].concat())).await;
    let told = "the database is at db.local, 7 times, by --db-url db.local";
    ran.with(0, &["\n[default/good] Handler 'obey' succeeded.", told]);
}
