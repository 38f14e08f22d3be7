//! Notes running calls in a file after a crash, so that a handler that crashes the process on some object is found and quarantined.
//!
//! Costs nothing after a clean end; a missing or unreadable file is never an error. `crash_notes` draws the conclusions from the notes; this
//! module must not know them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::engine::crash_notes::{CrashNotes, NotedCall, Suspect};
use crate::engine::report::report;
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::logger::Logger;
use crate::happening::calls::{AbruptEnd, Called, Stage, UserCode};
use crate::object::body::Body;
use crate::object::reference::Reference;
use crate::reaction::input::{Suspension, state_for, state_for_functions};
use crate::rt::locked_file::{LockedFile, Opened};
use crate::state::Persistence;

/// The time for which calls are noted after a crash.
const NOTED: Duration = Duration::from_secs(600);
/// The size in bytes at which the notes are rewritten without the ended calls; larger if running calls alone take more than half of it.
const LONGEST: usize = 256 << 10;
/// The number of suspects that are logged one by one.
const NAMED: usize = 5;

/// The notes of this process. [`end`](Self::end) removes them: if it is never reached, the process has crashed.
#[derive(Debug)]
pub(crate) struct NotedCalls {
    path: PathBuf,
    /// All calls are noted until then, later only those of suspects. `None` after a clean end: then no call is noted.
    until: Option<Instant>,
    kept: Mutex<Kept>,
    /// Admits one suspect at a time.
    turn: Arc<Semaphore>,
    longest_turn: Duration,
}

#[derive(Debug)]
struct Kept {
    notes: CrashNotes,
    /// `None` if the notes could not be written.
    file: Option<LockedFile>,
    /// The size in bytes at which the notes are rewritten.
    limit: usize,
    /// The suspended handlers, or quarantined objects (whose deletion may be held up), of which a line was logged, each with the uid.
    reported: BTreeSet<(Option<Arc<str>>, bool, String)>,
}

/// A running call, if it is noted. Dropping it without [`end`](Self::end) means that it was cut off.
#[derive(Debug, Default)]
pub(crate) struct Noting<'a>(Option<(&'a NotedCalls, u64)>);

/// The permit of a suspect. Other suspects may run after it is dropped or has expired.
#[derive(Debug)]
pub(crate) enum QuarantinePermit {
    /// The suspect still waits for its other permits.
    Waits(OwnedSemaphorePermit),
    Begun {
        _held: AbortOnDropHandle<()>,
    },
}

impl NotedCalls {
    /// Opens the notes of the build `program` at `path`. If another process holds them or they are inaccessible, logs the reason, and
    /// notes nothing.
    pub(crate) fn open(path: &Path, program: String, now: Timestamp) -> Self {
        match Self::opened(path, program, now) {
            Ok(Some(notes)) => return notes,
            Ok(None) => tracing::debug!(
                "Another instance of this operator uses {}: this instance does not note calls of handlers.",
                path.display()
            ),
            Err(error) => {
                tracing::debug!("Calls of handlers cannot be noted in {}: {error}", path.display());
            }
        }
        Self::none()
    }

    fn opened(path: &Path, program: String, now: Timestamp) -> io::Result<Option<Self>> {
        let (file, notes) = match LockedFile::open(path)? {
            Opened::Taken => return Ok(None),
            Opened::New(file) => (file, CrashNotes::new(program)),
            Opened::Left(mut file, text) => {
                let notes = CrashNotes::after(&text, program, now);
                file.replace(&notes.text())?;
                (file, notes)
            }
        };
        Ok(Some(Self::new(path, notes, Some(file))))
    }

    /// Returns notes that no call is noted in.
    pub(crate) fn none() -> Self {
        Self::new(Path::new(""), CrashNotes::default(), None)
    }

    fn new(path: &Path, notes: CrashNotes, file: Option<LockedFile>) -> Self {
        let is_needed = notes.ends > 0 || !notes.suspects.is_empty();
        Self {
            path: path.to_owned(),
            until: is_needed.then(|| Instant::now() + NOTED),
            turn: Arc::new(Semaphore::new(1)),
            longest_turn: notes.turn(NOTED),
            kept: Mutex::new(Kept {
                limit: file.as_ref().map_or(0, LockedFile::length).saturating_mul(2).max(LONGEST),
                notes,
                file,
                reported: BTreeSet::new(),
            }),
        }
    }

    /// Logs how the operator ended before.
    pub(crate) fn report(&self) {
        let kept = self.kept.lock();
        if kept.notes.ends > 0 {
            let path = self.path.display();
            tracing::info!(
                "The operator ended abruptly before. It notes calls of handlers in {path} for {} minutes.",
                NOTED.as_secs() / 60
            );
        }
        let suspects = &kept.notes.suspects;
        let open = suspects.iter().filter(|it| !it.is_suspended()).count();
        for suspect in suspects.iter().take(NAMED) {
            let logger = Logger::of(Arc::new(suspect.call.object.clone()));
            let (called, crashes) = (suspect.call.called.clone(), suspect.crashes);
            let end = if suspect.is_suspended() && !suspect.is_news {
                AbruptEnd::LeftAloneSince { called, crashes, since: suspect.since }
            } else {
                AbruptEnd::Accused { called, crashes, others: open.saturating_sub(1) }
            };
            report(&logger, &end);
        }
    }

    /// Returns the handlers that are suspended for an object.
    pub(crate) fn suspended(&self, uid: &str) -> Vec<Suspension> {
        if self.until.is_none() {
            return Vec::new();
        }
        self.kept.lock().notes.suspended(uid)
    }

    /// Returns the number of crashes in calls of a handler for an object on the first request, and `None` later. The number is constant
    /// while the process lives, since only another crash would change it.
    pub(crate) fn news(&self, handler: &Handler, uid: &str) -> Option<u32> {
        let mut kept = self.kept.lock();
        let is_news = kept.reported.insert((Some(handler.id.clone()), false, uid.to_owned()));
        is_news.then(|| kept.notes.crashes(&handler.id, uid))?
    }

    /// Returns the functions for which the object is quarantined in its present `state`, and the number of their crashes; `None` if it is
    /// not.
    pub(crate) fn quarantined(
        &self,
        uid: &str,
        state: impl FnOnce() -> String,
    ) -> Option<(Vec<UserCode>, u32)> {
        self.until?;
        let kept = self.kept.lock();
        let mut condemned = kept.notes.condemned_functions(uid).peekable();
        condemned.peek()?;
        let state = state();
        let found = condemned.find(|it| it.call.state == state)?;
        let Called::Functions { code, .. } = &found.call.called else {
            return None;
        };
        Some((code.clone(), found.crashes))
    }

    /// Returns whether no line about this quarantine, or about the deletion that it holds up, has been logged yet.
    pub(crate) fn is_quarantine_news(&self, uid: &str, is_deleting: bool) -> bool {
        self.kept.lock().reported.insert((None, is_deleting, uid.to_owned()))
    }

    /// Clears the calls for a deleted object.
    pub(crate) fn deleted(&self, uid: &str) {
        if self.until.is_some() {
            self.kept.lock().record(|notes| notes.deleted(uid));
        }
    }

    /// Clears the calls for all objects for which `is_gone` holds.
    pub(crate) fn all_deleted(&self, is_gone: impl Fn(&Reference) -> bool) {
        if self.until.is_none() {
            return;
        }
        let suspects = self.kept.lock().notes.suspects.clone();
        for object in suspects.iter().map(|it| &it.call.object).filter(|it| is_gone(it)) {
            self.deleted(&object.uid);
        }
    }

    /// Waits until the object may be handled: at once, unless it is a suspect and another suspect runs. The wait ends with the time for
    /// which calls are noted. Returns the permit of a suspect.
    pub(crate) async fn turn(&self, uid: &str) -> Option<QuarantinePermit> {
        let until = self.until?;
        if !self.kept.lock().notes.is_suspect(uid) {
            return None;
        }
        let turn = self.turn.clone().acquire_owned();
        // Boxed because a waiting worker must be small, and suspects are few.
        let turn = Box::pin(tokio::time::timeout_at(until, turn)).await;
        Some(QuarantinePermit::Waits(turn.ok()?.ok()?))
    }

    /// Starts the permit's time limit, as the worker begins to handle the object.
    pub(crate) fn begin_turn(&self, turn: &mut Option<QuarantinePermit>) {
        *turn = match turn.take() {
            Some(QuarantinePermit::Waits(permit)) => {
                let longest = self.longest_turn;
                let held = tokio::spawn(async move {
                    tokio::time::sleep(longest).await;
                    drop(permit);
                });
                Some(QuarantinePermit::Begun { _held: AbortOnDropHandle::new(held) })
            }
            turn => turn,
        };
    }

    /// Forgets unconfirmed suspects and running calls after a while, because a call that has run for long does not crash a process soon
    /// after its start.
    pub(crate) async fn look_after(&self) {
        while self.until.is_some() {
            tokio::time::sleep(NOTED).await;
            let mut kept = self.kept.lock();
            if kept.notes.lived() {
                kept.rewrite();
            }
        }
    }

    /// Notes that a handler is about to be called. Returns the guard to end the note.
    pub(crate) fn begin(
        &self,
        call: &HandlerCall,
        about: &Reference,
        persistence: &Persistence,
    ) -> Noting<'_> {
        let state = || state_for(persistence, &call.handler, call.body());
        self.begin_call(about, || (Called::Handler(call.handler.id.clone()), state()))
    }

    /// Notes that functions are about to run for an object. Returns the guard to end the note.
    pub(super) fn begin_functions(
        &self,
        (stage, code): (Stage, &[UserCode]),
        about: &Reference,
        body: &Body,
        persistence: &Persistence,
    ) -> Noting<'_> {
        if code.is_empty() {
            return Noting::default();
        }
        self.begin_call(about, || {
            let digest = state_for_functions(persistence, body);
            (Called::Functions { stage, code: code.to_vec() }, digest)
        })
    }

    /// Notes that a call for the object is about to be made. `call` returns the callee and a digest of the object's state. Returns the guard
    /// to end the note.
    pub(crate) fn begin_call(
        &self,
        about: &Reference,
        call: impl FnOnce() -> (Called, String),
    ) -> Noting<'_> {
        let Some(until) = self.until else {
            return Noting::default();
        };
        let mut kept = self.kept.lock();
        if Instant::now() >= until && !kept.notes.is_suspect(&about.uid) {
            return Noting::default();
        }
        let (called, state) = call();
        let (number, line) = kept.notes.begin(NotedCall { called, state, object: about.clone() });
        kept.append(&line);
        Noting(Some((self, number)))
    }

    /// Notes that the operator was asked to end, after which no end counts as a crash. Returns whether notes are kept.
    pub(crate) fn stopping(&self) -> bool {
        let mut kept = self.kept.lock();
        kept.record(CrashNotes::stopping);
        kept.file.is_some()
    }

    /// Ends cleanly. Only suspensions stay in the file.
    pub(crate) fn end(&self) {
        let mut kept = self.kept.lock();
        let is_needed = kept.notes.suspects.iter().any(Suspect::is_suspended);
        if is_needed {
            let _ = kept.notes.stopping();
            kept.rewrite();
        } else if let Some(file) = kept.file.take() {
            let _ = file.remove();
        }
    }
}

impl Kept {
    /// Makes a change of the notes, and writes its line if there is one.
    fn record(&mut self, change: impl FnOnce(&mut CrashNotes) -> Option<String>) {
        if let Some(line) = change(&mut self.notes) {
            self.append(&line);
        }
    }

    fn append(&mut self, line: &str) {
        if self.file.as_ref().is_some_and(|it| it.length() + line.len() > self.limit) {
            self.rewrite();
        }
        self.write(|file| file.append(line));
    }

    fn rewrite(&mut self) {
        let text = self.notes.text();
        self.limit = text.len().saturating_mul(2).max(LONGEST);
        self.write(|file| file.replace(&text));
    }

    fn write(&mut self, write: impl FnOnce(&mut LockedFile) -> io::Result<()>) {
        let Some(file) = &mut self.file else {
            return;
        };
        if let Err(error) = write(file) {
            tracing::debug!("Calls of handlers can no longer be noted: {error}");
            // Incomplete notes would accuse the wrong calls.
            if let Some(file) = self.file.take() {
                let _ = file.remove();
            }
        }
    }
}

impl Noting<'_> {
    /// Ends the call. If it has returned, with whatever result, it is cleared.
    pub(crate) fn end(mut self, has_returned: bool) {
        self.close(has_returned);
    }

    fn close(&mut self, has_returned: bool) {
        if let Some((notes, number)) = self.0.take() {
            notes.kept.lock().record(|notes| notes.end(number, has_returned));
        }
    }
}

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        self.close(false);
    }
}

#[cfg(test)]
mod tests;
