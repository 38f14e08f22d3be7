//! Creates objects, with a fixed number of requests in flight.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::Client;
use serde_json::{Value, json};

use crate::bench_cluster::{API_VERSION, post};

/// The size of the text in every object, which makes one to two kilobytes of JSON in total.
const TEXT_BYTES: usize = 1_200;

/// The times at which the server acknowledged the objects.
#[derive(Debug)]
pub struct Created {
    /// Before the first request.
    pub began: Instant,
    /// After the last response.
    pub ended: Instant,
    pub acknowledged: HashMap<String, Instant>,
}

/// Returns an object of the measured kind that no operator has handled.
pub fn object(name: &str, number: usize) -> Value {
    let words = ["lorem", "ipsum", "\"dolor\"", "sit", "amét", "consectetur"];
    let mut text = String::with_capacity(TEXT_BYTES + 16);
    for at in number.. {
        if text.len() >= TEXT_BYTES {
            break;
        }
        text.push_str(words[at % words.len()]);
        text.push(' ');
    }
    json!({
        "apiVersion": API_VERSION, "kind": "BenchObj",
        "metadata": {"name": name},
        "spec": {"n": number, "text": text},
    })
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
