//! Awaiting conditions on objects: a list, then a watch from there, for as long as it takes and no longer.
//!
//! Promises to see every state that a watch shows, and to fail with the last one at the deadline. Must not poll.

use std::panic::Location;

use http_body_util::BodyExt;
use kopf_rs_apiserver::{ApiBody, ApiServer};
use serde_json::Value;

use crate::testing::asking::{must, watch};
use crate::testing::deadline::within;
use crate::testing::lines::Lines;

/// An object of which something is awaited.
pub(super) struct Awaited<'a> {
    pub(super) collection: &'a str,
    pub(super) name: &'a str,
    /// Where in the test, for a failure.
    pub(super) asked_at: &'static Location<'static>,
    pub(super) lines: &'a Lines,
}

/// The object once it satisfies the condition, which sees `null` as long as there is none.
///
/// # Panics
/// At the deadline.
pub(super) async fn until(
    server: &ApiServer,
    awaited: &Awaited<'_>,
    condition: impl Fn(&Value) -> bool,
) -> Value {
    let mut last = Value::Null;
    let follow = async {
        // A watch ends when the server wishes; then it is listed anew.
        while !awaited.follow(server, &condition, &mut last).await {}
    };
    let patience = awaited.lines.patience();
    if within(patience, follow).await.is_none() {
        awaited.fail(&last);
    }
    last
}

impl Awaited<'_> {
    /// List and watch once; whether the condition holds. Else the watch has ended.
    async fn follow(
        &self,
        server: &ApiServer,
        condition: &impl Fn(&Value) -> bool,
        last: &mut Value,
    ) -> bool {
        let Self {
            collection, name, ..
        } = self;
        let only = format!("fieldSelector=metadata.name%3D{name}");
        let mut page = must(server, "GET", &format!("{collection}?{only}"), None).await;
        *last = first_item(&mut page);
        if condition(last) {
            return true;
        }
        let version = page["metadata"]["resourceVersion"].as_str();
        let version = version.unwrap_or_default();
        let target = format!("{collection}?{only}&watch=true&resourceVersion={version}");
        let Some(mut stream) = watch(server, &target).await else {
            return false;
        };
        let mut unread = Vec::new();
        while let Some(mut event) = next_event(&mut stream, &mut unread).await {
            *last = match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => event["object"].take(),
                Some("DELETED") => Value::Null,
                Some("BOOKMARK") => continue,
                _ => return false,
            };
            if condition(last) {
                return true;
            }
        }
        false
    }

    fn fail(&self, last: &Value) -> ! {
        let Self {
            collection,
            name,
            asked_at,
            lines,
        } = self;
        let shown = match last {
            Value::Null => "there is no such object".to_owned(),
            object => format!("{object:#}"),
        };
        panic!(
            "{asked_at}: {collection}/{name} is not as awaited after {:?}; its last state:\n{shown}\n{}",
            lines.patience(),
            lines.shown()
        );
    }
}

/// The next event of a watch; `None` at its end.
async fn next_event(stream: &mut ApiBody, unread: &mut Vec<u8>) -> Option<Value> {
    loop {
        if let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            return serde_json::from_slice(&line).ok();
        }
        let frame = stream.frame().await?.ok()?;
        unread.extend_from_slice(frame.data_ref()?);
    }
}

/// The item of a list of at most one, with the `apiVersion` and `kind` that lists leave out.
fn first_item(page: &mut Value) -> Value {
    let Some(item) = page["items"].get_mut(0) else {
        return Value::Null;
    };
    let mut item = item.take();
    if item["kind"].is_null() {
        let kind = page["kind"].as_str().unwrap_or_default();
        item["kind"] = kind.trim_end_matches("List").into();
        item["apiVersion"] = page["apiVersion"].take();
    }
    item
}
