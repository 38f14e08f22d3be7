//! Creates objects, with a fixed number of requests in flight.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
pub use kopf_rs_apiserver_bench::object;
use kube::Client;
use serde_json::Value;

use crate::bench_cluster::post;

/// The times at which the server acknowledged the objects.
#[derive(Debug)]
pub struct Created {
    /// Before the first request.
    pub began: Instant,
    /// After the last response.
    pub ended: Instant,
    pub acknowledged: HashMap<String, Instant>,
}

/// Creates all objects, `concurrency` at a time.
pub async fn create(
    client: &Client,
    collection: &str,
    concurrency: usize,
    objects: impl Iterator<Item = (String, Value)>,
) -> Result<Created> {
    let began = Instant::now();
    let acknowledged = futures::stream::iter(objects)
        .map(|(name, body)| async move {
            post(client, collection, &body).await.with_context(|| format!("creating {name}"))?;
            anyhow::Ok((name, Instant::now()))
        })
        .buffer_unordered(concurrency)
        .try_collect()
        .await?;
    Ok(Created { began, ended: Instant::now(), acknowledged })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_one_to_two_kilobytes() {
        for number in 0..7 {
            let bytes = object("object-00000", number).to_string().len();
            assert!((1_000..2_000).contains(&bytes), "{bytes}");
        }
    }
}
