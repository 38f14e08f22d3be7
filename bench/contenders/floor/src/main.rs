//! The floor: reads watch lines, and sends one merge patch per object without the mark.
//!
//! It has no cache, no retries of writes and no logs, so it shows the minimum cost of any operator on this client. It resumes a watch that
//! ends after its last line; other failures end the program, where an operator would continue.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncBufReadExt as _, AsyncReadExt as _};
use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

const HANDLED: &str = "bench.kopf.rs/handled";
const OBJECTS: &str = "/apis/bench.kopf.rs/v1/namespaces";
/// The maximum number of patches in flight: the default of kopf-rs.
const CONCURRENCY: usize = 16;

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
    #[serde(rename = "resourceVersion", borrow, default)]
    version: Cow<'a, str>,
    #[expect(clippy::zero_sized_map_values, reason = "serde skips a value only where its type says so")]
    #[serde(borrow, default)]
    annotations: HashMap<Cow<'a, str>, IgnoredAny>,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let namespace = std::env::args().nth(1).ok_or("usage: bench-floor NAMESPACE")?;
    let client = Client::try_default().await?;
    let mut from = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned();
    let slots = Arc::new(Semaphore::new(CONCURRENCY));
    let mut line = Vec::new();
    loop {
        let url = format!(
            "{OBJECTS}/{namespace}/benchobjs?watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&{from}"
        );
        let request = http::Request::get(url).body(Vec::new())?;
        let mut lines = Box::pin(client.request_stream(request).await?);
        while {
            line.clear();
            lines.read_until(b'\n', &mut line).await? > 0
        } {
            let (version, unhandled) = read(&line)?;
            from = format!("resourceVersion={version}");
            let Some((name, spec)) = unhandled else {
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
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

type Unhandled = (String, String);

/// Returns the resource version of a line, and the name and spec of an object that lacks the mark.
fn read(line: &[u8]) -> Result<(String, Option<Unhandled>), Error> {
    let Line { kind, object } = serde_json::from_slice(line)?;
    let Metadata { name, version, annotations } = object.metadata;
    let unhandled = match (&*kind, object.spec) {
        ("ERROR", _) => return Err(String::from_utf8_lossy(line).into()),
        ("ADDED" | "MODIFIED", Some(spec)) if !annotations.contains_key(HANDLED) => {
            Some((name.into_owned(), spec.get().to_owned()))
        }
        _ => None,
    };
    Ok((version.into_owned(), unhandled))
}

async fn mark(client: Client, url: String, spec: String) -> Result<(), Error> {
    let essence = format!("{{\"spec\":{spec}}}");
    let patch = serde_json::to_vec(&json!({"metadata": {"annotations": {HANDLED: essence}}}))?;
    let request =
        http::Request::patch(url).header("content-type", "application/merge-patch+json").body(patch)?;
    let mut answer = Box::pin(client.request_stream(request).await?);
    // Read to the end, because otherwise the connection cannot be reused.
    let mut buffer = [0; 8192];
    while answer.read(&mut buffer).await? > 0 {}
    Ok(())
}
