//! An operator with its test, which runs it on an in-memory API server: see docs/testing.md.
//!
//! ```sh
//! kopf-rs run examples/kopf/09-testing.rs --embedded --apply examples/kopf --verbose
//! ```

use kopf_rs::prelude::*;

#[on_create("kopfexamples")]
fn create_fn() {
    info!("Something was logged here.");
}

#[cfg(test)]
mod tests {
    use kopf_rs::Registry;
    use kopf_rs::prelude::*;
    use kopf_rs::testing::TestCluster;

    #[tokio::test(start_paused = true)]
    async fn resource_lifecycle() {
        let cluster = TestCluster::with(include_str!("crd.yaml")).await;
        // Only the handlers of this file; in a separate crate, use `Registry::collected()`.
        let module = module_path!().trim_end_matches("::tests");
        let operator = cluster.start(Registry::in_module(module).unwrap());
        cluster.apply(include_str!("object.yaml")).await;
        cluster.line("[default/kopf-example-1] Something was logged here.").await;
        cluster.delete("kopfexamples", "kopf-example-1").await;
        cluster.until_gone("kopfexamples", "kopf-example-1").await;
        assert_eq!(operator.stop().await.failed, []);
        assert_eq!(cluster.list("kopfexamples").await, Vec::<Value>::new());
    }
}
