//! The program `kopf-rs-apiserver`: its output, its kubeconfig files, its end, and its data directory.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kopf_rs_apiserver_tests::{Program, built_programs, workspace};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::sync::watch;

/// The deadline for a line or an exit, on a machine busy with other tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the program with arguments.
fn server(args: &[&str]) -> Command {
    static ALL: LazyLock<BTreeMap<String, PathBuf>> = LazyLock::new(|| built_programs(workspace()));
    let mut command = Command::new(&ALL["kopf-rs-apiserver"]);
    command.args(args);
    command
}

/// A folder that is empty at the start of the test.
struct Folder(PathBuf);

impl Folder {
    fn empty(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // It may not exist yet.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the target folder can be written to");
        Self(path)
    }

    /// Returns a path in the folder as an argument.
    fn at(&self, below: &str) -> String {
        let path = self.0.join(below).into_os_string();
        path.into_string().expect("an ASCII path")
    }

    fn file(self, below: &str, text: &str) -> Self {
        let path = self.0.join(below);
        fs::create_dir_all(path.parent().expect("a file is in a folder"))
            .and_then(|()| fs::write(path, text))
            .expect("files can be written");
        self
    }
}

/// Runs a program until its exit, and checks its exit code and its output.
async fn ends(command: Command, code: i32, texts: &[&str]) {
    let mut program = Program::start(command, PATIENCE);
    let ended = program.ended().await;
    let said = program.lines().join("\n");
    assert_eq!(ended, code, "{said}");
    for text in texts {
        assert!(said.contains(text), "not said: {text}\nsaid:\n{said}");
    }
}

/// Waits until a server prints the path of its kubeconfig.
async fn ready(command: Command) -> (Program, PathBuf) {
    let program = Program::start(command, PATIENCE);
    let path = |lines: &[String]| {
        let line = lines
            .iter()
            .find(|line| line.contains("export KUBECONFIG="));
        let (_, path) = line?.split_once('=')?;
        Some(PathBuf::from(path.trim_matches('\'')))
    };
    let lines = program
        .until("line for kubectl", |lines| path(lines).is_some())
        .await;
    let path = path(&lines).expect("awaited above");
    (program, path)
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
    let (mut program, kubeconfig) = ready(server(&[])).await;
    #[cfg(unix)]
    assert_eq!(mode(&kubeconfig), 0o600);
    let version = client(&kubeconfig).await.apiserver_version().await;
    assert_eq!(version.expect("an answer").minor, "36");
    let said = program.lines().join("\n");
    assert!(
        said.contains("Kubernetes API at https://127.0.0.1:"),
        "{said}"
    );
    assert!(said.contains("in memory"), "{said}");
    program.signal("TERM");
    assert_eq!(program.ended().await, 0);
    assert!(
        !kubeconfig.exists(),
        "a temporary file goes with the program"
    );
}

#[tokio::test]
async fn a_cluster_is_there_again_for_the_same_kubeconfig() {
    let folder = Folder::empty("server-kept");
    let args = ["--data-dir", &folder.at("cluster")];
    let (mut program, kubeconfig) = ready(server(&args)).await;
    assert_eq!(kubeconfig, folder.0.join("cluster/kubeconfig"));
    let known = client(&kubeconfig).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(known.clone());
    let made = maps
        .create(&PostParams::default(), &map("m", &json!({"a": "1"})))
        .await;
    let made = made.expect("a new object");
    program.signal("INT");
    assert_eq!(program.ended().await, 0);

    let (program, _) = ready(server(&args)).await;
    let found = maps
        .get("m")
        .await
        .expect("what was made, by the old connection's credentials");
    assert_eq!(found, made);
    let said = program.lines().join("\n");
    assert!(said.contains("resourceVersion"), "{said}");

    let texts = ["error: ", "cluster is in use by another server"];
    ends(server(&args), 1, &texts).await;
}

#[tokio::test]
async fn what_is_in_the_way_is_named() {
    let folder = Folder::empty("server-refused")
        .file("mine.yaml", "apiVersion: v1\nkind: Config\n")
        .file("damaged/changes.1", "this was never written by a server\n")
        .file("file", "");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let (mine, link) = (folder.at("mine.yaml"), folder.at("link.yaml"));
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.at("elsewhere.yaml"), &link).expect("a link");
    for (args, texts) in [
        (
            vec!["--port", &port],
            vec!["error: port", "is in use", "--port"],
        ),
        (
            vec!["--kubeconfig-out", &mine],
            vec!["mine.yaml was not written by this program"],
        ),
        (
            vec!["--kubeconfig-out", &link],
            vec!["link.yaml was not written by this program"],
        ),
        (
            vec!["--kubeconfig-out", "/no/such/folder/kubeconfig"],
            vec!["cannot write /no/such/folder/kubeconfig: "],
        ),
        (
            vec!["--data-dir", &folder.at("damaged")],
            vec!["identity.json is missing: there is changes.1", "begin anew"],
        ),
        (
            vec!["--data-dir", &folder.at("file")],
            vec!["error: ", "file"],
        ),
    ] {
        ends(server(&args), 1, &texts).await;
    }
    assert_eq!(
        fs::read_to_string(mine).expect("untouched"),
        "apiVersion: v1\nkind: Config\n"
    );
    assert!(
        !folder.0.join("elsewhere.yaml").exists(),
        "no link is followed"
    );
    for wrong in [&["--port", "high"][..], &["--prot", "1"], &["x"]] {
        ends(server(wrong), 2, &["error: "]).await;
    }
}

#[tokio::test]
async fn a_kubeconfig_of_its_own_is_replaced_and_open_to_nobody_else() {
    let folder = Folder::empty("server-out");
    let out = folder.at("kubeconfig");
    for _ in 0..2 {
        let (mut program, kubeconfig) = ready(server(&["--kubeconfig-out", &out])).await;
        assert_eq!(kubeconfig, Path::new(&out));
        #[cfg(unix)]
        assert_eq!(mode(&kubeconfig), 0o600);
        client(&kubeconfig)
            .await
            .apiserver_version()
            .await
            .expect("an answer");
        program.signal("TERM");
        assert_eq!(program.ended().await, 0);
    }
    let names: Vec<_> = fs::read_dir(folder.0).expect("a folder").collect();
    assert_eq!(names.len(), 1, "{names:?}");
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
            if maps
                .patch(&name, &PatchParams::default(), &change)
                .await
                .is_err()
            {
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
    let folder = Folder::empty("server-killed");
    let args = ["--data-dir", &folder.at("cluster")];
    let answered = Answered::new(BTreeMap::new());
    let mut seed: u64 = 20_261_121;
    for round in 0..4 {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let moment = usize::try_from(seed >> 33).expect("31 bits") % 60 + 20;
        let (mut program, kubeconfig) = ready(server(&args)).await;
        let maps: Api<ConfigMap> = Api::default_namespaced(client(&kubeconfig).await);
        check(&maps, &answered).await;
        let before = answered.borrow().len();
        let writers = (0..WRITERS)
            .map(|writer| tokio::spawn(write_on(maps.clone(), writer, round, answered.clone())));
        let writers: Vec<_> = writers.collect();
        // Waits for a number of answers instead of a time, so that the moment does not depend on the load.
        let enough = |answered: &BTreeMap<String, u32>| answered.len() >= before + moment;
        answered
            .subscribe()
            .wait_for(enough)
            .await
            .expect("the sender is here");
        program.signal("KILL");
        program.ended().await;
        for writer in join_all(writers).await {
            writer.expect("a writer ends with the server");
        }
    }
    let (_program, kubeconfig) = ready(server(&args)).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&kubeconfig).await);
    check(&maps, &answered).await;
    assert!(
        folder.0.join("cluster/snapshot").is_file(),
        "a snapshot was made in between"
    );
}

/// Checks that every answered write is there, or a newer one that was not answered.
async fn check(maps: &Api<ConfigMap>, answered: &Answered) {
    let found = maps.list(&ListParams::default()).await.expect("a list");
    let found: BTreeMap<String, u32> = found
        .items
        .into_iter()
        .map(|map| {
            let number = map.data.and_then(|data| data["n"].parse().ok());
            (
                map.metadata.name.unwrap_or_default(),
                number.expect("a number"),
            )
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
