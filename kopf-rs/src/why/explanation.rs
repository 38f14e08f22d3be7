//! An explanation, for people and as JSON.

use std::fmt;

use serde_json::{Value, json};

/// Why an object is as it is: what [`Operator::why`](crate::Operator::why) answers. Displays as text for people.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    pub(crate) object: String,
    /// A word for programs.
    pub(crate) verdict: &'static str,
    pub(crate) summary: String,
    pub(crate) wakes: Option<String>,
    pub(crate) handlers: Vec<HandlerLine>,
    pub(crate) changed: Option<ChangedCalls>,
    pub(crate) evidence: Vec<EvidenceLine>,
    /// Nothing can be said of the object.
    pub(crate) is_failure: bool,
}

/// A handler of the object's kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HandlerLine {
    pub(crate) id: String,
    /// A word for programs.
    pub(crate) state: &'static str,
    pub(crate) because: String,
    pub(crate) attempts: Option<u32>,
    pub(crate) error: Option<String>,
    /// When its next attempt is due.
    pub(crate) due: Option<String>,
}

/// What a change would call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ChangedCalls {
    pub(crate) called: Vec<String>,
    /// With the reason.
    pub(crate) not_called: Vec<(String, String)>,
}

/// Something that is known, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EvidenceLine {
    pub(crate) source: &'static str,
    pub(crate) text: String,
}

impl Explanation {
    /// Whether nothing can be said of the object: it is not there, its kind is unknown, or it must not be read.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.is_failure
    }

    /// One word for what is the case, such as `waiting` or `excluded`; the documentation of `kopf-rs why` lists them.
    #[must_use]
    pub fn verdict(&self) -> &str {
        self.verdict
    }

    /// For programs.
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
        for HandlerLine {
            id, state, because, ..
        } in &self.handlers
        {
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
