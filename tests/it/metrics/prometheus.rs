//! Metrics, rules and panels, parsed by Prometheus' client for Python and by a parser of its queries.
//!
//! The documentation, the alerts and the dashboard must use exactly the metrics that a scrape shows.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use kopf_rs::Registry;
use kopf_rs_tests::{Package, TestCluster, documents, python_for, scenarios};
use serde_json::{Value, json};

use super::{OPEN, Scraped, attempts, figures, scrape};
use crate::operating::TestOperator;
use crate::webhooks::settings;

scenarios! {
    prometheus_reads_the_metrics_and_its_rules_name_existing_ones [tcp];
    the_documentation_lists_all_figures [tcp];
}

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a repository");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Starts an operator that has done each kind of work.
async fn scraped(test: &TestOperator) -> Scraped<'_> {
    let registry = Registry::new()
        .on_create(test.selector(), test.noting("create_fn"))
        .on_validate(test.selector(), test.noting("check"))
        .daemon(test.selector(), test.noting("watch"))
        .timer(test.selector(), test.noting("tick").interval(3600))
        .index(test.selector(), kopf_rs::indexer("names", |_| Some(("a", 1))));
    let mut settings = settings(test);
    settings.lease.enabled = true;
    settings.lease.namespace = Some(test.cluster.namespace().to_owned());
    let operator = test.operator(registry).settings(settings);
    let scraped = Scraped::start_of(test, operator).await;
    test.create("one", json!({})).await;
    scraped.until(&attempts("create_fn", "success"), 1.0).await;
    let objects = format!("kopf_rs_objects{{resource=\"{}\"}}", scraped.resource());
    scraped.until(&objects, 1.0).await;
    // Metrics of writes and of other later work have series only after their first event.
    for _ in 0..100 {
        if absent(&scraped).await.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    scraped
}

/// Returns the documented metrics that a scrape lacks. Skips process metrics, which depend on the system, and metrics whose first event
/// these tests do not wait for.
async fn absent(scraped: &Scraped<'_>) -> Vec<String> {
    let late = ["kopf_rs_metrics_overflow_total", "kopf_rs_daemons", "kopf_rs_timers"];
    let is_bound = |name: &&String| !name.starts_with("process_") && !late.contains(&name.as_str());
    let plain = scrape(scraped.port, "text/plain").await.text;
    let listed = listed();
    let written = written(&plain);
    let gone = listed.difference(&written).filter(is_bound);
    gone.cloned().collect()
}

fn written(plain: &str) -> BTreeSet<String> {
    let types = plain.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.filter_map(|it| it.split(' ').next());
    names.map(str::to_owned).collect()
}

fn listed() -> BTreeSet<String> {
    let page = read("docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|row| row.split('`').next());
    names.map(str::to_owned).collect()
}

async fn prometheus_reads_the_metrics_and_its_rules_name_existing_ones(cluster: TestCluster) {
    let name = "metrics::prometheus::prometheus_reads_the_metrics_and_its_rules_name_existing_ones";
    let python = tokio::task::spawn_blocking(move || python_for(name, Package::Prometheus));
    let Some(python) = python.await.expect("the installation does not panic") else {
        return;
    };
    let test = TestOperator::of(cluster).await;
    let operator = scraped(&test).await;
    let open = scrape(operator.port, OPEN).await.text;
    let plain = scrape(operator.port, "text/plain").await.text;
    let expressions = expressions();
    let given = json!({"openmetrics": open, "text": plain, "expressions": expressions});
    let said = tokio::task::spawn_blocking(move || ask(&python, &given));
    let said = said.await.expect("it does not panic");
    let theirs = said["openmetrics"].as_array().expect("series");
    assert_eq!(theirs.len(), figures(&open).len());
    assert_eq!(said["text"].as_array().expect("series").len(), figures(&plain).len());
    let there = said["text"].as_array().expect("series").iter();
    let there: BTreeSet<&str> = there.filter_map(|it| it[0].as_str()).collect();
    let selected = said["expressions"].as_array().expect("one for each");
    assert_eq!(selected.len(), expressions.len());
    for (expression, names) in expressions.iter().zip(selected) {
        let names = names.as_array().expect("names");
        assert!(!names.is_empty(), "{expression} selects nothing");
        for name in names {
            let name = name.as_str().expect("a name");
            assert!(there.contains(name), "{expression} names {name}, which no operator has");
        }
    }
    operator.working.stop().await;
}

/// Returns the expressions of all alerts and all panels.
fn expressions() -> Vec<String> {
    let [rules]: [Value; 1] =
        documents(&read("deploy/prometheus/alerts.yaml")).try_into().expect("one document");
    let rules = rules["groups"][0]["rules"].as_array().expect("rules").clone();
    let board: Value = serde_json::from_str(&read("deploy/grafana/kopf-rs.json")).expect("JSON");
    let mut expressions = Vec::new();
    for rule in &rules {
        for said in [&rule["alert"], &rule["annotations"]["summary"], &rule["annotations"]["description"]] {
            assert!(said.is_string(), "{rule}");
        }
        expressions.push(rule["expr"].as_str().expect("an expression").to_owned());
    }
    let panels = board["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    for target in targets {
        let expression = target["expr"].as_str().expect("an expression");
        expressions.push(expression.replace("$__rate_interval", "5m"));
    }
    assert!(rules.len() >= 10 && expressions.len() > 30);
    expressions
}

fn ask(python: &Path, given: &Value) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("prometheus/read.py");
    let mut command = Command::new(python);
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("Python starts");
    let mut input = child.stdin.take().expect("it has an input");
    input.write_all(given.to_string().as_bytes()).expect("it is read");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "it complains on standard error");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

async fn the_documentation_lists_all_figures(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let operator = scraped(&test).await;
    let plain = scrape(operator.port, "text/plain").await.text;
    let (written, listed) = (written(&plain), listed());
    let missing: Vec<_> = written.difference(&listed).collect();
    assert!(missing.is_empty(), "docs/metrics.md does not list {missing:?}");
    let gone = absent(&operator).await;
    assert!(gone.is_empty(), "docs/metrics.md lists {gone:?}, which are not there");
    operator.working.stop().await;
}
