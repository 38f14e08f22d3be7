//! An explanation, as text and as JSON.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

/// The explanation of an object's state, returned by [`Operator::why`](crate::Operator::why). Displays as text for
/// people.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    pub(crate) object: String,
    pub(crate) verdict: Verdict,
    pub(crate) handlers: Vec<HandlerLine>,
    pub(crate) changed: Option<ChangedCalls>,
    pub(crate) evidence: Vec<EvidenceLine>,
    /// True if the object could not be examined.
    pub(crate) is_failure: bool,
    /// The uid of the object; empty if it could not be examined.
    pub(crate) uid: String,
}

/// The state of the object, in a machine-readable word and for people, and the event that will change it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) word: &'static str,
    pub(crate) summary: String,
    pub(crate) wakes: Option<String>,
}

impl Verdict {
    pub(crate) fn new(word: &'static str, summary: impl Into<String>) -> Self {
        Self { word, summary: summary.into(), wakes: None }
    }

    pub(crate) fn until(self, wakes: impl Into<String>) -> Self {
        Self { wakes: Some(wakes.into()), ..self }
    }
}

/// A handler of the object's kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HandlerLine {
    #[serde(rename = "handler")]
    pub(crate) id: String,
    /// The machine-readable state.
    pub(crate) state: &'static str,
    pub(crate) because: String,
    pub(crate) attempts: Option<u32>,
    pub(crate) error: Option<String>,
    /// The time of the next attempt.
    pub(crate) due: Option<String>,
}

/// The calls that a change would cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangedCalls {
    pub(crate) called: Vec<String>,
    pub(crate) not_called: Vec<NotCalled>,
}

/// A handler that a change would not call, with the reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct NotCalled {
    pub(crate) handler: String,
    pub(crate) because: String,
}

/// A known fact, with its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct EvidenceLine {
    pub(crate) source: &'static str,
    pub(crate) text: String,
}

impl Explanation {
    /// Returns whether the object could not be examined: it does not exist, its kind is unknown, or reading it is
    /// forbidden.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.is_failure
    }

    /// Returns the verdict in one word, such as `waiting` or `excluded`. The documentation of `kopf-rs why` lists all
    /// of them.
    #[must_use]
    pub fn verdict(&self) -> &str {
        self.verdict.word
    }

    /// Returns the explanation as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "object": self.object,
            "verdict": self.verdict.word,
            "summary": self.verdict.summary,
            "wakes": self.verdict.wakes,
            "handlers": self.handlers,
            "ifChanged": self.changed,
            "evidence": self.evidence,
        })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.object, self.verdict.summary)?;
        if let Some(wakes) = &self.verdict.wakes {
            writeln!(f, "  What wakes it: {wakes}.")?;
        }
        for HandlerLine { id, state, because, .. } in &self.handlers {
            writeln!(f, "  {id}: {state}; {because}.")?;
        }
        if let Some(changed) = &self.changed {
            writeln!(f, "  With the change:")?;
            for id in &changed.called {
                writeln!(f, "    {id} would be called.")?;
            }
            for NotCalled { handler, because } in &changed.not_called {
                writeln!(f, "    {handler} would not be called: {because}.")?;
            }
        }
        for EvidenceLine { source, text } in &self.evidence {
            writeln!(f, "  [{source}] {text}")?;
        }
        Ok(())
    }
}
