//! Noticing that another program keeps its state under this operator's name: it is said once per kind, and once more where it lasts.
//!
//! Promises no write and no false alarm: a state that this process may have written itself tells nothing, and what may be an instance
//! that is just being replaced is said so. Must not know what a trace is made of.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::Level;

use crate::engine::Shared;
use crate::engine::kind::Kind;
use crate::engine::memory::{Memory, Version};
use crate::engine::report::report_about;
use crate::engine::worker::Worker;
use crate::happening::Happening;
use crate::happening::handling::Handling;
use crate::object::outline::Outline;
use crate::object::raw::Raw;
use crate::state::trace::{Places, Sign, Trace};

/// Longer than an instance and its successor are there at the same time.
const REPLACED_WITHIN: Duration = Duration::from_secs(120);

/// So often the finalizer is taken off that somebody else puts on.
pub(super) const FIGHTS: u8 = 3;

/// What was noticed, by kind.
#[derive(Debug, Default)]
pub(crate) struct Rivals(Mutex<BTreeMap<u32, Noticed>>);

#[derive(Debug)]
struct Noticed {
    first: Instant,
    /// Said that there is another operator, and not only another instance.
    said: bool,
}

/// What is to be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    /// There may be another instance.
    Gentle,
    /// There is another instance, for so long now.
    Lasting(Duration),
    /// There is another operator, or another version.
    Plain,
}

impl Rivals {
    fn note(&self, kind: u32, sign: Sign, fights: u8, now: Instant) -> Option<Tone> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let news = !kinds.contains_key(&kind);
        let noticed = kinds.entry(kind).or_insert(Noticed {
            first: now,
            said: false,
        });
        let lasted = now.duration_since(noticed.first);
        let tone = match sign {
            _ if noticed.said => return None,
            Sign::Strange => Tone::Plain,
            Sign::Held if fights >= FIGHTS => Tone::Plain,
            _ if lasted >= REPLACED_WITHIN => Tone::Lasting(lasted),
            _ if news => Tone::Gentle,
            _ => return None,
        };
        noticed.said = tone != Tone::Gentle;
        Some(tone)
    }
}

impl Shared {
    /// Whether an object at rest may stay so. Its trace is remembered then.
    pub(super) fn may_rest(&self, kind: &Kind, memory: &mut Memory, raw: &Raw) -> bool {
        let Some(outline) = Outline::of(raw) else {
            return false;
        };
        let trace = self.places(kind).map(|places| places.trace(&outline));
        if memory.trace.is_some() && memory.trace != trace {
            return false;
        }
        let quiet = self.glance(kind, memory).is_quiet_as(&outline);
        if quiet {
            memory.trace = trace;
            let unchanged = Happening::Handling(Handling::Unchanged);
            report_about(&kind.resource, raw.facts(), &unchanged);
        }
        quiet
    }

    pub(super) fn trace(&self, kind: &Kind, raw: &Raw) -> Option<Trace> {
        Some(self.places(kind)?.trace(&Outline::of(raw)?))
    }

    /// Nothing where handlers of changes have nothing to keep, or keep it where others decide.
    fn places<'a>(&'a self, kind: &'a Kind) -> Option<Places<'a>> {
        let persistence = &self.setup.persistence;
        Some(Places {
            prefix: persistence.prefix()?,
            finalizer: persistence.finalizer.as_ref(),
            names: kind.names.as_ref()?,
        })
    }
}

impl Worker {
    /// Look whether the state that has come was made by somebody who takes this operator's things for its own.
    pub(super) fn look_for_rivals(&mut self, raw: &Raw) {
        let Some(sign) = self.sign(raw) else { return };
        // Where the fate of an own write is not known, it may be its echo.
        let alien =
            || !self.writer.maybe_written && raw.body().is_ok_and(|body| self.is_readable(&body));
        if sign == Sign::Strange || alien() {
            self.notice(sign, raw);
        }
    }

    /// Look the same way at the answer to an own write: others may have written just before it, and what they leave under names of
    /// their own is never this operator's doing.
    pub(super) fn look_for_strangers(&mut self, reply: &Raw) {
        if let Some(sign @ Sign::Strange) = self.sign(reply) {
            self.notice(sign, reply);
        }
    }

    /// How the state differs from the one known. Where versions cannot be compared, it may be an older one.
    fn sign(&self, raw: &Raw) -> Option<Sign> {
        let was = self.memory.trace?;
        let is = self.shared().trace(&self.kind, raw)?;
        let comparable = matches!(self.memory.version, Version::Number(_));
        is.since(was).filter(|_| comparable)
    }

    fn notice(&mut self, sign: Sign, raw: &Raw) {
        if sign == Sign::Held {
            self.memory.fights = self.memory.fights.saturating_add(1);
        }
        let (kind, fights) = (self.kind.id, self.memory.fights);
        let told = self
            .shared()
            .rivals
            .note(kind, sign, fights, Instant::now());
        if let Some(tone) = told {
            self.tell(tone, sign, raw);
        }
    }

    /// Rubbish is no operator's, and is told elsewhere.
    fn is_readable(&self, body: &crate::object::body::Body) -> bool {
        self.shared().setup.persistence.essence.fetch(body).is_ok()
    }

    fn tell(&self, tone: Tone, sign: Sign, raw: &Raw) {
        let (Some(places), Some(outline)) = (self.shared().places(&self.kind), Outline::of(raw))
        else {
            return;
        };
        let (kind, object) = (&self.kind.resource, &self.context.about);
        let (prefix, found) = match sign {
            Sign::Strange => (places.prefix, places.strangers(&outline).join(", ")),
            Sign::Own => (
                places.prefix,
                format!("annotations under {}", places.prefix),
            ),
            Sign::Held => (places.prefix, format!("the finalizer {}", places.finalizer)),
        };
        let remedy = "give each operator a name of its own (`--name`, or `Operator::name`; in Kopf's mode a prefix and a finalizer of its own)";
        match tone {
            Tone::Plain => {
                let ids: Vec<&str> = self.kind.handlers.iter().map(|it| &*it.id).collect();
                self.log(
                    Level::WARN,
                    format_args!(
                        "Another operator keeps its state under this one's name, {prefix}, on {kind}: expected were records of {} only, found \
                         is {found} of {object}, not written here. Two operators of one name take each other's objects for handled: \
                         {remedy}. While another version of this operator is being replaced by this one, it is expected and will end.",
                        ids.join(", ")
                    ),
                );
            }
            Tone::Lasting(lasted) => self.log(
                Level::WARN,
                format_args!(
                    "Another instance of this operator has been at work on {kind} for {} seconds: {found} of {object} were written, and not here. \
                     Each instance calls its handlers: run one only, or {remedy}.",
                    lasted.as_secs()
                ),
            ),
            Tone::Gentle => self.log(
                Level::INFO,
                format_args!(
                    "Another instance of this operator may be at work on {kind}: {found} of {object} were written, and not here. That is \
                     expected while one instance replaces another."
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_and_once_more_where_it_lasts() {
        let (rivals, start) = (Rivals::default(), Instant::now());
        let later = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(rivals.note(1, Sign::Own, 1, start), Some(Tone::Gentle));
        assert_eq!(rivals.note(1, Sign::Held, 1, later(60)), None);
        let lasting = Tone::Lasting(Duration::from_secs(130));
        assert_eq!(rivals.note(1, Sign::Own, 1, later(130)), Some(lasting));
        assert_eq!(rivals.note(1, Sign::Strange, 1, later(200)), None);
        assert_eq!(rivals.note(2, Sign::Held, 1, start), Some(Tone::Gentle));
        assert_eq!(rivals.note(2, Sign::Strange, 1, start), Some(Tone::Plain));
        assert_eq!(rivals.note(2, Sign::Strange, 1, later(300)), None);
        assert_eq!(rivals.note(3, Sign::Held, 3, start), Some(Tone::Plain));
    }
}
