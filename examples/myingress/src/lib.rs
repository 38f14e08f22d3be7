//! `MyIngress`: creates an AWS Application Load Balancer for every object of this kind.
//!
//! ```sh
//! kopf-rs run examples/myingress --embedded --apply examples/myingress
//! ```
//!
//! The region and the credentials come from the environment, as for every AWS program; `AWS_ENDPOINT_URL` selects
//! another server, for example moto. An attempt may be interrupted after the cloud has created the load balancer, but
//! before the object stores it. The next attempt then has the same `attempt.key()`, with which [`Balancers::make`]
//! gets the same load balancer. README.md describes the pattern.

mod balancers;

pub use balancers::{Balancer, Balancers};
use kopf_rs::prelude::*;

const MYINGRESSES: (&str, &str, &str) = ("demo.rtfm.co.ua", "v1", "myingresses");

/// The spec of the object.
#[derive(Debug, Deserialize)]
pub struct MyIngressSpec {
    #[serde(default)]
    subnets: Vec<String>,
    #[serde(default = "internet_facing")]
    scheme: String,
}

fn internet_facing() -> String {
    "internet-facing".into()
}

impl MyIngressSpec {
    fn subnets(&self) -> Result<&[String], PermanentError> {
        match self.subnets.as_slice() {
            [] => fail!("spec.subnets is required."),
            subnets => Ok(subnets),
        }
    }
}

/// Creates the client for the cloud.
#[on_startup]
pub async fn connect(memo: Memo) {
    memo.insert(Balancers::from_env().await);
}

/// Creates the load balancer of a new object.
///
/// # Errors
///
/// Fails permanently without subnets, and temporarily if the cloud rejects the request.
#[on_create(MYINGRESSES)]
pub async fn create_myingress(
    spec: MyIngressSpec,
    name: &str,
    uid: &str,
    attempt: Attempt,
    patch: &mut Patch,
    balancers: Balancers,
) -> HandlerResult<Value> {
    let subnets = spec.subnets()?;
    let balancer = balancers.make(name, uid, &attempt.key(), subnets, &spec.scheme).await?;
    info!("Load balancer {} at {}.", balancer.arn, balancer.dns);
    patch.set("status.alb.dns", &balancer.dns);
    patch.set("status.alb.arn", &balancer.arn);
    Ok(json!({"alb-arn": balancer.arn}))
}

/// Moves the load balancer to other subnets.
///
/// # Errors
///
/// Fails as [`create_myingress`] does.
#[on_update(MYINGRESSES, field = "spec.subnets")]
pub async fn move_myingress(
    spec: MyIngressSpec,
    name: &str,
    uid: &str,
    attempt: Attempt,
    balancers: Balancers,
) -> HandlerResult {
    let subnets = spec.subnets()?;
    let balancer = match balancers.find(name, uid).await? {
        Some(balancer) => balancer,
        None => balancers.make(name, uid, &attempt.key(), subnets, &spec.scheme).await?,
    };
    balancers.place(&balancer, subnets).await?;
    info!("Load balancer {} is in {}.", balancer.arn, subnets.join(", "));
    Ok(())
}

/// Deletes the load balancer before the object disappears, which the finalizer delays.
///
/// # Errors
///
/// Fails temporarily if the cloud rejects the request.
#[on_delete(MYINGRESSES)]
pub async fn delete_myingress(name: &str, uid: &str, balancers: Balancers) -> HandlerResult {
    if let Some(balancer) = balancers.find(name, uid).await? {
        balancers.delete(&balancer).await?;
        info!("Load balancer {} deleted.", balancer.arn);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kopf_rs::Registry;
    use kopf_rs::testing::TestCluster;

    #[tokio::test(start_paused = true)]
    async fn without_subnets_the_cloud_is_not_asked() {
        let cluster = TestCluster::with(include_str!("../crd.yaml")).await;
        let operator = cluster.start(Registry::collected().unwrap());
        cluster.apply(include_str!("../missing-subnets.yaml")).await;
        let failed = "Handler 'create_myingress' failed permanently: spec.subnets is required.";
        cluster.line(failed).await;
        let report = operator.stop().await;
        assert_eq!(report.failed.len(), 1);
    }
}
