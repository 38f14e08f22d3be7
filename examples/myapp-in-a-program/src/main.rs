//! A program with an embedded operator: the annotated functions of `../myapp`, and a closure.
//!
//! It uses kubectl's current cluster, sets up its own logging, and ends with Ctrl+C:
//!
//! ```sh
//! kubectl apply -f examples/myapp/crd.yaml -f examples/myapp/example-app.yaml
//! cargo run -p myapp-in-a-program
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kopf_rs::prelude::*;
use kopf_rs::{Operator, Registry};
// The linker includes only crates that the program mentions, and with them their handlers.
use myapp as _;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let created = Arc::new(AtomicUsize::new(0));
    let operator = Operator::new(Registry::collected()?.and(counting(&created)))
        .name("myapp")
        .namespaces([std::env::var("NAMESPACE").unwrap_or("default".to_owned())]);
    let client = Client::try_default().await?;
    // Accepts any future: the operator stops when it completes.
    let report = operator.run(client, tokio::signal::ctrl_c()).await?;
    tracing::info!("{} created, {} failed for good", created.load(Ordering::Relaxed), report.failed.len());
    Ok(())
}

/// Handlers can be closures with access to the program's state.
fn counting(created: &Arc<AtomicUsize>) -> Registry {
    let count = handler_with("count", created.clone(), async |_, created| {
        created.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    Registry::new().on_create("myapps.v1.demo.rtfm.co.ua", count)
}

#[cfg(test)]
mod tests {
    use kopf_rs::testing::TestCluster;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_closure_counts_what_the_functions_handle() {
        let cluster = TestCluster::with(include_str!("../../myapp/crd.yaml")).await;
        let created = Arc::new(AtomicUsize::new(0));
        let registry = Registry::collected().unwrap().and(counting(&created));
        let operator = cluster.start(Operator::new(registry).namespaces(["default"]));
        let app = include_str!("../../myapp/example-app.yaml");
        cluster.apply(app).await;
        cluster.line("Handler 'create_myapp' succeeded.").await;
        cluster.line("Handler 'count' succeeded.").await;
        operator.stop().await;
        assert_eq!(created.load(Ordering::Relaxed), 1);
    }
}
