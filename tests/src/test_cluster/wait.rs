//! Waits for conditions on objects: a list, then a watch from its version, until the deadline.
//!
//! Checks every state that a watch shows; at the deadline, fails with the last state. This module must not poll,
//! except between the `Established` condition of a CRD and the moment when its kind is served, because servers do not
//! announce that moment.

use std::time::Duration;

use futures_util::{AsyncBufReadExt as _, StreamExt as _};
use serde_json::Value;

use super::TestCluster;
use crate::resource::{Resource, root_of};

impl TestCluster {
    /// Waits until an object satisfies the condition and returns it. The condition also sees its absence, which returns `null`.
    ///
    /// # Panics
    ///
    /// Panics at the deadline (30 s, or an hour of virtual time) with `what` and the object's last state.
    pub async fn until(
        &self,
        what: &str,
        resource: &str,
        name: &str,
        condition: impl Fn(Option<&Value>) -> bool,
    ) -> Value {
        let path = self.collection(resource).await;
        let mut last = None;
        let watch = async {
            loop {
                if self.follow(&path, name, &condition, &mut last).await {
                    return;
                }
            }
        };
        let patience = self.server.patience();
        if tokio::time::timeout(patience, watch).await.is_err() {
            let shown = last.as_ref().unwrap_or(&Value::Null);
            panic!(
                "{what}: not so within {patience:?}; the last state of {path}/{name} was {shown:#}\nlines:\n{}",
                self.lines.all().join("\n")
            );
        }
        last.unwrap_or(Value::Null)
    }

    /// Lists and watches once; returns true if the condition holds, false if the watch ended and a new list is due.
    async fn follow(
        &self,
        path: &str,
        name: &str,
        condition: &impl Fn(Option<&Value>) -> bool,
        last: &mut Option<Value>,
    ) -> bool {
        let only = format!("fieldSelector=metadata.name%3D{name}");
        let mut page = self.must("GET", &format!("{path}?{only}"), None).await;
        *last = first_item(&mut page);
        if condition(last.as_ref()) {
            return true;
        }
        let version = page["metadata"]["resourceVersion"].as_str().expect("a page has a resourceVersion");
        let uri = format!("{path}?{only}&watch=true&resourceVersion={version}");
        let request = http::Request::get(&uri).body(Vec::new()).expect("a watch is a valid request");
        let stream = match self.own.request_stream(request).await {
            // As for lists: the next list waits until the server has initialized the storage of the new definition.
            Err(kube::Error::Api(status)) if status.code == 429 => return false,
            stream => stream.unwrap_or_else(|error| panic!("GET {uri}: {error}")),
        };
        let mut events = std::pin::pin!(stream.lines());
        while let Some(Ok(line)) = events.next().await {
            let mut event: Value =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line}"));
            *last = match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => Some(event["object"].take()),
                Some("DELETED") => None,
                Some("BOOKMARK") => continue,
                _ => return false,
            };
            if condition(last.as_ref()) {
                return true;
            }
        }
        false
    }

    /// Waits until a CRD is established and its objects can be listed, and remembers its kind.
    pub(super) async fn until_served(&self, crd: &Value) -> Value {
        let name = crd["metadata"]["name"].as_str().expect("a CRD has a name");
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let established =
            |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        let is_established = |crd: Option<&Value>| {
            let conditions = crd.and_then(|crd| crd["status"]["conditions"].as_array());
            conditions.is_some_and(|all| all.iter().any(established))
        };
        let crd = self.until("the CRD is established", definitions, name, is_established).await;
        for resource in served_by(&crd) {
            self.until_listed(&resource).await;
            self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(resource);
        }
        crd
    }

    async fn until_listed(&self, resource: &Resource) {
        let path = format!("{}/{}?limit=1", resource.root, resource.plural);
        let served = async {
            let mut pulse = tokio::time::interval(Duration::from_millis(10));
            while let Err(error) = self.request("GET", &path, None).await {
                assert!(
                    matches!(&error, kube::Error::Api(status) if status.code == 404),
                    "GET {path}: {error}"
                );
                pulse.tick().await;
            }
        };
        let waited = tokio::time::timeout(self.server.patience(), served).await;
        assert!(waited.is_ok(), "GET {path}: still 404 after {:?}", self.server.patience());
    }
}

/// Takes the only item of a list and adds the `apiVersion` and `kind` that lists omit.
fn first_item(page: &mut Value) -> Option<Value> {
    let mut item = page["items"].get_mut(0)?.take();
    if item["kind"].is_null() {
        item["kind"] = page["kind"].as_str()?.trim_end_matches("List").into();
        item["apiVersion"] = page["apiVersion"].take();
    }
    Some(item)
}

/// Returns the resources of a CRD, one per served version.
fn served_by(crd: &Value) -> Vec<Resource> {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    versions
        .iter()
        .filter(|version| version["served"] == true)
        .map(|version| Resource {
            root: root_of(&format!("{}/{}", text(&spec["group"]), text(&version["name"]))),
            plural: text(&spec["names"]["plural"]),
            kind: text(&spec["names"]["kind"]),
            namespaced: spec["scope"] == "Namespaced",
        })
        .collect()
}
