//! An explanation, as text and as JSON.

use std::fmt;

use serde_json::{Value, json};

/// The explanation of an object's state, returned by [`Operator::why`](crate::Operator::why). Displays as text for
/// people.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    pub(crate) object: String,
    /// The machine-readable verdict.
    pub(crate) verdict: &'static str,
    pub(crate) summary: String,
    pub(crate) wakes: Option<String>,
    pub(crate) handlers: Vec<HandlerLine>,
    pub(crate) changed: Option<ChangedCalls>,
    pub(crate) evidence: Vec<EvidenceLine>,
    /// True if the object could not be examined.
    pub(crate) is_failure: bool,
}

/// A handler of the object's kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HandlerLine {
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
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ChangedCalls {
    pub(crate) called: Vec<String>,
    /// With the reason for each.
    pub(crate) not_called: Vec<(String, String)>,
}

/// A known fact, with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        self.verdict
    }

    /// Returns the explanation as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let handlers = self.handlers.iter().map(|it| {
            json!({
                "handler": it.id,
                "state": it.state,
                "because": it.because,
                "attempts": it.attempts,
                "error": it.error,
                "due": it.due,
            })
        });
        let evidence = self.evidence.iter();
        let evidence = evidence.map(|it| json!({"source": it.source, "text": it.text}));
        json!({
            "object": self.object,
            "verdict": self.verdict,
            "summary": self.summary,
            "wakes": self.wakes,
            "handlers": handlers.collect::<Vec<_>>(),
            "ifChanged": self.changed.as_ref().map(ChangedCalls::to_json),
            "evidence": evidence.collect::<Vec<_>>(),
        })
    }
}

impl ChangedCalls {
    fn to_json(&self) -> Value {
        let not_called = self.not_called.iter();
        let not_called = not_called.map(|(id, why)| json!({"handler": id, "because": why}));
        json!({"called": self.called, "notCalled": not_called.collect::<Vec<_>>()})
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.object, self.summary)?;
        if let Some(wakes) = &self.wakes {
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
            for (id, why) in &changed.not_called {
                writeln!(f, "    {id} would not be called: {why}.")?;
            }
        }
        for EvidenceLine { source, text } in &self.evidence {
            writeln!(f, "  [{source}] {text}")?;
        }
        Ok(())
    }
}
