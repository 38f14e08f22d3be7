//! Indexing an object: decides which index functions to call, and how their results change the object's entries in each index.
//!
//! | The attempt | The object's entries in the index | Later |
//! |---|---|---|
//! | succeeds | the returned entries | each new state is a first attempt |
//! | the filters do not match the object | none | |
//! | an arbitrary error, ignored (the default) | unchanged | each new state is a first attempt |
//! | a temporary error, or an arbitrary one with `errors = temporary` | none | the next attempt uses the first state after the delay |
//! | a permanent error, too many attempts, or a timeout | none | never attempted for this object again |
//!
//! Only new states trigger indexing; there are no wake-ups. Pure. Must not know how functions are called, or where indices are stored.

use std::sync::Arc;

use crate::handler::cause::{Attempt, CauseContext};
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::index::erased::{EntriesSink, NewEntries};
use crate::handler::outcome::Outcome;
use crate::handler::subject::{IndexSubject, Subject, SubjectObject};
use crate::happening::handling::Handling;
use crate::reaction::judge::{Judge, attempt, limit_reached};
use crate::state::progress::Record;

/// The effect on the object's entries in an index.
pub(crate) enum Effect {
    /// Keep the entries.
    Keep,
    /// Remove the entries.
    Clear,
    /// Replace the entries.
    Replace(NewEntries),
}

/// The attempts for one object and one index; `None` as long as they succeed.
#[derive(Debug, Default)]
pub(crate) struct IndexAttempts(Option<Box<Record>>);

/// One state of an object at one time.
pub(crate) struct IndexLook<'a> {
    pub(crate) object: &'a SubjectObject,
    pub(crate) context: &'a CauseContext,
    pub(crate) judge: Judge,
}

/// A call of an index function.
pub(crate) struct IndexCall {
    pub(crate) call: HandlerCall,
    entries: EntriesSink,
}

impl IndexLook<'_> {
    /// Returns the call for an index with these functions: of the first function that matches the object. Without a call, the object's
    /// entries are removed.
    pub(crate) fn call(
        &self,
        functions: &[Arc<Handler>],
        attempts: &mut IndexAttempts,
        told: &mut Vec<Handling>,
    ) -> Option<IndexCall> {
        let now = self.judge.now;
        let begun = Record::begun(now);
        let mut calls = functions.iter().map(|it| self.made(it, attempt(&begun, now)));
        let mut chosen =
            calls.find(|it| it.call.handler.accepts(&self.object.body, |when| when(&it.call)))?;
        let Some(record) = &mut attempts.0 else {
            return Some(chosen);
        };
        if !record.is_due(now) {
            return None;
        }
        let handler = &chosen.call.handler;
        if let Some(end) = limit_reached(handler, record, now) {
            self.judge.enter(handler, record, end, told);
            return None;
        }
        chosen.call.cause.attempt = attempt(record, now);
        Some(chosen)
    }

    fn made(&self, handler: &Arc<Handler>, attempt: Attempt) -> IndexCall {
        let entries = EntriesSink::default();
        let subject = Subject::Index(IndexSubject { object: self.object.clone(), entries: entries.clone() });
        let call = HandlerCall::new(handler.clone(), self.context.clone(), attempt, subject);
        IndexCall { call, entries }
    }

    /// Handles the end of a call.
    pub(crate) fn ended(
        &self,
        IndexCall { call, entries }: IndexCall,
        outcome: Outcome,
        attempts: &mut IndexAttempts,
        told: &mut Vec<Handling>,
    ) -> Effect {
        let has_succeeded = matches!(outcome, Outcome::Succeeded(_));
        let now = self.judge.now;
        let mut record = attempts.0.take().unwrap_or_else(|| Box::new(Record::begun(now)));
        let begin = told.len();
        let result = self.judge.attempted(&call.handler, &mut record, outcome, told);
        drop(result);
        if has_succeeded {
            told.truncate(begin);
        }
        if record.success {
            let new = entries.take().filter(|_| has_succeeded);
            return new.map_or(Effect::Keep, Effect::Replace);
        }
        attempts.0 = Some(record);
        Effect::Clear
    }

    /// Handles a panic of a filter as an error of the first function.
    pub(crate) fn panicked(
        &self,
        functions: &[Arc<Handler>],
        message: String,
        attempts: &mut IndexAttempts,
        told: &mut Vec<Handling>,
    ) -> Effect {
        let Some(handler) = functions.first() else {
            return Effect::Clear;
        };
        let begun = Record::begun(self.judge.now);
        let call = self.made(handler, attempt(&begun, self.judge.now));
        self.ended(call, Outcome::Arbitrary { message }, attempts, told)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::handler::definition::ErrorsMode;
    use crate::handler::error::{HandlerError, PermanentError, TemporaryError};
    use crate::handler::filter::PRESENT;
    use crate::handler::index::erased::IndexUpdate;
    use crate::handler::index::returned::IndexEntries;
    use crate::handler::indexer::indexer;
    use crate::handler::options::Callback;
    use crate::handler::registry::Registry;
    use crate::handler::testing::call as make;
    use crate::object::body::Body;
    use crate::object::resource::Resource;

    /// An object with its attempts and a clock.
    struct Tried {
        functions: Vec<Arc<Handler>>,
        attempts: IndexAttempts,
        now: Timestamp,
        lines: usize,
    }

    /// An index function whose result `spec.does` controls.
    fn function() -> Callback {
        indexer("by_size", |cause| {
            let spec = cause.body().spec();
            match spec["does"].as_str() {
                Some("temporary") => Err(TemporaryError::new("later").delay(2).into()),
                Some("permanent") => Err(PermanentError::new("never").into()),
                Some("arbitrary") => Err(HandlerError::from("oops")),
                Some("nothing") => Ok(IndexEntries::These(Vec::new())),
                Some("unchanged") => Ok(IndexEntries::Unchanged),
                _ => Ok(IndexEntries::These(vec![(cause.retry(), ())])),
            }
        })
    }

    impl Tried {
        fn new(function: Callback) -> Self {
            let registry = Registry::new().index("kopfexamples", function);
            Self {
                functions: registry.handlers().to_vec(),
                attempts: IndexAttempts::default(),
                now: Timestamp::UNIX_EPOCH,
                lines: 0,
            }
        }

        /// Returns the effect on the object's entries for this state.
        fn found(&mut self, object: Value) -> String {
            let object =
                SubjectObject { resource: Arc::new(Resource::default()), body: Arc::new(Body::new(object)) };
            let look = IndexLook {
                object: &object,
                context: &CauseContext::default(),
                judge: Judge {
                    now: self.now,
                    backoff: (Duration::from_secs(1), Duration::from_secs(60)),
                    random: 0.0,
                },
            };
            let mut told = Vec::new();
            let called = look.call(&self.functions, &mut self.attempts, &mut told);
            let effect = match called {
                None => "not called, ".to_owned() + &said(&Effect::Clear),
                Some(called) => {
                    let (returned, _) = make(&called.call);
                    let outcome = match returned {
                        Ok(_) => Outcome::Succeeded(None),
                        Err(HandlerError::Temporary(error)) => Outcome::Temporary {
                            message: error.to_string(),
                            delay: error.delay_wanted(),
                            child: error.child(),
                        },
                        Err(HandlerError::Permanent(error)) => {
                            Outcome::Permanent { message: error.to_string(), child: error.child() }
                        }
                        Err(error) => Outcome::Arbitrary { message: error.to_string() },
                    };
                    said(&look.ended(called, outcome, &mut self.attempts, &mut told))
                }
            };
            self.lines += told.len();
            effect
        }

        fn does(&mut self, what: &str) -> String {
            self.found(json!({"spec": {"does": what}}))
        }

        fn wait(&mut self, seconds: i64) -> &mut Self {
            self.now += jiff::SignedDuration::from_secs(seconds);
            self
        }
    }

    fn said(effect: &Effect) -> String {
        match effect {
            Effect::Keep => "kept".to_owned(),
            Effect::Clear => "cleared".to_owned(),
            Effect::Replace(new) => match new.downcast_ref::<IndexUpdate<u32, ()>>() {
                Some(IndexUpdate::Replaced(entries)) => format!("replaced by {}", entries.len()),
                _ => "kept as the function says".to_owned(),
            },
        }
    }

    #[test]
    fn what_a_function_returns_takes_the_place_of_what_was_there() {
        let mut tried = Tried::new(function());
        assert_eq!(tried.does("one"), "replaced by 1");
        assert_eq!(tried.does("nothing"), "replaced by 0");
        assert_eq!(tried.does("unchanged"), "kept as the function says");
        assert_eq!(tried.lines, 0, "nothing is told of what goes well");
    }

    #[test]
    fn arbitrary_errors_change_nothing() {
        let mut tried = Tried::new(function());
        assert_eq!(tried.does("arbitrary"), "kept");
        assert_eq!(tried.does("arbitrary"), "kept");
        assert_eq!(tried.lines, 2, "each is told");
        assert_eq!(tried.does("one"), "replaced by 1");
    }

    #[test]
    fn temporary_errors_take_out_until_the_delay_is_over() {
        let mut tried = Tried::new(function());
        assert_eq!(tried.does("temporary"), "cleared");
        assert_eq!(tried.wait(1).does("one"), "not called, cleared");
        assert_eq!(tried.wait(1).does("one"), "replaced by 1");
        assert_eq!(tried.does("one"), "replaced by 1");
    }

    #[test]
    fn permanent_errors_take_out_for_ever() {
        let mut tried = Tried::new(function());
        assert_eq!(tried.does("permanent"), "cleared");
        assert_eq!(tried.wait(1_000_000).does("one"), "not called, cleared");
        let mut tried = Tried::new(function().errors(ErrorsMode::Permanent));
        assert_eq!(tried.does("arbitrary"), "cleared");
        assert_eq!(tried.wait(1_000_000).does("one"), "not called, cleared");
    }

    #[test]
    fn attempts_are_limited() {
        let limited = function().retries(2).errors(ErrorsMode::Temporary);
        let mut tried = Tried::new(limited.backoff(5));
        assert_eq!(tried.does("arbitrary"), "cleared");
        assert_eq!(tried.wait(5).does("arbitrary"), "cleared");
        assert_eq!(tried.wait(5).does("one"), "not called, cleared");
        let mut tried = Tried::new(function().timeout(10));
        assert_eq!(tried.does("temporary"), "cleared");
        assert_eq!(tried.wait(11).does("one"), "not called, cleared");
        assert_eq!(tried.wait(11).does("one"), "not called, cleared");
    }

    #[test]
    fn filters_take_out_what_they_do_not_let_pass() {
        let mut tried = Tried::new(function().label("on", PRESENT).field("spec.does"));
        let labelled = json!({"metadata": {"labels": {"on": ""}}, "spec": {"does": "one"}});
        assert_eq!(tried.found(labelled), "replaced by 1");
        assert_eq!(tried.does("one"), "not called, cleared");
        let mut tried = Tried::new(function().when(|cause| cause.name() == "a"));
        assert_eq!(tried.does("one"), "not called, cleared");
    }
}
