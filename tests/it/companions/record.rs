//! The record of a history: objects, calls, and violations that were found on the way.
//!
//! This module must not depend on the operator.

use std::time::Duration;

use kopf_rs_tests::Lines;
use serde_json::Value;
use tokio::time::Instant;

use super::roles::Role;
use crate::random::story::Story;

/// The life of an object from its creation to its deletion.
pub(super) struct Life {
    pub(super) name: &'static str,
    pub(super) uid: String,
    pub(super) edits: usize,
    /// The time of the last edit by a user.
    pub(super) edited: Instant,
    pub(super) gone: Option<Instant>,
}

/// A call of a daemon or timer.
pub(super) struct Call {
    /// The index of the role, and the uid of the object.
    pub(super) of: (usize, String),
    /// The number of the operator start that made the call.
    pub(super) start: usize,
    pub(super) begun: Instant,
    pub(super) end: Option<(Instant, End)>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The operator stopped it.
    Told,
    Done,
    /// With a permanent error.
    Failed,
    /// With a temporary error.
    Again,
    /// The operator cancelled it.
    CutOff,
}

pub(super) struct Record {
    pub(super) start: usize,
    pub(super) lives: Vec<Life>,
    pub(super) calls: Vec<Call>,
    /// Violations that later events cannot undo.
    pub(super) wrong: Vec<String>,
    pub(super) story: Story,
}

/// The time after the end of an object in which the operator may not have noticed it yet.
const UNNOTICED: Duration = Duration::from_secs(150);

impl Record {
    /// Creates a record. Must be called within the runtime of the history, because the story has the runtime's times.
    pub(super) fn new(lines: Option<&Lines>) -> Self {
        Self { start: 0, lives: Vec::new(), calls: Vec::new(), wrong: Vec::new(), story: Story::new(lines) }
    }

    pub(super) fn made(&mut self, name: &'static str, object: &Value) {
        self.story.tell(format!("{name} is made: {}", object["metadata"]["labels"]));
        self.lives.push(Life {
            name,
            uid: uid(object).to_owned(),
            edits: 0,
            edited: Instant::now(),
            gone: None,
        });
    }

    pub(super) fn edited(&mut self, object: &Value) {
        if let Some(life) = self.life(uid(object)) {
            life.edits += 1;
            life.edited = Instant::now();
        }
    }

    /// Marks all objects with this name as gone, except the one with the uid `there`.
    pub(super) fn only(&mut self, name: &str, there: Option<&str>) {
        let lives = self.lives.iter_mut().filter(|life| life.name == name);
        for life in lives.filter(|life| life.gone.is_none()) {
            if there != Some(&life.uid) {
                life.gone = Some(Instant::now());
            }
        }
    }

    fn life(&mut self, uid: &str) -> Option<&mut Life> {
        self.lives.iter_mut().find(|life| life.uid == uid)
    }

    // === calls ===

    /// Records the start of a call, and whether it violates a rule.
    pub(super) fn begun(&mut self, place: usize, role: &Role, uid: &str) -> usize {
        let now = Instant::now();
        let (name, edited, gone) = match self.life(uid) {
            Some(life) => (life.name, life.edited, life.gone),
            None => ("?", now, None),
        };
        let of = (place, uid.to_owned());
        let id = role.id;
        if gone.is_some_and(|gone| gone + UNNOTICED < now) {
            self.complain(format!("{id} is called for {name}, which is gone for long"));
        }
        let start = self.start;
        let former = self.calls.iter().rev().find(|call| call.of == of);
        let mut wrong = None;
        if let Some(former) = former {
            match former.end {
                None => wrong = Some("while it runs".to_owned()),
                Some((ended, End::Done)) if former.start == start && edited < former.begun => {
                    wrong = too_early(role, (former.begun, ended), now);
                }
                _ => {}
            }
        }
        if let Some(wrong) = wrong {
            self.complain(format!("{id} is called for {name} {wrong}"));
        }
        self.story.tell(format!("   {id} is called for {name}"));
        self.calls.push(Call { of, start, begun: now, end: None });
        self.calls.len() - 1
    }

    pub(super) fn ended(&mut self, place: usize, role: &Role, end: End) {
        self.calls[place].end = Some((Instant::now(), end));
        self.story.tell(format!("   {} ends: {end:?}", role.id));
    }

    /// Returns the calls that are running.
    pub(super) fn running(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.end.is_none())
    }

    /// Returns the last call of a role for an object by the current operator.
    pub(super) fn last(&self, of: &(usize, String)) -> Option<&Call> {
        let is_it = |call: &&Call| call.of == *of && call.start == self.start;
        self.calls.iter().rev().find(is_it)
    }

    fn complain(&mut self, what: String) {
        self.story.tell(format!("   WRONG: {what}"));
        self.wrong.push(what);
    }
}

/// Returns the violation if a call follows a successful one too early, with no change of the object in between.
fn too_early(role: &Role, (begun, ended): (Instant, Instant), now: Instant) -> Option<String> {
    /// Stored times are rounded.
    const ROUNDING: Duration = Duration::from_millis(2);
    let Some(interval) = role.interval else {
        return Some("again, though it is called once".to_owned());
    };
    let from = if role.sharp { begun } else { ended };
    let passed = now - from + ROUNDING;
    (passed < interval).then(|| format!("{passed:?} after its last call"))
}

pub(super) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}
