//! The raw floor: the floor's job on bare connections, with one thread and without a Kubernetes client.
//!
//! It reads watch lines, and sends one merge patch per object without the mark, over HTTP/1.1 and TLS by hyper. The costs above it are
//! those of a client, threads and a framework. It reads kubeconfigs only in the form that the benchmark writes: JSON, with a file for the
//! certificate authority and a token. It resumes a watch that ends after its last line; other failures end the program.

mod connection;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use connection::{Connection, Server};

const HANDLED: &str = "bench.kopf.rs/handled";
const OBJECTS: &str = "/apis/bench.kopf.rs/v1/namespaces";
/// The maximum number of patches in flight, each on its own connection: the default of kopf-rs.
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

/// The state that patches share: the server, and the idle connections.
struct Patches {
    server: Server,
    idle: Mutex<Vec<Connection>>,
    slots: Semaphore,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let namespace = std::env::args().nth(1).ok_or("usage: bench-raw-floor NAMESPACE")?;
    let patches = Arc::new(Patches {
        server: Server::of_environment()?,
        idle: Mutex::default(),
        slots: Semaphore::new(CONCURRENCY),
    });
    let mut from = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned();
    let mut buffer = Vec::new();
    loop {
        let url = format!(
            "{OBJECTS}/{namespace}/benchobjs?watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&{from}"
        );
        let mut connection = patches.server.connect().await?;
        let mut lines = connection.send("GET", &url, Vec::new()).await?;
        buffer.clear();
        while let Some(frame) = lines.frame().await {
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            buffer.extend_from_slice(&data);
            let mut done = 0;
            while let Some(length) = buffer[done..].iter().position(|byte| *byte == b'\n') {
                let (version, unhandled) = read(&buffer[done..done + length])?;
                from = format!("resourceVersion={version}");
                done += length + 1;
                if let Some((name, spec)) = unhandled {
                    let url = format!("{OBJECTS}/{namespace}/benchobjs/{name}");
                    tokio::spawn(mark(Arc::clone(&patches), url, spec));
                }
            }
            buffer.drain(..done);
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

async fn mark(patches: Arc<Patches>, url: String, spec: String) {
    let _slot = patches.slots.acquire().await;
    if let Err(error) = patch(&patches, &url, &spec).await {
        eprintln!("{error}");
    }
}

async fn patch(patches: &Patches, url: &str, spec: &str) -> Result<(), Error> {
    let essence = format!("{{\"spec\":{spec}}}");
    let patch = serde_json::to_vec(&json!({"metadata": {"annotations": {HANDLED: essence}}}))?;
    let idle = || patches.idle.lock().unwrap_or_else(PoisonError::into_inner);
    let rested = idle().pop();
    let mut connection = match rested {
        Some(connection) => connection,
        None => patches.server.connect().await?,
    };
    let mut answer = connection.send("PATCH", url, patch).await?;
    // Read to the end, because otherwise the connection cannot be reused.
    while let Some(frame) = answer.frame().await {
        frame?;
    }
    idle().push(connection);
    Ok(())
}
