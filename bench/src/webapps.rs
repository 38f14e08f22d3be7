//! A Deployment and a Service kept in shape for each object, and its status written: by ours, controller-runtime and kube-rs.
//!
//! The objects are created with the operator running, on a server of its own that has no controllers. Measured is until each object has its
//! children and its status, and the operator rests. Must not know how any contender works inside.

use std::collections::{BTreeMap, BTreeSet};
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
use crate::report::{median, spread};
use crate::samples::{Run, log_of};
use crate::say;

const NAMESPACE: &str = "bench";

/// Measure, title, digits.
const ROWS: [(&str, &str, usize); 7] = [
    ("throughput", "objects per second", 0),
    ("cpu_us", "operator CPU per object, us", 0),
    ("peak_mib", "peak memory, MiB", 1),
    ("rss_mib", "memory after, MiB", 1),
    ("latency_p50_ms", "create to status, p50, ms", 1),
    ("latency_p99_ms", "create to status, p99, ms", 1),
    ("requests", "requests per object", 2),
];

/// What this project means to need at most of controller-runtime's.
const GOALS: [(&str, f64); 4] = [
    ("requests", 0.999),
    ("cpu_us", 0.5),
    ("peak_mib", 0.5),
    ("rss_mib", 0.5),
];

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Peer {
    Ours,
    ControllerRuntime,
    KubeRs,
}

/// The runs of each, by round.
type Rounds = BTreeMap<Peer, Vec<Run>>;

pub async fn run(options: &Options) -> Result<()> {
    let mut programs = BTreeMap::new();
    for peer in Peer::ALL {
        say(&format!("preparing {}", peer.label()));
        let prepared = tokio::task::spawn_blocking(move || peer.prepare());
        programs.insert(peer, prepared.await??);
    }
    let mut rounds = Rounds::new();
    for round in 0..options.rounds {
        for place in 0..Peer::ALL.len() {
            let peer = Peer::ALL[(round + place) % Peer::ALL.len()];
            say(&format!("round {}: {}", round + 1, peer.label()));
            let run = measured(options, peer, &programs[&peer]).await;
            let run = run.with_context(|| peer.label())?;
            rounds.entry(peer).or_default().push(run);
        }
    }
    let raw: BTreeMap<_, _> = rounds.iter().map(|(peer, it)| (peer.label(), it)).collect();
    let file = root().join("results/webapps.json");
    let text = json!({"options": options, "rounds": raw});
    std::fs::write(&file, format!("{text:#}\n"))?;
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
    wanted
        .filter_map(|child| child["metadata"]["ownerReferences"][0]["uid"].as_str())
        .collect()
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

impl Peer {
    const ALL: [Self; 3] = [Self::Ours, Self::ControllerRuntime, Self::KubeRs];

    fn label(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::ControllerRuntime => "controller-runtime",
            Self::KubeRs => "kube-rs",
        }
    }

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

fn print(rounds: &Rounds, options: &Options) {
    print!("{:<32}", format!("median of {} rounds", options.rounds));
    for peer in Peer::ALL {
        print!("{:>20}", peer.label());
    }
    println!("  ours/controller-runtime  ours/kube-rs");
    println!(
        "{} objects with a Deployment, a Service and a status",
        options.apps
    );
    for (measure, title, digits) in ROWS {
        print!("  {title:<30}");
        for peer in Peer::ALL {
            let value = median(values(rounds, peer, measure)).unwrap_or_default();
            print!("{value:>20.digits$}");
        }
        let [go, rust] = [Peer::ControllerRuntime, Peer::KubeRs]
            .map(|peer| spread(ratios(rounds, measure, peer)));
        println!("  {go:<23}  {rust}");
    }
    for peer in Peer::ALL {
        let verbs = rounds[&peer].last().map(|run| &run.detail);
        let verbs = verbs.into_iter().flatten();
        let verbs = verbs.filter_map(|(verb, many)| {
            Some(format!(
                "{} {:.2}",
                verb.strip_prefix("requests: ")?,
                many.as_f64()?
            ))
        });
        let verbs: Vec<_> = verbs.collect();
        println!(
            "  requests of {}, last round: {}",
            peer.label(),
            verbs.join(", ")
        );
    }
    for (measure, bound) in GOALS {
        let title = ROWS.iter().find(|row| row.0 == measure);
        let title = title.map_or(measure, |row| row.1);
        let ratio = median(ratios(rounds, measure, Peer::ControllerRuntime)).unwrap_or(f64::MAX);
        let verdict = if ratio <= bound {
            "reached"
        } else {
            "NOT reached"
        };
        println!(
            "goal: {title}, at most {bound:.1} of controller-runtime's: {ratio:.2}, {verdict}"
        );
    }
}

fn values(rounds: &Rounds, peer: Peer, measure: &str) -> Vec<f64> {
    let runs = rounds.get(&peer).into_iter().flatten();
    runs.filter_map(|run| run.measures.get(measure).copied())
        .collect()
}

/// Ours by theirs, round by round.
fn ratios(rounds: &Rounds, measure: &str, peer: Peer) -> Vec<f64> {
    let ours = values(rounds, Peer::Ours, measure);
    let theirs = values(rounds, peer, measure);
    ours.iter().zip(theirs).map(|(a, b)| a / b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_that_of_the_object_as_it_is() {
        let ready = json!({"type": "Ready", "status": "False", "observedGeneration": 1});
        let status =
            json!({"availableReplicas": 0, "observedGeneration": 1, "conditions": [ready]});
        let app =
            |generation| json!({"metadata": {"generation": generation}, "status": status.clone()});
        assert!(has_status(&app(1)) && !has_status(&app(2)));
    }

    #[test]
    fn children_count_for_their_controllers() {
        let child = |spec: Value, uid: &str| json!({"metadata": {"ownerReferences": [{"uid": uid}]}, "spec": spec});
        let children = [
            child(json!({"ports": [{"targetPort": 8080}]}), "a"),
            child(json!({"ports": [{"targetPort": 80}]}), "b"),
        ];
        assert_eq!(owned(&children), BTreeSet::from(["a"]));
    }
}
