//! Indices of Pods, read by probes and by a timer of other objects.
//!
//! ```sh
//! kopf-rs run examples/kopf/16-indexing.rs --embedded --apply examples/kopf --verbose
//! ```

use kopf_rs::prelude::*;

/// Indexes by namespace and name whether each Pod runs.
#[index("v1", "pods")]
fn is_running(
    namespace: String,
    name: String,
    #[from(status.phase)] phase: Option<&str>,
) -> ((String, String), bool) {
    ((namespace, name), phase == Some("Running"))
}

/// Indexes the names of Pods by each of their labels.
#[index("v1", "pods")]
fn by_label(labels: &Labels, name: &str) -> Vec<((String, String), String)> {
    let pairs = labels.iter();
    let owned = pairs.map(|(label, value)| (label.to_owned(), value.to_owned()));
    owned.map(|pair| (pair, name.to_owned())).collect()
}

#[on_probe]
async fn pod_count(is_running: Index<(String, String), bool>) -> HandlerResult<usize> {
    Ok(is_running.len())
}

#[on_probe]
async fn pod_names(is_running: Index<(String, String), bool>) -> HandlerResult<Vec<String>> {
    Ok(is_running.keys().into_iter().map(|(_, name)| name).collect())
}

#[timer("kopfexamples", interval = 5)]
async fn intervalled(
    is_running: Index<(String, String), bool>,
    by_label: Index<(String, String), String>,
    patch: &mut Patch,
) {
    info!("There are Pods with {} labels.", by_label.len());
    let mut running: Vec<String> = is_running
        .iter()
        .filter(|((namespace, _), runs)| namespace == "default" && runs.contains(&true))
        .map(|((namespace, name), _)| format!("{namespace}::{name}"))
        .collect();
    running.sort();
    patch.set("status.running-pods", running);
}
