//! From what is seen to what is to be called.
//!
//! Detects the cause, decides on the finalizer, picks the due calls. Changes nothing: [`settle`](crate::reaction::settle::settle) says
//! what is to be written afterwards. Must not know how handlers are called.

use std::sync::Arc;

use crate::handler::definition::Handler;
use crate::handler::definition::HandlerCall;
use crate::handler::filter::Former;
use crate::handler::subject::EventSubject;
use crate::handler::subject::Reason;
use crate::handler::subject::Subject;
use crate::happening::handling::{Handling, StateTrouble};
use crate::object::event::EventType;
use crate::reaction::course::{Book, Course, Plan};
use crate::reaction::cycle::{Cycle, Mode, supersession};
use crate::reaction::detect::{
    Candidate, Sides, Situation, cause, first_attempt, left_behind, object,
};
use crate::reaction::entry::{Entry, entries};
use crate::reaction::input::Input;
use crate::reaction::member::{Member, Standing};
use crate::reaction::memory::Target;
use crate::state::finalizer;

/// Detect the cause, pick the due calls, decide on the finalizer.
pub(crate) fn plan(input: &Input<'_>) -> Plan {
    let mut planning = Planning {
        input,
        told: Vec::new(),
        calls: Vec::new(),
        suspended: Vec::new(),
    };
    let course = planning.course();
    let is_suspended = |call: &HandlerCall| input.standing(&call.handler) == Standing::Suspended;
    let (suspended, watching): (Vec<_>, Vec<_>) =
        watching(input).into_iter().partition(is_suspended);
    let of_events = suspended.into_iter().map(|call| call.handler);
    planning.suspended.extend(of_events);
    Plan {
        told: planning.told,
        watching,
        changing: planning.calls,
        suspended: planning.suspended,
        course,
        book: Book {
            persistence: input.persistence.clone(),
            lifecycle: input.policy.lifecycle.clone(),
            backoff: input.policy.backoff,
            chance: input.chance,
            body: input.body.clone(),
            gone: input.event == Some(EventType::Deleted),
            seen: input.seen.clone(),
        },
    }
}

/// The calls of raw-event handlers whose filters let the event pass.
fn watching(input: &Input<'_>) -> Vec<HandlerCall> {
    let Some(event) = input.event else {
        return Vec::new();
    };
    let call = |handler: &Arc<Handler>| {
        let subject = Subject::Event(EventSubject {
            object: object(input),
            event,
        });
        let context = input.surroundings.clone();
        HandlerCall::new(handler.clone(), context, first_attempt(input), subject)
    };
    let wants = |call: &HandlerCall| {
        let (filters, field) = (call.handler.filters(), call.handler.field());
        let value = field.and_then(|field| field.resolve(input.body));
        filters.accept_object(input.body, field, Former::Known(value), value)
            && filters.when.as_ref().is_none_or(|when| when(call))
    };
    let handlers = input.handlers.iter().filter(|it| it.is_for_events());
    handlers.map(call).filter(wants).collect()
}

struct Planning<'a> {
    input: &'a Input<'a>,
    told: Vec<Handling>,
    calls: Vec<HandlerCall>,
    suspended: Vec<Arc<Handler>>,
}

/// What the object's deletion and finalizers mean for us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Alive {
        guarded: bool,
    },
    /// Marked for deletion, and we hold it.
    Dying,
    /// Marked for deletion, and we do not hold it.
    Leaving,
    Gone,
}

impl Planning<'_> {
    fn course(&mut self) -> Course {
        let input = self.input;
        let guarded = finalizer::is_on(input.body, &input.persistence.finalizer);
        let life = match (input.event, input.body.is_deleting()) {
            (Some(EventType::Deleted), _) => Life::Gone,
            (_, false) => Life::Alive { guarded },
            (_, true) if guarded => Life::Dying,
            (_, true) => Life::Leaving,
        };
        let changing: Vec<_> = input
            .handlers
            .iter()
            .filter(|it| it.is_for_changes())
            .collect();
        let passes_by = |handler: &&Arc<Handler>| !handler.is_optional_deletion();
        match life {
            Life::Leaving | Life::Gone if changing.iter().all(passes_by) => self.indifferent(life),
            Life::Alive { guarded: true } | Life::Dying if !input.withheld.is_empty() => {
                self.change(life, &changing)
            }
            Life::Alive { guarded: true } | Life::Dying if changing.is_empty() => self.unguard(),
            _ if changing.is_empty() => nothing(),
            _ => self.change(life, &changing),
        }
    }

    /// There are handlers that may be concerned: look at the change.
    fn change(&mut self, life: Life, changing: &[&Arc<Handler>]) -> Course {
        let input = self.input;
        let entries = entries(input, changing, &mut self.told);
        let sides = self.sides(changing);
        let (situation, candidates) = self.candidates(life, changing, &sides, &entries);
        let is_guarded = matches!(life, Life::Alive { guarded: true } | Life::Dying);
        let withheld = self.withheld(&sides, situation);
        if life == Life::Dying && !withheld.is_empty() {
            return self.await_withheld(withheld);
        }
        let is_kept = input.rivalled || !withheld.is_empty();
        if !candidates.iter().any(|it| it.applies) {
            return if is_guarded && (life == Life::Dying || !is_kept) {
                self.unguard()
            } else {
                nothing()
            };
        }
        let demanded = candidates.iter().any(Candidate::demands_finalizer);
        let optional = candidates.iter().any(Candidate::is_optional_deletion);
        match (life, situation) {
            (Life::Alive { guarded: false }, _) if demanded => {
                self.told.push(Handling::FinalizerAdded);
                Course::Guard { add: true }
            }
            (Life::Alive { guarded: true }, _) if !demanded && !is_kept => self.unguard(),
            (Life::Dying, _) if !demanded && !optional => self.unguard(),
            (Life::Leaving | Life::Gone, _) => self.farewell(life, sides, &candidates, entries),
            (_, Situation::Noop) => self.noop(entries),
            (_, Situation::Cause(reason)) => {
                let is_selected = |it: &&Candidate| it.is_selected(reason, input.seen.is_initial());
                let selected = candidates.iter().filter(is_selected);
                let selected: Vec<_> = selected.map(|it| it.handler.clone()).collect();
                self.cycle((reason, Mode::Persisted), sides, &selected, entries)
            }
        }
    }

    /// Those of the deletion handlers that are not served now for which the object is held.
    fn withheld(&self, sides: &Sides, situation: Situation) -> Vec<Arc<str>> {
        let candidate = |handler| sides.candidate(self.input, handler, situation, false);
        let withheld = self.input.withheld.iter();
        withheld
            .filter(|&handler| candidate(handler).demands_finalizer())
            .map(|handler| handler.id.clone())
            .collect()
    }

    /// Without them, the object would be released before all that is to be cleaned up is. With them, it goes on as if it had just been
    /// deleted: so nobody else is called until then, either.
    fn await_withheld(&mut self, withheld: Vec<Arc<str>>) -> Course {
        self.told
            .push(Handling::DeletionWithheld { handlers: withheld });
        nothing()
    }

    fn sides(&mut self, changing: &[&Arc<Handler>]) -> Sides {
        let input = self.input;
        // Memory has it where the object could not take it: what the object carries then is older, or damaged.
        let busy = input.seen.busy.as_ref();
        let last = busy.and_then(|busy| busy.last.clone()).or_else(|| {
            let last = input.persistence.essence.fetch(input.body);
            last.unwrap_or_else(|damage| {
                self.told
                    .push(Handling::State(StateTrouble::LastHandledLost(damage)));
                None
            })
        });
        let all = changing.iter().copied();
        let watching = input.handlers.iter().filter(|it| it.is_for_events());
        let fields = all.chain(watching).filter_map(|it| it.field());
        let newest = input.persistence.essence_of(input.body, fields);
        let target = Target::of(input, &newest, &mut self.told);
        let sides = Sides::new(last, target, newest);
        if input.body.is_deleting() {
            sides.of_deletion()
        } else {
            sides
        }
    }

    /// The situation, and the handlers with what their filters say of it. Filters are evaluated once.
    fn candidates(
        &self,
        life: Life,
        changing: &[&Arc<Handler>],
        sides: &Sides,
        entries: &[Entry],
    ) -> (Situation, Vec<Candidate>) {
        let deleting = !matches!(life, Life::Alive { .. });
        let is_marked = |handler: &Handler| {
            let reacts = handler.reacts_to_differences();
            let mut entries = entries.iter();
            reacts
                && !deleting
                && entries.any(|entry| {
                    let field = handler.field();
                    entry.id == handler.id && entry.is_mark(&sides.newest, field)
                })
        };
        let marked: Vec<bool> = changing.iter().map(|it| is_marked(it)).collect();
        let initial = self.input.seen.is_initial();
        let situation = |marked| sides.situation(deleting, marked, initial);
        let supposed = situation(marked.contains(&true));
        let candidates: Vec<_> = changing
            .iter()
            .zip(marked)
            .map(|(handler, marked)| {
                let entry = entries.iter().find(|entry| entry.id == handler.id);
                let sides = sides.of(handler, entry.and_then(|entry| entry.record.as_ref()));
                sides.candidate(self.input, handler, supposed, marked)
            })
            .collect();
        let still = candidates.iter().any(|it| it.marked && it.applies);
        (situation(still), candidates)
    }

    fn cycle(
        &mut self,
        (reason, mode): (Reason, Mode),
        sides: Sides,
        selected: &[Arc<Handler>],
        entries: Vec<Entry>,
    ) -> Course {
        let input = self.input;
        self.describe(reason, &sides);
        if mode == Mode::Persisted {
            self.told.extend(supersession(reason, &entries));
        }
        let left_behind = left_behind(input, &sides, reason, selected, &entries);
        let mut cycle = Cycle::new(input, (reason, mode), sides, selected, entries);
        cycle.left_behind = left_behind;
        let sides = cycle.sides.clone();
        let picked = cycle.pick(input);
        let call = |member: &Member| {
            let (handler, attempt) = (&member.handler, member.attempt(input.now));
            let sides = sides.of(handler, Some(&member.record));
            let change = sides.change(Some(reason), handler.field());
            cause(input, handler, change, attempt)
        };
        self.calls = picked.into_iter().map(call).collect();
        self.suspended = cycle.suspended().collect();
        Course::Cycle(Box::new(cycle))
    }

    /// The object is leaving or gone, and not held by us: optional deletion handlers run as well as they can, once.
    fn farewell(
        &mut self,
        life: Life,
        sides: Sides,
        candidates: &[Candidate],
        entries: Vec<Entry>,
    ) -> Course {
        let optional = candidates.iter().filter(|it| it.is_optional_deletion());
        let selected: Vec<_> = optional.map(|it| it.handler.clone()).collect();
        if selected.is_empty() || self.input.seen.farewell {
            return self.indifferent(life);
        }
        let mode = if life == Life::Gone {
            Mode::Gone
        } else {
            Mode::Leaving
        };
        self.cycle((Reason::Delete, mode), sides, &selected, entries)
    }

    fn indifferent(&mut self, life: Life) -> Course {
        self.told.push(match life {
            Life::Gone => Handling::Deleted,
            _ => Handling::DeletionOfOthers,
        });
        Course::Rest {
            stale: None,
            forget: true,
        }
    }

    fn noop(&mut self, entries: Vec<Entry>) -> Course {
        self.told.push(Handling::Unchanged);
        let mut stale = Vec::new();
        for entry in entries.into_iter().filter(|entry| entry.is_there) {
            let of_subs = entry.stored.iter().flat_map(|it| &it.subrefs);
            stale.extend(of_subs.map(|id| Arc::from(id.as_str())));
            stale.push(entry.id);
        }
        Course::Rest {
            stale: Some(stale),
            forget: true,
        }
    }

    fn unguard(&mut self) -> Course {
        self.told.push(Handling::FinalizerNotNeeded);
        Course::Guard { add: false }
    }

    fn describe(&mut self, reason: Reason, sides: &Sides) {
        let body = self.input.body.clone();
        self.told.push(Handling::InProgress { reason, body });
        if reason != Reason::Create && !sides.diff.is_empty() {
            let diff = sides.diff.clone();
            self.told.push(Handling::Differs { reason, diff });
        }
    }
}

/// In nobody's scope: what is held stays held.
fn nothing() -> Course {
    Course::Rest {
        stale: None,
        forget: false,
    }
}
