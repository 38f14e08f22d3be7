//! Finds out which handler call crashed the process, and quarantines it. Pure: texts in, texts out.
//!
//! Calls are noted as lines of JSON, each when it begins and when it has ended. A call that had begun and not ended when the process died is
//! a suspect. Suspects are called one at a time, so that the next crash has a single suspect among its calls. Its handler is then suspended:
//! it is not called for the object until the object changes. If the suspects are functions on the operator's own thread, the whole object is
//! quarantined. A call that returns is cleared, and so are the calls for a deleted object. After the process has lived for a while, all
//! running calls are cleared and only suspensions are remembered.
//!
//! Must not know where the notes are stored, nor for how long calls are noted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::happening::calls::Called;
use crate::object::reference::Reference;
use crate::reaction::input::Suspension;

/// The noted calls.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CrashNotes {
    /// The build of the operator. Another build may have fixed its handlers, so it starts without suspects.
    program: String,
    /// The number of consecutive crashes soon after the start.
    pub(super) ends: u32,
    pub(super) suspects: Vec<Suspect>,
    running: BTreeMap<u64, NotedCall>,
    next: u64,
    /// The operator was asked to end, so the end of the process is no crash.
    is_stopping: bool,
}

/// A call for an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NotedCall {
    pub(super) called: Called,
    /// A digest of the object's state.
    pub(super) state: String,
    #[serde(with = "ReferenceNote")]
    pub(super) object: Reference,
}

/// A call that had not returned when the process crashed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Suspect {
    pub(super) call: NotedCall,
    /// The number of crashes in this call; more than one if no other call can have caused them.
    pub(super) crashes: u32,
    /// The number of later crashes in which it was the only known suspect, but ran concurrently with calls that were no suspects.
    #[serde(default)]
    beside_others: u32,
    /// The time of the last crash that counted.
    pub(super) since: Timestamp,
    /// The last crash was found at the start of this process.
    #[serde(skip)]
    pub(super) is_news: bool,
}

/// The form of a reference in notes.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Reference")]
struct ReferenceNote {
    api_version: String,
    kind: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    uid: String,
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Note {
    Started {
        program: String,
        ends: u32,
    },
    Suspect(Suspect),
    Begun {
        number: u64,
        call: NotedCall,
    },
    /// The call has returned.
    Ended(u64),
    /// The call was cut off.
    Dropped(u64),
    /// The object of this uid is deleted.
    Deleted(String),
    /// The operator was asked to end.
    Stopping,
}

impl CrashNotes {
    /// Creates the notes of a process that follows a clean end.
    pub(super) fn new(program: String) -> Self {
        Self { program, ..Self::default() }
    }

    /// Creates the notes of a process that follows one which has left `text`.
    pub(super) fn after(text: &str, program: String, now: Timestamp) -> Self {
        let mut notes = Self::read(text);
        let left = std::mem::take(&mut notes.running);
        let was_stopping = std::mem::take(&mut notes.is_stopping);
        if notes.program != program {
            let ends = u32::from(!was_stopping);
            return Self { ends, ..Self::new(program) };
        }
        if was_stopping {
            notes.ends = 0;
            return notes;
        }
        notes.ends = notes.ends.saturating_add(1);
        notes.suspect(left.into_values().collect(), now);
        notes
    }

    /// Parses notes. Skips lines that it cannot parse, since a crash may have truncated the last one.
    fn read(text: &str) -> Self {
        let mut notes = Self::default();
        for note in text.lines().filter_map(|it| serde_json::from_str(it).ok()) {
            notes.enter(note);
        }
        notes
    }

    /// Finds suspects after a crash in these calls. A suspect that ran alone caused the crash. A suspect that ran concurrently with others
    /// may be innocent, so those become suspects, too; unless that happens again with different calls.
    fn suspect(&mut self, calls: Vec<NotedCall>, now: Timestamp) {
        let is_alone = calls.len() == 1;
        let (known, unknown): (Vec<_>, Vec<_>) = calls
            .into_iter()
            .map(|call| (self.place(&call.called, &call.object.uid), call))
            .partition(|(place, _)| place.is_some());
        if let [(Some(place), call)] = &known[..] {
            self.suspects[*place].is_found_again(call, is_alone, now);
        }
        let unknown = unknown.into_iter().map(|(_, call)| Suspect {
            call,
            crashes: 1,
            beside_others: 0,
            since: now,
            is_news: true,
        });
        self.suspects.extend(unknown);
    }

    fn place(&self, called: &Called, uid: &str) -> Option<usize> {
        let mut suspects = self.suspects.iter();
        suspects.position(|it| it.call.called.is_same(called) && it.call.object.uid == uid)
    }

    /// Returns whether a call for the object is a suspect.
    pub(super) fn is_suspect(&self, uid: &str) -> bool {
        self.suspects.iter().any(|it| it.call.object.uid == uid)
    }

    /// Returns the number of crashes in calls of a handler for an object.
    pub(super) fn crashes(&self, handler: &Arc<str>, uid: &str) -> Option<u32> {
        let place = self.place(&Called::Handler(handler.clone()), uid)?;
        Some(self.suspects[place].crashes)
    }

    /// Returns the handlers that are suspended for the object.
    pub(super) fn suspended(&self, uid: &str) -> Vec<Suspension> {
        let suspects = self.suspects.iter();
        let of_object = suspects.filter(|it| it.call.object.uid == uid && it.is_suspended());
        let suspension = |it: &Suspect| match &it.call.called {
            Called::Handler(handler) => {
                Some(Suspension { handler: handler.clone(), state: it.call.state.clone() })
            }
            Called::Functions { .. } => None,
        };
        of_object.filter_map(suspension).collect()
    }

    /// Returns the functions that quarantine the object while it is in the state noted with them.
    pub(super) fn condemned_functions(&self, uid: &str) -> impl Iterator<Item = &Suspect> {
        self.suspects.iter().filter(move |it| {
            let is_function = matches!(it.call.called, Called::Functions { .. });
            is_function && it.call.object.uid == uid && it.is_suspended()
        })
    }

    /// Clears the calls for a deleted object. Returns the line to write, if one was a suspect.
    pub(super) fn deleted(&mut self, uid: &str) -> Option<String> {
        if !self.is_suspect(uid) {
            return None;
        }
        Some(self.record(Note::Deleted(uid.to_owned())))
    }

    /// Returns the longest time for which a suspect keeps other suspects waiting, such that all of them together take no longer than `all`.
    /// Most crashes come quickly. If one did not, several suspects ran at the same time, so the next turns are longer.
    pub(super) fn turn(&self, all: Duration) -> Duration {
        const FIRST: Duration = Duration::from_secs(1);
        let longer = 10_u32.saturating_pow(self.ends.saturating_sub(2).min(9));
        let suspects = u32::try_from(self.suspects.len()).unwrap_or(u32::MAX);
        FIRST.saturating_mul(longer).min(all / suspects.max(1))
    }

    /// Notes the start of a call. Returns its number, and the line to write before the call starts.
    pub(super) fn begin(&mut self, call: NotedCall) -> (u64, String) {
        let number = self.next;
        self.next += 1;
        (number, self.record(Note::Begun { number, call }))
    }

    /// Notes that a call has returned or was cut off; a cut-off call remains unexplained. Returns the line to write, or `None` if the call
    /// was forgotten meanwhile.
    pub(super) fn end(&mut self, number: u64, has_returned: bool) -> Option<String> {
        if !self.running.contains_key(&number) {
            return None;
        }
        let note = if has_returned { Note::Ended(number) } else { Note::Dropped(number) };
        Some(self.record(note))
    }

    /// Applies a note, and returns the line to write.
    fn record(&mut self, note: Note) -> String {
        let text = line(&note);
        self.enter(note);
        text
    }

    fn enter(&mut self, note: Note) {
        match note {
            Note::Started { program, ends } => (self.program, self.ends) = (program, ends),
            Note::Suspect(suspect) => self.suspects.push(suspect),
            Note::Begun { number, call } => drop(self.running.insert(number, call)),
            Note::Ended(number) => {
                if let Some(call) = self.running.remove(&number)
                    && let Some(place) = self.place(&call.called, &call.object.uid)
                {
                    self.suspects.remove(place);
                }
            }
            Note::Dropped(number) => drop(self.running.remove(&number)),
            Note::Deleted(uid) => self.suspects.retain(|it| it.call.object.uid != uid),
            Note::Stopping => self.is_stopping = true,
        }
    }

    /// Forgets running calls and unconfirmed suspects because the process has lived for a while: a later crash starts a new count, and no present
    /// call has caused an early one. Returns whether anything was forgotten.
    pub(super) fn lived(&mut self) -> bool {
        let known = (self.ends, self.suspects.len(), self.running.len());
        self.ends = 0;
        self.suspects.retain(Suspect::is_suspended);
        self.running.clear();
        known != (0, self.suspects.len(), 0)
    }

    /// Returns the complete notes in compact form.
    pub(super) fn text(&self) -> String {
        let started = Note::Started { program: self.program.clone(), ends: self.ends };
        let suspects = self.suspects.iter().cloned().map(Note::Suspect);
        let running =
            self.running.iter().map(|(number, call)| Note::Begun { number: *number, call: call.clone() });
        let stopping = self.is_stopping.then_some(Note::Stopping);
        let notes = std::iter::once(started).chain(suspects).chain(running);
        notes.chain(stopping).map(|note| line(&note)).collect()
    }

    /// Notes that the operator was asked to end. Returns the line to write, unless that was noted before.
    pub(super) fn stopping(&mut self) -> Option<String> {
        (!self.is_stopping).then(|| self.record(Note::Stopping))
    }
}

impl Suspect {
    pub(super) fn is_suspended(&self) -> bool {
        self.crashes > 1
    }

    /// Notes another crash in this call.
    fn is_found_again(&mut self, call: &NotedCall, is_alone: bool, now: Timestamp) {
        /// After this many crashes with different concurrent calls, no other call can be the cause.
        const ENOUGH: u32 = 2;
        self.beside_others += u32::from(!is_alone);
        if is_alone || self.beside_others >= ENOUGH {
            self.call = call.clone();
            self.crashes = self.crashes.saturating_add(1);
            (self.since, self.is_news) = (now, true);
        }
    }
}

fn line(note: &Note) -> String {
    let mut text = serde_json::to_string(note).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
