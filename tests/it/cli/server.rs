//! `kopf-rs apiserver`: its output, its access control, its exit, and its persistent data.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kopf_rs_tests::{Program, built_program};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::sync::watch;

use super::{Folder, PATIENCE, ended, kopf_rs};

/// Returns the program that `kopf-rs apiserver` becomes.
fn server(args: &[&str]) -> Command {
    let mut command = Command::new(built_program("kopf-rs-apiserver"));
    command.args(args);
    command
}

/// Returns an empty folder.
fn empty(name: &str) -> Folder {
    let folder = Folder::new(name);
    fs::remove_dir_all(folder.path()).expect("a folder of ours");
    Folder::new(name)
}

/// Waits until a server prints the path of its kubeconfig.
async fn ready(command: Command) -> (Program, PathBuf) {
    let program = Program::start(command, PATIENCE);
    let line = program
        .lines()
        .with_patience(PATIENCE)
        .until("the line for kubectl", |line| line.contains("export KUBECONFIG="))
        .await;
    let (_, path) = line.split_once('=').expect("found above");
    (program, path.trim_matches('\'').into())
}

async fn client(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a configuration")).expect("a client")
}

fn map(name: &str, data: &serde_json::Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).expect("a ConfigMap")
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).expect("a file").mode() & 0o777
}

#[tokio::test]
async fn it_serves_until_it_is_asked_to_end() {
    let (mut program, kubeconfig) = ready(kopf_rs(&["apiserver"])).await;
    #[cfg(unix)]
    assert_eq!(mode(&kubeconfig), 0o600);
    let version = client(&kubeconfig).await.apiserver_version().await;
    assert_eq!(version.expect("an answer").minor, "36");
    let said = program.lines().all().join("\n");
    assert!(said.contains("Kubernetes API at https://127.0.0.1:"), "{said}");
    assert!(said.contains("in memory"), "{said}");
    program.signal("TERM").await;
    assert_eq!(program.ended().await.code(), Some(0));
    assert!(!kubeconfig.exists(), "a temporary file goes with the program");
}

#[tokio::test]
async fn a_cluster_is_there_again_for_the_same_kubeconfig() {
    let folder = empty("server-kept");
    let args = ["--data-dir", &folder.at("cluster")];
    let (mut program, kubeconfig) = ready(server(&args)).await;
    assert_eq!(kubeconfig, folder.path().join("cluster/kubeconfig"));
    let known = client(&kubeconfig).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(known.clone());
    let made = maps.create(&PostParams::default(), &map("m", &json!({"a": "1"}))).await;
    let made = made.expect("a new object");
    program.signal("INT").await;
    assert_eq!(program.ended().await.code(), Some(0));

    let (program, _) = ready(server(&args)).await;
    let found = maps.get("m").await.expect("what was made, by the old connection's credentials");
    assert_eq!(found, made);
    let said = program.lines().all().join("\n");
    assert!(said.contains("resourceVersion"), "{said}");

    let second = ended(server(&args)).await;
    second.with(1, &["error: ", "cluster is in use by another server"]);
}

#[tokio::test]
async fn what_is_in_the_way_is_named() {
    let folder = empty("server-refused")
        .file("mine.yaml", "apiVersion: v1\nkind: Config\n")
        .file("damaged/changes.1", "this was never written by a server\n")
        .file("file", "");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let (mine, link) = (folder.at("mine.yaml"), folder.at("link.yaml"));
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.at("elsewhere.yaml"), &link).expect("a link");
    for (args, texts) in [
        (vec!["--port", &port], vec!["error: port", "is in use", "--port"]),
        (vec!["--kubeconfig-out", &mine], vec!["mine.yaml was not written by this program"]),
        (vec!["--kubeconfig-out", &link], vec!["link.yaml was not written by this program"]),
        (
            vec!["--kubeconfig-out", "/no/such/folder/kubeconfig"],
            vec!["cannot write /no/such/folder/kubeconfig: "],
        ),
        (
            vec!["--data-dir", &folder.at("damaged")],
            vec!["identity.json is missing: there is changes.1", "begin anew"],
        ),
        (vec!["--data-dir", &folder.at("file")], vec!["error: ", "file"]),
    ] {
        ended(server(&args)).await.with(1, &texts);
    }
    assert_eq!(fs::read_to_string(mine).expect("untouched"), "apiVersion: v1\nkind: Config\n");
    assert!(!folder.path().join("elsewhere.yaml").exists(), "no link is followed");
    for wrong in [&["apiserver", "--port", "high"][..], &["apiserver", "--prot", "1"], &["apiserver", "x"]] {
        ended(kopf_rs(wrong)).await.with(2, &["error: "]);
    }
}

#[tokio::test]
async fn a_kubeconfig_of_its_own_is_replaced_and_open_to_nobody_else() {
    let folder = empty("server-out");
    let out = folder.at("kubeconfig");
    for _ in 0..2 {
        let (mut program, kubeconfig) = ready(server(&["--kubeconfig-out", &out])).await;
        assert_eq!(kubeconfig, Path::new(&out));
        #[cfg(unix)]
        assert_eq!(mode(&kubeconfig), 0o600);
        client(&kubeconfig).await.apiserver_version().await.expect("an answer");
        program.signal("TERM").await;
        assert_eq!(program.ended().await.code(), Some(0));
    }
    let names: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[tokio::test]
async fn both_programs_take_the_same_flags() {
    let flags = |said: &str| -> Vec<String> {
        let words = said.split_whitespace().filter(|word| word.starts_with("--"));
        let mut flags: Vec<String> = words.map(str::to_owned).collect();
        flags.retain(|flag| !flag.contains("version"));
        flags.sort();
        flags.dedup();
        flags
    };
    let own = ended(server(&["--help"])).await;
    let checked = ended(kopf_rs(&["apiserver", "--help"])).await;
    own.with(0, &["--data-dir <DIR>"]);
    checked.with(0, &["--data-dir <DIR>"]);
    assert_eq!(flags(&own.said), flags(&checked.said));
}

/// The answered writes: the last number written, by object.
type Answered = watch::Sender<BTreeMap<String, u32>>;

/// Creates objects and changes each several times, until the server is gone.
async fn write_on(maps: Api<ConfigMap>, writer: usize, round: u32, answered: Answered) {
    // Large objects, so that the server takes snapshots meanwhile.
    let filler = "x".repeat(20_000);
    let note = |name: &str, number: u32| {
        answered.send_modify(|answered| {
            answered.insert(name.to_owned(), number);
        });
    };
    for object in 0.. {
        let name = format!("r{round}-w{writer}-{object}");
        let new = map(&name, &json!({"n": "0", "filler": filler}));
        if maps.create(&PostParams::default(), &new).await.is_err() {
            return;
        }
        note(&name, 0);
        for number in 1..4 {
            let change = Patch::Merge(json!({"data": {"n": number.to_string()}}));
            if maps.patch(&name, &PatchParams::default(), &change).await.is_err() {
                return;
            }
            note(&name, number);
        }
    }
}

/// Kills the server with SIGKILL at moments that derive from a seed, while several clients write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_a_kill() {
    const WRITERS: usize = 4;
    let folder = empty("server-killed");
    let args = ["--data-dir", &folder.at("cluster")];
    let answered = Answered::new(BTreeMap::new());
    let mut seed: u64 = 20_261_121;
    for round in 0..4 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = usize::try_from(seed >> 33).expect("31 bits") % 60 + 20;
        let (mut program, kubeconfig) = ready(server(&args)).await;
        let maps: Api<ConfigMap> = Api::default_namespaced(client(&kubeconfig).await);
        check(&maps, &answered).await;
        let before = answered.borrow().len();
        let writers =
            (0..WRITERS).map(|writer| tokio::spawn(write_on(maps.clone(), writer, round, answered.clone())));
        let writers: Vec<_> = writers.collect();
        // Waits for a number of answers instead of a time, so that the moment does not depend on the load.
        let enough = |answered: &BTreeMap<String, u32>| answered.len() >= before + moment;
        answered.subscribe().wait_for(enough).await.expect("the sender is here");
        program.signal("KILL").await;
        program.ended().await;
        for writer in join_all(writers).await {
            writer.expect("a writer ends with the server");
        }
    }
    let (_program, kubeconfig) = ready(server(&args)).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&kubeconfig).await);
    check(&maps, &answered).await;
    assert!(folder.path().join("cluster/snapshot").is_file(), "a snapshot was made in between");
}

/// Checks that every answered write is there, or a newer one that was not answered.
async fn check(maps: &Api<ConfigMap>, answered: &Answered) {
    let found = maps.list(&ListParams::default()).await.expect("a list");
    let found: BTreeMap<String, u32> = found
        .items
        .into_iter()
        .map(|map| {
            let number = map.data.and_then(|data| data["n"].parse().ok());
            (map.metadata.name.unwrap_or_default(), number.expect("a number"))
        })
        .collect();
    let answered = answered.borrow().clone();
    for (name, number) in &answered {
        let there = found.get(name).copied();
        assert!(
            there.is_some_and(|there| (*number..=number + 1).contains(&there)),
            "{name}: {number} was answered, {there:?} is there"
        );
    }
}

/// A copied program with a copied server in the same folder.
#[tokio::test]
async fn the_server_beside_an_installed_program_needs_no_build() {
    use std::os::unix::fs::PermissionsExt as _;
    let version = env!("CARGO_PKG_VERSION");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo kopf-rs-apiserver {version} || echo \"beside: $*\"\n"
    );
    let folder = empty("beside").file("kopf-rs-apiserver", &script);
    let beside = folder.path().join("kopf-rs-apiserver");
    fs::set_permissions(beside, fs::Permissions::from_mode(0o755)).unwrap();
    let this = folder.path().join("kopf-rs");
    fs::copy(kopf_rs_tests::kopf_rs_binary(), &this).unwrap();
    let mut command = Command::new(this);
    command.args(["apiserver", "--port", "0"]);
    ended(command).await.with(0, &["beside: --port 0"]);
}
