//! One server as a script sees it: requests, answers, open watches, variables.
//!
//! Repeats a request only if the script asks for it, or while the server initializes the storage of a new definition. Must not know the
//! expected answers.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use futures_util::AsyncBufReadExt as _;
use http::{Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::normal::{marked, marked_text};
use super::script::{Script, Step};
use super::variables::Variables;
use crate::real::{bare_client_of, client_of};
use crate::webhook::Webhook;

/// Limit for an answer of a server, or for the state that a script waits for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval between two requests that wait for a state.
const PULSE: Duration = Duration::from_millis(25);
/// The response headers that are compared.
const HEADERS: [&str; 4] = ["content-type", "warning", "retry-after", "allow"];

type Lines = Box<dyn futures_util::AsyncBufRead + Send + Unpin>;

/// The answer of a server, or one event of a watch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The status code; 0 for watch events.
    pub code: u16,
    /// The headers that are compared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Vec<String>>,
    /// The body, as JSON if it parses, otherwise as text.
    pub body: Value,
}

/// One of the two servers, for one script.
pub(super) struct Side {
    client: kube::Client,
    /// A client without credentials, for steps that bring their own or need none.
    bare: kube::Client,
    variables: Variables,
    watches: HashMap<String, Lines>,
}

// === impl Side ===

impl Side {
    pub(super) async fn new(kubeconfig: &Path, script: &Script) -> Self {
        let client = client_of(kubeconfig)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let bare = bare_client_of(kubeconfig)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let (group, ns) = (script.group(), format!("corpus-{}", script.name));
        let mut variables = Variables::default();
        variables.set("things", format!("/apis/{group}/v1/namespaces/{ns}/things"));
        variables.set(
            "crds",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        );
        variables.set("core", format!("/api/v1/namespaces/{ns}"));
        variables.set("hook", Webhook::shared().url());
        variables.set("hookca", Webhook::shared().authority());
        variables.set("group", group);
        variables.set("ns", ns);
        Self {
            client,
            bare,
            variables,
            watches: HashMap::new(),
        }
    }

    /// Runs a step and returns the answers to compare: one for a request, one per event for a read of a watch.
    pub(super) async fn play(&mut self, step: &Step) -> Vec<Answer> {
        if !step.take.is_empty() {
            return self.take(&step.take).await;
        }
        if !step.read_up.is_empty() {
            return self.read_up(&step.read_up).await;
        }
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut pulse = tokio::time::interval(PULSE);
        let answer = loop {
            pulse.tick().await;
            let answer = self.ask(step).await;
            let is_settled = reached(&answer, &step.until) && !is_of_a_moment(&answer);
            if is_settled || tokio::time::Instant::now() > deadline {
                break answer;
            }
        };
        for (name, pointer) in &step.capture {
            let found = answer.body.pointer(pointer);
            let text = found.map_or_else(String::new, |value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            self.variables.set(name, text);
        }
        vec![named(answer, generated(step).as_deref())]
    }

    async fn ask(&mut self, step: &Step) -> Answer {
        let request = self.request(step);
        let own = step.headers.contains_key("Authorization");
        let client = if own { &self.bare } else { &self.client };
        let sent = tokio::time::timeout(PATIENCE, client.send(request)).await;
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return failed(error.to_string()),
            Err(_) => return failed("no answer in time"),
        };
        let (parts, body) = response.into_parts();
        let values = |name: &str| -> Vec<String> {
            let all = parts.headers.get_all(name).iter();
            all.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                .collect()
        };
        let mut answer = Answer {
            code: parts.status.as_u16(),
            headers: HEADERS
                .into_iter()
                .map(|name| (name.to_owned(), values(name)))
                .filter(|(_, values)| !values.is_empty())
                .collect(),
            body: Value::Null,
        };
        if let Some(name) = step.watch.as_ref().filter(|_| answer.code == 200) {
            let stream =
                futures_util::TryStreamExt::map_err(body.into_data_stream(), std::io::Error::other);
            let lines = futures_util::TryStreamExt::into_async_read(Box::pin(stream));
            self.watches.insert(name.clone(), Box::new(lines));
            return answer;
        }
        let read = tokio::time::timeout(PATIENCE, body.collect_bytes()).await;
        answer.body = match read {
            Ok(Ok(bytes)) => decoded(&bytes),
            Ok(Err(error)) => error.to_string().into(),
            Err(_) => "the answer did not end in time".into(),
        };
        answer
    }

    fn request(&self, step: &Step) -> Request<Body> {
        let line = self.variables.fill(&step.request);
        let (method, path) = line.split_once(' ').expect("a step is METHOD /path");
        let mut request = Request::builder().method(method).uri(path);
        let body = step.whole_body();
        let is_list = body.as_ref().is_some_and(Value::is_array);
        let bytes = match (&body, &step.text) {
            (Some(body), _) => self.variables.fill_value(body).to_string().into_bytes(),
            (None, Some(text)) => self.variables.fill(text).into_bytes(),
            (None, None) => Vec::new(),
        };
        let given = step
            .headers
            .keys()
            .any(|name| name.eq_ignore_ascii_case("content-type"));
        if !given && (body.is_some() || step.text.is_some()) {
            let media = match method {
                "PATCH" if is_list => "application/json-patch+json",
                "PATCH" => "application/merge-patch+json",
                _ => "application/json",
            };
            request = request.header(header::CONTENT_TYPE, media);
        }
        for (name, value) in step.headers.iter().filter(|(_, value)| !value.is_empty()) {
            request = request.header(name, self.variables.fill(value));
        }
        request
            .body(Body::from(bytes))
            .unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    async fn take(&mut self, wanted: &BTreeMap<String, usize>) -> Vec<Answer> {
        let mut answers = Vec::new();
        for (name, count) in wanted {
            for _ in 0..*count {
                let body = self.event(name).await;
                answers.push(named(failed(body), None));
            }
        }
        answers
    }

    async fn read_up(&mut self, wanted: &BTreeMap<String, String>) -> Vec<Answer> {
        let mut answers = Vec::new();
        for (name, last) in wanted {
            loop {
                let body = self.event(name).await;
                let seen = body
                    .pointer("/object/metadata/name")
                    .and_then(Value::as_str);
                let ended = body.is_string() || seen == Some(last);
                answers.push(named(failed(body), None));
                if ended {
                    break;
                }
            }
        }
        answers
    }

    /// Returns the next event of a watch, or an object that says why there is none. Skips bookmarks, which servers send at any time, except
    /// the one that marks the end of the initial events.
    async fn event(&mut self, name: &str) -> Value {
        loop {
            let lines = self.watches.get_mut(name);
            let mut line = String::new();
            let read = match lines {
                Some(lines) => tokio::time::timeout(PATIENCE, lines.read_line(&mut line)).await,
                None => Ok(Ok(0)),
            };
            let event = match read {
                Ok(Ok(0)) => "the watch has ended".into(),
                Ok(Ok(_)) => decoded(line.as_bytes()),
                Ok(Err(error)) => error.to_string().into(),
                Err(_) => "no event in time".into(),
            };
            if !is_in_passing(&event) {
                return event;
            }
        }
    }
}

/// Returns whether an event is a bookmark that does not mark the end of the initial events.
fn is_in_passing(event: &Value) -> bool {
    let marks_end = |object: &str| {
        let end = format!("{object}/metadata/annotations/k8s.io~1initial-events-end");
        event.pointer(&end).is_some()
    };
    event["type"] == "BOOKMARK" && !marks_end("/object") && !marks_end("/object/rows/0/object")
}

fn failed(body: impl Into<Value>) -> Answer {
    Answer {
        code: 0,
        headers: BTreeMap::new(),
        body: body.into(),
    }
}

/// Returns whether a real server refuses the request while it initializes the storage of a new definition.
fn is_of_a_moment(answer: &Answer) -> bool {
    answer.code == 429 && answer.body["message"] == "storage is (re)initializing"
}

/// Returns the `generateName` prefix of a step.
fn generated(step: &Step) -> Option<String> {
    let body = step.whole_body()?;
    let start = body.pointer("/metadata/generateName")?.as_str()?;
    Some(start.to_owned())
}

fn named(answer: Answer, generated: Option<&str>) -> Answer {
    let body = marked(&answer.body, generated);
    let headers = answer.headers.into_iter().map(|(name, values)| {
        let marked = |value: &String| marked_text(value, generated);
        (name, values.iter().map(marked).collect())
    });
    Answer {
        code: answer.code,
        headers: headers.collect(),
        body,
    }
}

fn decoded(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned().into())
}

fn reached(answer: &Answer, wanted: &BTreeMap<String, Value>) -> bool {
    wanted.iter().all(|(pointer, value)| {
        if pointer == "/code" {
            return *value == answer.code;
        }
        answer.body.pointer(pointer).unwrap_or(&Value::Null) == value
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_bookmark_that_ends_the_start_counts() {
        let version = json!({"resourceVersion": "7"});
        let end =
            json!({"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}});
        let event =
            |sort: &str, metadata: &Value| json!({"type": sort, "object": {"metadata": metadata}});
        assert!(is_in_passing(&event("BOOKMARK", &version)));
        assert!(!is_in_passing(&event("BOOKMARK", &end)));
        assert!(!is_in_passing(&event("ADDED", &version)));
        assert!(!is_in_passing(&"the watch has ended".into()));
    }
}
