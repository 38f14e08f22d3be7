//! A Deployment and a Service kept in shape for each object, and its status written: by ours, controller-runtime and kube-rs.
//!
//! The objects are created with the operator running, on a server of its own that has no controllers. Measured is until each object has its
//! children and its status, and the operator rests. Must not know how any contender works inside.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kopf_rs_tests::go_program;
use serde_json::{Value, json};

use crate::bench_cluster::{API_VERSION, BenchCluster, collection, get};
use crate::contender::{build_release, release_binary, root};
use crate::creates::{WARM_UP, measures};
use crate::loader;
use crate::observer::{Observer, Sign};
use crate::operator::Operator;
use crate::options::Options;
use crate::peers::{self, Goal, Peer as _, Rounds, Row, in_turn, keep, prepared, raw};
use crate::samples::{Run, log_of};

const NAMESPACE: &str = "bench";

const ROWS: [Row; 7] = [
    ("throughput", "objects per second", 0),
    ("cpu_us", "operator CPU per object, us", 0),
    ("peak_mib", "peak memory, MiB", 1),
    ("rss_mib", "memory after, MiB", 1),
    ("latency_p50_ms", "create to status, p50, ms", 1),
    ("latency_p99_ms", "create to status, p99, ms", 1),
    ("requests", "requests per object", 2),
];

/// What this project means to need at most of controller-runtime's.
const GOALS: [((&str, &str), f64); 4] = [
    (("requests", "requests per object"), 0.999),
    (("cpu_us", "operator CPU per object"), 0.5),
    (("peak_mib", "peak memory"), 0.5),
    (("rss_mib", "memory after"), 0.5),
];

const PAIRS: [(Peer, Peer); 2] = [(Peer::Ours, Peer::ControllerRuntime), (Peer::Ours, Peer::KubeRs)];

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Peer {
    Ours,
    ControllerRuntime,
    KubeRs,
}

pub async fn run(options: &Options) -> Result<()> {
    let programs = prepared(Peer::prepare).await?;
    let run = async |peer| measured(options, peer, &programs[&peer]).await;
    let rounds = in_turn(options, "children", run).await?;
    keep("webapps", options, &raw(&rounds))?;
    print(&rounds, options);
    Ok(())
}

async fn measured(options: &Options, peer: Peer, program: &Path) -> Result<Run> {
    let cluster = BenchCluster::start().await?;
    cluster.namespace(NAMESPACE).await?;
    let apps = collection(NAMESPACE, "webapps");
    let observer = Observer::start(&cluster.admin, &apps, Sign::Status).await?;
    let mut command = Command::new(program);
    if peer == Peer::Ours {
        command.arg("-n");
    }
    command.arg(NAMESPACE);
    let log = log_of("webapps", peer.label())?;
    let mut operator = Operator::spawn(command, &cluster.kubeconfig(), log)?;
    let warm_up = (0..WARM_UP).map(|number| app(&format!("warm-up-{number:05}")));
    loader::create(&cluster.admin, &apps, options.concurrency, warm_up).await?;
    observer.until(WARM_UP, &mut operator).await?;
    operator.until_rest().await?;

    let (before, asked_before) = (operator.usage()?, cluster.requests());
    let all = (0..options.apps).map(|number| app(&format!("app-{number:05}")));
    let created = loader::create(&cluster.admin, &apps, options.concurrency, all).await?;
    let expected = WARM_UP + options.apps;
    let last = observer.until(expected, &mut operator).await?;
    operator.until_rest().await?;
    let (after, asked_after) = (operator.usage()?, cluster.requests());

    let complete = complete(&cluster, &apps).await?;
    ensure!(
        complete == expected,
        "{complete} of {expected} objects have their children and their status in the end"
    );
    let mut run = measures(&created, &observer.finish(), last, (before, after))?;
    run.handled = options.apps;
    run.set_requests(&asked_before, &asked_after, options.apps);
    Ok(run)
}

fn app(name: &str) -> (String, Value) {
    let body = json!({
        "apiVersion": API_VERSION, "kind": "WebApp",
        "metadata": {"name": name},
        "spec": {"image": "nginx:1.29", "replicas": 2, "port": 8080},
    });
    (name.to_owned(), body)
}

/// How many objects have both children, and a status of what they are.
async fn complete(cluster: &BenchCluster, apps: &str) -> Result<usize> {
    let mut lists = Vec::new();
    for url in [
        apps,
        &format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments"),
        &format!("/api/v1/namespaces/{NAMESPACE}/services"),
    ] {
        let list: Value = serde_json::from_str(&get(&cluster.admin, url).await?)?;
        let items = list["items"].as_array().cloned();
        lists.push(items.context("a list without items")?);
    }
    let [apps, deployments, services] = &lists[..] else {
        unreachable!("three are read");
    };
    let (deployments, services) = (owned(deployments), owned(services));
    let complete = apps.iter().filter(|app| {
        let uid = app["metadata"]["uid"].as_str().unwrap_or_default();
        deployments.contains(uid) && services.contains(uid) && has_status(app)
    });
    Ok(complete.count())
}

/// The uids of the controllers of these children, whose content is what is wanted.
fn owned(children: &[Value]) -> BTreeSet<&str> {
    let wanted = children.iter().filter(|child| {
        let spec = &child["spec"];
        let container = &spec["template"]["spec"]["containers"][0];
        let is_deployment = spec["replicas"] == 2 && container["image"] == "nginx:1.29";
        is_deployment || spec["ports"][0]["targetPort"] == 8080
    });
    wanted.filter_map(|child| child["metadata"]["ownerReferences"][0]["uid"].as_str()).collect()
}

/// Nothing is available without a controller of Deployments.
fn has_status(app: &Value) -> bool {
    let (status, generation) = (&app["status"], &app["metadata"]["generation"]);
    let ready = &status["conditions"][0];
    status["availableReplicas"] == 0
        && status["observedGeneration"] == *generation
        && ready["type"] == "Ready"
        && ready["status"] == "False"
        && ready["observedGeneration"] == *generation
}

impl peers::Peer for Peer {
    const ALL: &'static [Self] = &[Self::Ours, Self::ControllerRuntime, Self::KubeRs];

    fn label(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::ControllerRuntime => "controller-runtime",
            Self::KubeRs => "kube-rs",
        }
    }
}

impl Peer {
    /// Builds it. Where its program lies.
    fn prepare(self) -> Result<PathBuf> {
        let package = match self {
            Self::Ours => "bench-webapp",
            Self::KubeRs => "bench-webapp-kube-rs",
            Self::ControllerRuntime => {
                let sources = root().join("contenders/controller-runtime");
                return Ok(go_program(&sources, "webapp")?);
            }
        };
        build_release(package)?;
        Ok(release_binary(package))
    }
}

fn print(rounds: &Rounds<Peer>, options: &Options) {
    peers::print_head(options, &PAIRS);
    println!("{} objects with a Deployment, a Service and a status", options.apps);
    peers::print_rows(rounds, &ROWS, &PAIRS);
    for peer in Peer::ALL {
        let verbs = rounds[peer].last().map(|run| &run.detail);
        let verbs = verbs.into_iter().flatten();
        let verbs = verbs.filter_map(|(verb, many)| {
            Some(format!("{} {:.2}", verb.strip_prefix("requests: ")?, many.as_f64()?))
        });
        let verbs: Vec<_> = verbs.collect();
        println!("  requests of {}, last round: {}", peer.label(), verbs.join(", "));
    }
    for (measure, bound) in GOALS {
        peers::print_goal(rounds, measure, PAIRS[0], &Goal::AtMost(bound));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_that_of_the_object_as_it_is() {
        let ready = json!({"type": "Ready", "status": "False", "observedGeneration": 1});
        let status = json!({"availableReplicas": 0, "observedGeneration": 1, "conditions": [ready]});
        let app = |generation| json!({"metadata": {"generation": generation}, "status": status.clone()});
        assert!(has_status(&app(1)) && !has_status(&app(2)));
    }

    #[test]
    fn children_count_for_their_controllers() {
        let child =
            |spec: Value, uid: &str| json!({"metadata": {"ownerReferences": [{"uid": uid}]}, "spec": spec});
        let children = [
            child(json!({"ports": [{"targetPort": 8080}]}), "a"),
            child(json!({"ports": [{"targetPort": 80}]}), "b"),
        ];
        assert_eq!(owned(&children), BTreeSet::from(["a"]));
    }
}
