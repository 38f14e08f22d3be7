//! Which calls a process that has ended abruptly was in, and what follows from that. Pure: texts in, texts out.
//!
//! Calls are noted as lines of JSON: each when it begins and when it has ended. What had begun and not ended when the process died is a
//! suspect. Suspects are called one at a time, so that the next abrupt end has a single suspect among its calls. That handler is suspended:
//! it is not called for the object until the object is changed. Where the suspects are functions on the operator's own thread, the whole
//! object is left alone. A call that returns, and the calls for an object that is deleted, are no suspects any more. Once the process
//! has lived for a while, whatever runs then is none either: only what is suspended is remembered.
//! Must not know where the notes are kept, nor for how long calls are noted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::happening::abrupt_end::Called;
use crate::object::reference::Reference;
use crate::reaction::suspension::Suspension;

/// Calls, as far as they are noted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CrashNotes {
    /// Which build of the operator this is: another one may have mended its handlers.
    program: String,
    /// How often in a row the operator has ended abruptly, soon after its start.
    ends: u32,
    suspects: Vec<Suspect>,
    running: BTreeMap<u64, NotedCall>,
    next: u64,
    /// The operator was asked to end: whatever happens from here on is no crash.
    is_stopping: bool,
}

/// A call for an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NotedCall {
    pub(super) called: Called,
    /// A digest of what the object was.
    pub(super) state: String,
    #[serde(with = "ReferenceNote")]
    pub(super) object: Reference,
}

/// A call that had not returned when the operator ended abruptly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Suspect {
    pub(super) call: NotedCall,
    /// How often; more than once where nothing else can have ended the process.
    pub(super) crashes: u32,
    /// How often since then it was the only one among the calls that was a suspect already, beside others that were none.
    #[serde(default)]
    beside_others: u32,
    /// When that was found out last.
    pub(super) since: Timestamp,
    /// It was found out at the start of this process.
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
    /// It has returned.
    Ended(u64),
    /// It was cut off.
    Dropped(u64),
    /// The object of this uid is deleted.
    Deleted(String),
    /// The operator was asked to end.
    Stopping,
}

impl CrashNotes {
    /// Of a process after a clean end.
    pub(super) fn new(program: String) -> Self {
        Self {
            program,
            ..Self::default()
        }
    }

    /// Of a process after one that has left `text`.
    pub(super) fn after(text: &str, program: String, now: Timestamp) -> Self {
        let mut notes = Self::read(text);
        let left = std::mem::take(&mut notes.running);
        let was_stopping = std::mem::take(&mut notes.is_stopping);
        if notes.program != program {
            let ends = u32::from(!was_stopping);
            return Self {
                ends,
                ..Self::new(program)
            };
        }
        if was_stopping {
            notes.ends = 0;
            return notes;
        }
        notes.ends = notes.ends.saturating_add(1);
        notes.suspect(left.into_values().collect(), now);
        notes
    }

    /// Lines that cannot be read are none: the last one may have been cut off.
    fn read(text: &str) -> Self {
        let mut notes = Self::default();
        for note in text.lines().filter_map(|it| serde_json::from_str(it).ok()) {
            notes.enter(note);
        }
        notes
    }

    /// Draw the conclusion from an abrupt end in these calls: a suspect that was alone has ended the process. One beside calls that were
    /// none may be innocent, and they become suspects, too; unless that happens again, with others.
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

    /// How often in a row the operator has ended abruptly.
    pub(super) fn ends(&self) -> u32 {
        self.ends
    }

    pub(super) fn suspects(&self) -> &[Suspect] {
        &self.suspects
    }

    /// Whether some call for the object is a suspect.
    pub(super) fn is_suspect(&self, uid: &str) -> bool {
        self.suspects.iter().any(|it| it.call.object.uid == uid)
    }

    /// How often the operator has ended abruptly in calls of a handler for an object.
    pub(super) fn crashes(&self, handler: &Arc<str>, uid: &str) -> Option<u32> {
        let place = self.place(&Called::Handler(handler.clone()), uid)?;
        Some(self.suspects[place].crashes)
    }

    /// The handlers that are not to be called for the object.
    pub(super) fn suspended(&self, uid: &str) -> Vec<Suspension> {
        let suspects = self.suspects.iter();
        let of_object = suspects.filter(|it| it.call.object.uid == uid && it.is_suspended());
        let suspension = |it: &Suspect| match &it.call.called {
            Called::Handler(handler) => Some(Suspension {
                handler: handler.clone(),
                state: it.call.state.clone(),
            }),
            Called::Functions { .. } => None,
        };
        of_object.filter_map(suspension).collect()
    }

    /// The functions for which the object is left alone as long as it is in the state of one of these.
    pub(super) fn condemned_functions(&self, uid: &str) -> impl Iterator<Item = &Suspect> {
        self.suspects.iter().filter(move |it| {
            let is_function = matches!(it.call.called, Called::Functions { .. });
            is_function && it.call.object.uid == uid && it.is_suspended()
        })
    }

    /// The object is deleted: nobody is called for it any more. The line to write, where somebody was a suspect.
    pub(super) fn deleted(&mut self, uid: &str) -> Option<String> {
        if !self.is_suspect(uid) {
            return None;
        }
        Some(self.record(Note::Deleted(uid.to_owned())))
    }

    /// For how long at most a suspect keeps others waiting, so that all together take no longer than `all`. Most crashes are quick; where
    /// one was not, and so several suspects were called at a time, the next turns are longer.
    pub(super) fn turn(&self, all: Duration) -> Duration {
        const FIRST: Duration = Duration::from_secs(1);
        let longer = 10_u32.saturating_pow(self.ends.saturating_sub(2).min(9));
        let suspects = u32::try_from(self.suspects.len()).unwrap_or(u32::MAX);
        FIRST.saturating_mul(longer).min(all / suspects.max(1))
    }

    /// A call begins: its number, and the line to write before it does.
    pub(super) fn begin(&mut self, call: NotedCall) -> (u64, String) {
        let number = self.next;
        self.next += 1;
        (number, self.record(Note::Begun { number, call }))
    }

    /// A call has returned, or was cut off: then nothing is known of it. Nothing is to be written where it was forgotten meanwhile.
    pub(super) fn end(&mut self, number: u64, has_returned: bool) -> Option<String> {
        if !self.running.contains_key(&number) {
            return None;
        }
        let note = if has_returned {
            Note::Ended(number)
        } else {
            Note::Dropped(number)
        };
        Some(self.record(note))
    }

    /// What has happened now: the line to write of it.
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

    /// The process has lived for a while: what ends it from here on is another story, and no call that runs now has ended it soon. Whether
    /// anything is forgotten for that.
    pub(super) fn lived(&mut self) -> bool {
        let known = (self.ends, self.suspects.len(), self.running.len());
        self.ends = 0;
        self.suspects.retain(Suspect::is_suspended);
        self.running.clear();
        known != (0, self.suspects.len(), 0)
    }

    /// All there is to know, in short.
    pub(super) fn text(&self) -> String {
        let started = Note::Started {
            program: self.program.clone(),
            ends: self.ends,
        };
        let suspects = self.suspects.iter().cloned().map(Note::Suspect);
        let running = self.running.iter().map(|(number, call)| Note::Begun {
            number: *number,
            call: call.clone(),
        });
        let stopping = self.is_stopping.then_some(Note::Stopping);
        let notes = std::iter::once(started).chain(suspects).chain(running);
        notes.chain(stopping).map(|note| line(&note)).collect()
    }

    /// The operator was asked to end: the line to write, where it is news.
    pub(super) fn stopping(&mut self) -> Option<String> {
        (!self.is_stopping).then(|| self.record(Note::Stopping))
    }
}

impl Suspect {
    pub(super) fn is_suspended(&self) -> bool {
        self.crashes > 1
    }

    /// The operator has ended abruptly in this call once more.
    fn is_found_again(&mut self, call: &NotedCall, is_alone: bool, now: Timestamp) {
        /// So often no other one can be the reason.
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
