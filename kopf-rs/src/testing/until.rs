//! Awaits conditions on objects by a list and a subsequent watch.
//!
//! A wait evaluates every state that the watch shows, and fails at the deadline with the last one. This module must
//! not poll.

use std::panic::Location;

use http_body_util::BodyExt;
use kopf_rs_apiserver::{ApiBody, ApiServer};
use serde_json::Value;

use crate::testing::asking::{must, watch};
use crate::testing::lines::Lines;

/// An object whose state is awaited.
pub(super) struct Awaited<'a> {
    pub(super) collection: &'a str,
    pub(super) name: &'a str,
    /// The location in the test, for the failure message.
    pub(super) asked_at: &'static Location<'static>,
    pub(super) lines: &'a Lines,
}

/// Returns the object once it satisfies the condition, which is evaluated for `null` while the object does not exist.
///
/// # Panics
/// Panics at the deadline.
pub(super) async fn until(
    server: &ApiServer,
    awaited: &Awaited<'_>,
    condition: impl Fn(&Value) -> bool,
) -> Value {
    let mut last = Value::Null;
    let follow = async {
        // The server may end a watch at any time; then list again.
        while !awaited.follow(server, &condition, &mut last).await {}
    };
    if awaited.lines.wait(follow).await.is_none() {
        awaited.fail(&last);
    }
    last
}

impl Awaited<'_> {
    /// Lists and watches once. Returns true if the condition holds, or false at the end of the watch.
    async fn follow(
        &self,
        server: &ApiServer,
        condition: &impl Fn(&Value) -> bool,
        last: &mut Value,
    ) -> bool {
        let Self { collection, name, .. } = self;
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
        let Self { collection, name, asked_at, lines } = self;
        let shown = match last {
            Value::Null => "there is no such object".to_owned(),
            object => format!("{object:#}"),
        };
        panic!(
            "{asked_at}: {collection}/{name} does not meet the condition {}; its last state:\n{shown}\n{}",
            lines.in_vain(),
            lines.shown()
        );
    }
}

/// Returns the next event of a watch; `None` at its end.
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

/// Returns the only item of a list, with the `apiVersion` and `kind` that lists omit; `null` if the list is empty.
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
