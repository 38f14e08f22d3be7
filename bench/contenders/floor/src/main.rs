//! The floor: nothing but watch lines in and one merge patch out per object without the mark.
//!
//! No cache, no retries, no reconnection, no logs: what any operator on this client must at least spend. Ends with an
//! error where an operator would carry on.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use futures::{AsyncBufReadExt as _, AsyncReadExt as _};
use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

const HANDLED: &str = "bench.kopf.rs/handled";
const OBJECTS: &str = "/apis/bench.kopf.rs/v1/namespaces";
/// Patches in flight at most: as many as kopf-rs allows itself by default.
const CONCURRENCY: usize = 32;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: Object<'a>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[expect(
        clippy::zero_sized_map_values,
        reason = "serde skips a value only where its type says so"
    )]
    #[serde(borrow, default)]
    annotations: HashMap<Cow<'a, str>, IgnoredAny>,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let namespace = std::env::args()
        .nth(1)
        .ok_or("usage: bench-floor NAMESPACE")?;
    let client = Client::try_default().await?;
    let url = format!(
        "{OBJECTS}/{namespace}/benchobjs?watch=true&sendInitialEvents=true\
         &resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=3600"
    );
    let request = http::Request::get(url).body(Vec::new())?;
    let mut lines = Box::pin(client.request_stream(request).await?);
    let slots = Arc::new(Semaphore::new(CONCURRENCY));
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).await? == 0 {
            return Err("the watch ended".into());
        }
        let Some((name, spec)) = unhandled(&line)? else {
            continue;
        };
        let (client, slots) = (client.clone(), Arc::clone(&slots));
        let url = format!("{OBJECTS}/{namespace}/benchobjs/{name}");
        tokio::spawn(async move {
            let _slot = slots.acquire_owned().await;
            if let Err(error) = mark(client, url, spec).await {
                eprintln!("{error}");
            }
        });
    }
}

/// The name and spec of an object that lacks the mark.
fn unhandled(line: &[u8]) -> Result<Option<(String, String)>, Error> {
    let Line { kind, object } = serde_json::from_slice(line)?;
    match (&*kind, object.spec) {
        ("ERROR", _) => Err(String::from_utf8_lossy(line).into()),
        ("ADDED" | "MODIFIED", Some(spec))
            if !object.metadata.annotations.contains_key(HANDLED) =>
        {
            Ok(Some((
                object.metadata.name.into_owned(),
                spec.get().to_owned(),
            )))
        }
        _ => Ok(None),
    }
}

async fn mark(client: Client, url: String, spec: String) -> Result<(), Error> {
    let essence = format!("{{\"spec\":{spec}}}");
    let patch = serde_json::to_vec(&json!({"metadata": {"annotations": {HANDLED: essence}}}))?;
    let request = http::Request::patch(url)
        .header("content-type", "application/merge-patch+json")
        .body(patch)?;
    let mut answer = Box::pin(client.request_stream(request).await?);
    // Read to its end, or the connection could not be used again.
    let mut buffer = [0; 8192];
    while answer.read(&mut buffer).await? > 0 {}
    Ok(())
}
