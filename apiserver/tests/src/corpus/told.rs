//! The answers of one server to a script, in a form that is comparable with another server and with a recording.
//!
//! Values that the server generated become numbers, counted from the start of the script; values that the test process generated become
//! names. Must not know the comparison.

use std::collections::HashMap;
use std::path::Path;

use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::exchange::{Answer, Side};
use super::normal::MARKS;
use super::script::{Script, Step};
use crate::webhook::Webhook;

/// The number of scripts that run at a time.
const AT_A_TIME: usize = 6;

/// The answers to one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The request as the script has it.
    pub step: String,
    /// One answer, or the events of a watch.
    pub answers: Vec<Answer>,
}

/// Runs a script against a server and returns the answers.
pub(super) async fn told(script: &Script, kubeconfig: &Path) -> Vec<Told> {
    let mut side = Side::new(kubeconfig, script).await;
    let mut naming = Naming::new();
    let mut all = Vec::new();
    let mut is_refused = false;
    for (at, mut step) in script.steps().into_iter().enumerate() {
        if is_refused && at < script.prelude() {
            // The server never serves a kind whose definition it refused, so do not wait for it.
            step.until.clear();
        }
        let answers = side.play(&step).await;
        is_refused |= answers.iter().any(|answer| answer.code >= 400);
        let answers = answers.into_iter();
        all.push(Told {
            step: described(&step),
            answers: answers.map(|answer| naming.answer(answer)).collect(),
        });
    }
    all
}

/// Runs scripts against a server, several at a time, and returns the answers.
pub async fn told_of_all(scripts: &[Script], kubeconfig: &Path) -> Vec<Vec<Told>> {
    let runs = scripts.iter().map(|script| told(script, kubeconfig));
    let runs = futures_util::stream::iter(runs).buffered(AT_A_TIME);
    runs.collect().await
}

/// Does the same as [`told_of_all`] and deletes the custom kind of each script, because many kinds slow servers down.
pub async fn told_and_forgotten(scripts: &[Script], kubeconfig: &Path) -> Vec<Vec<Told>> {
    let runs = scripts.iter().map(async |script| {
        let all = told(script, kubeconfig).await;
        forget(script, kubeconfig).await;
        all
    });
    let runs = futures_util::stream::iter(runs).buffered(AT_A_TIME);
    runs.collect().await
}

/// Deletes the custom kind of a script.
pub(super) async fn forget(script: &Script, kubeconfig: &Path) {
    let gone = Step {
        request: "DELETE ${crds}/things.${group}".to_owned(),
        ..Step::default()
    };
    Side::new(kubeconfig, script).await.play(&gone).await;
}

fn described(step: &Step) -> String {
    if step.take.is_empty() && step.read_up.is_empty() {
        return step.request.clone();
    }
    let watches = step.take.keys().chain(step.read_up.keys());
    let watches: Vec<&str> = watches.map(String::as_str).collect();
    format!("event of {}", watches.join(", "))
}

/// Names for the generated values of one server in one script.
struct Naming {
    numbers: HashMap<String, usize>,
    /// Values that the test process generated, with their names.
    ours: [(String, &'static str); 2],
}

// === impl Naming ===

impl Naming {
    fn new() -> Self {
        let hook = Webhook::shared();
        let address = hook.url().trim_start_matches("https://").to_owned();
        Self {
            numbers: HashMap::new(),
            ours: [
                (address, "<hook>"),
                (hook.authority().to_owned(), "<authority of the hook>"),
            ],
        }
    }

    fn answer(&mut self, answer: Answer) -> Answer {
        let headers = answer.headers.into_iter().map(|(name, values)| {
            let values = values.iter().map(|value| self.text(value)).collect();
            (name, values)
        });
        Answer {
            code: answer.code,
            headers: headers.collect(),
            body: self.value(answer.body),
        }
    }

    fn value(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => self.text(&text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => {
                let named = map
                    .into_iter()
                    .map(|(key, value)| (key, self.value(value)))
                    .collect();
                Value::Object(named)
            }
            other => other,
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (made, name) in &self.ours {
            if text.contains(made) {
                text = text.replace(made, name);
            }
        }
        // Every second part is a value that the server generated.
        let [start, end] = MARKS;
        let parts = text.split(MARKS).enumerate();
        let named = parts.map(|(at, part)| {
            if at.is_multiple_of(2) {
                return part.to_owned();
            }
            let next = self.numbers.len() + 1;
            let number = self.numbers.entry(part.to_owned()).or_insert(next);
            let kind = part.split(' ').next().unwrap_or_default();
            format!("{start}{kind} {number}{end}")
        });
        named.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_made_up_is_numbered_within_the_script() {
        let mut naming = Naming::new();
        let url = Webhook::shared().url();
        let mut named = |body: Value| naming.value(body);
        let uid = |name: &str| format!("a \u{2}uid {name}\u{3} b");
        assert_eq!(
            named(json!([uid("x"), {"k": uid("y")}])),
            json!([uid("1"), {"k": uid("2")}])
        );
        assert_eq!(named(json!([uid("y"), 3])), json!([uid("2"), 3]));
        assert_eq!(
            named(json!(format!("call {url}/deny"))),
            json!("call https://<hook>/deny")
        );
    }
}
