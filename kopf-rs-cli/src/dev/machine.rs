//! Decides what `kopf-rs dev` does: events in, actions out.
//!
//! Guarantees that at most one operator and one build exist at a time, that only a successful build replaces a running operator, and that the
//! program ends only after both. This module is pure: it knows no process, no file and no clock.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// An event to react to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Sources, or these files of `--apply`, were saved.
    Saved(Vec<PathBuf>),
    /// A build has succeeded. The program is new unless the last operator was started from it.
    Built { is_new: bool },
    /// A build has failed, and its messages are shown.
    Refused,
    /// The operator's process has ended; `None` is an end by a signal.
    Ended(Option<i32>),
    /// The user, or the system, asks this program to end, by the signal of this number.
    Interrupted(u8),
    /// The API server's process has ended.
    ServerEnded,
}

/// A step for the caller to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Begin a build.
    Build,
    /// Start the program of the last build, with these files for `--apply`.
    Start(Vec<PathBuf>),
    /// Ask the operator to stop, and kill it when its time is over.
    Stop,
    /// Kill the operator now.
    Kill,
    /// Tell the user.
    Tell(News),
    /// End this program with this exit code, after the API server.
    Leave(u8),
}

/// News for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The build failed, and the operator of the last successful build runs.
    Keeps,
    /// The build failed, and no operator runs.
    Waits,
    /// The build changed nothing for the running operator.
    Unchanged,
    /// The operator ended by itself.
    Ended(Option<i32>),
    /// The API server ended by itself, and the objects with it.
    ServerEnded,
}

/// The state for the status line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The first build runs, or one after the operator has ended.
    Building,
    /// A build runs beside the operator.
    Rebuilding,
    /// The operator of the newest sources runs.
    Running,
    /// An older operator runs, because the newest sources do not compile.
    Outdated,
    /// The old operator stops, and the new one follows.
    Restarting,
    /// No operator runs until a file is saved, because the sources do not compile.
    Refused,
    /// No operator runs until a file is saved, because it has ended.
    Ended,
    /// This program ends.
    Leaving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    Idle,
    Runs,
    /// It runs, but sources were saved since it began.
    Stale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Absent,
    Runs,
    Stops,
}

/// The state of `kopf-rs dev`.
#[derive(Debug)]
pub(crate) struct Machine {
    build: Build,
    operator: Operator,
    /// A program is built that is newer than the operator, or than the last one that ran.
    is_ready: bool,
    /// The last build failed.
    is_refused: bool,
    /// Files of `--apply` that the next operator has to apply.
    unapplied: BTreeSet<PathBuf>,
    /// Files that the present operator has to apply.
    applying: BTreeSet<PathBuf>,
    /// The previous operator was stopped and failed, perhaps before it applied these files.
    is_repeated: bool,
    /// The exit code, once this program ends.
    leaving: Option<u8>,
}

// === impl Machine ===

impl Machine {
    /// Returns the state while the first build runs, which the caller begins. The first operator applies all `files`.
    pub(crate) fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            build: Build::Runs,
            operator: Operator::Absent,
            is_ready: false,
            is_refused: false,
            unapplied: files.into_iter().collect(),
            applying: BTreeSet::new(),
            is_repeated: false,
            leaving: None,
        }
    }

    /// Takes an event in, and returns the actions that follow.
    pub(crate) fn handle(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Saved(files) => self.saved(files),
            Event::Built { is_new } => self.built(is_new),
            Event::Refused => self.refused(),
            Event::Ended(code) => self.ended(code),
            // The exit code of shells for a signal.
            Event::Interrupted(signal) if self.leaving.is_some() => {
                vec![Action::Kill, Action::Leave(signal.saturating_add(128))]
            }
            Event::Interrupted(_) => self.leave(0),
            Event::ServerEnded if self.leaving.is_some() => Vec::new(),
            Event::ServerEnded => {
                let mut actions = vec![Action::Tell(News::ServerEnded)];
                actions.extend(self.leave(1));
                actions
            }
        }
    }

    /// Returns the state for the status line.
    pub(crate) fn phase(&self) -> Phase {
        match (self.operator, self.build) {
            _ if self.leaving.is_some() => Phase::Leaving,
            (Operator::Stops, _) => Phase::Restarting,
            (Operator::Runs, Build::Runs | Build::Stale) => Phase::Rebuilding,
            (Operator::Runs, Build::Idle) if self.is_refused => Phase::Outdated,
            (Operator::Runs, Build::Idle) => Phase::Running,
            (Operator::Absent, Build::Runs | Build::Stale) => Phase::Building,
            (Operator::Absent, Build::Idle) if self.is_refused => Phase::Refused,
            (Operator::Absent, Build::Idle) => Phase::Ended,
        }
    }

    fn saved(&mut self, files: Vec<PathBuf>) -> Vec<Action> {
        self.unapplied.extend(files);
        if self.leaving.is_some() {
            return Vec::new();
        }
        match self.build {
            Build::Idle => self.begin_build(),
            Build::Runs | Build::Stale => {
                self.build = Build::Stale;
                Vec::new()
            }
        }
    }

    fn begin_build(&mut self) -> Vec<Action> {
        self.build = Build::Runs;
        vec![Action::Build]
    }

    fn built(&mut self, is_new: bool) -> Vec<Action> {
        self.is_ready |= is_new;
        self.is_refused = false;
        if let Some(actions) = self.after_build() {
            return actions;
        }
        match self.operator {
            Operator::Absent => self.start(),
            Operator::Runs if self.is_ready || !self.unapplied.is_empty() => {
                self.operator = Operator::Stops;
                self.is_ready = true;
                vec![Action::Stop]
            }
            Operator::Runs => vec![Action::Tell(News::Unchanged)],
            Operator::Stops => Vec::new(),
        }
    }

    fn refused(&mut self) -> Vec<Action> {
        self.is_refused = true;
        if let Some(actions) = self.after_build() {
            return actions;
        }
        match self.operator {
            // It had stopped for an earlier program, which still exists.
            Operator::Absent if self.is_ready => {
                let mut actions = self.start();
                actions.push(Action::Tell(News::Keeps));
                actions
            }
            Operator::Absent => vec![Action::Tell(News::Waits)],
            Operator::Runs | Operator::Stops => vec![Action::Tell(News::Keeps)],
        }
    }

    /// Returns the actions if the end of the build does not matter: this program ends, or the sources have changed meanwhile.
    fn after_build(&mut self) -> Option<Vec<Action>> {
        let build = std::mem::replace(&mut self.build, Build::Idle);
        if let Some(code) = self.leaving {
            return Some(self.leave(code));
        }
        (build == Build::Stale).then(|| self.begin_build())
    }

    fn start(&mut self) -> Vec<Action> {
        self.operator = Operator::Runs;
        self.is_ready = false;
        self.applying = std::mem::take(&mut self.unapplied);
        vec![Action::Start(self.applying.iter().cloned().collect())]
    }

    fn ended(&mut self, code: Option<i32>) -> Vec<Action> {
        let was_asked = self.operator == Operator::Stops;
        self.operator = Operator::Absent;
        if let Some(code) = self.leaving {
            return self.leave(code);
        }
        let is_repeated = std::mem::replace(&mut self.is_repeated, false);
        if code != Some(0) && !(was_asked && is_repeated) {
            // The operator may have failed before it applied them. Repeats them only once, because some operators fail at each stop.
            self.unapplied.append(&mut self.applying);
            self.is_repeated = was_asked;
        }
        match self.build {
            _ if !was_asked => vec![Action::Tell(News::Ended(code))],
            Build::Idle => self.start(),
            // The build may be about to replace the program.
            Build::Runs | Build::Stale => Vec::new(),
        }
    }

    /// Ends the operator, and then this program. The caller cancels the build.
    fn leave(&mut self, code: u8) -> Vec<Action> {
        self.leaving = Some(code);
        match self.operator {
            Operator::Runs => {
                self.operator = Operator::Stops;
                vec![Action::Stop]
            }
            Operator::Absent if self.build == Build::Idle => vec![Action::Leave(code)],
            Operator::Absent | Operator::Stops => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVED: Event = Event::Saved(Vec::new());
    const NEW: Event = Event::Built { is_new: true };
    const SAME: Event = Event::Built { is_new: false };

    fn manifest() -> PathBuf {
        PathBuf::from("sample.yaml")
    }

    fn start() -> Action {
        Action::Start(Vec::new())
    }

    /// A story: each event with the actions and the phase that follow.
    type Story<'a> = &'a [(Event, &'a [Action], Phase)];

    #[track_caller]
    fn play(machine: &mut Machine, story: Story<'_>) {
        for (at, (event, actions, phase)) in story.iter().enumerate() {
            let taken = machine.handle(event.clone());
            assert_eq!((&taken[..], machine.phase()), (*actions, *phase), "event {at}: {event:?}");
        }
    }

    /// Returns the state in which the first operator runs.
    fn running() -> Machine {
        let mut machine = Machine::new([]);
        assert_eq!(machine.phase(), Phase::Building);
        play(&mut machine, &[(NEW, &[start()], Phase::Running)]);
        machine
    }

    #[test]
    fn only_a_successful_build_replaces_the_operator() {
        use Action::{Build, Stop, Tell};
        play(
            &mut running(),
            &[
                (SAVED, &[Build], Phase::Rebuilding),
                (Event::Refused, &[Tell(News::Keeps)], Phase::Outdated),
                (SAVED, &[Build], Phase::Rebuilding),
                (NEW, &[Stop], Phase::Restarting),
                (Event::Ended(Some(0)), &[start()], Phase::Running),
                (SAVED, &[Build], Phase::Rebuilding),
                (SAME, &[Tell(News::Unchanged)], Phase::Running),
            ],
        );
    }

    #[test]
    fn sources_saved_during_a_build_are_built_after_it() {
        use Action::{Build, Stop, Tell};
        play(
            &mut Machine::new([]),
            &[
                (SAVED, &[], Phase::Building),
                (NEW, &[Build], Phase::Building),
                // The program of the first build was never started.
                (SAME, &[start()], Phase::Running),
                (SAVED, &[Build], Phase::Rebuilding),
                (SAVED, &[], Phase::Rebuilding),
                (Event::Refused, &[Build], Phase::Rebuilding),
                (NEW, &[Stop], Phase::Restarting),
                (SAVED, &[Build], Phase::Restarting),
                // The build may be about to replace the program.
                (Event::Ended(Some(0)), &[], Phase::Building),
                // The program of the build before remains.
                (Event::Refused, &[start(), Tell(News::Keeps)], Phase::Outdated),
            ],
        );
    }

    #[test]
    fn an_operator_that_ends_or_never_compiles_waits_for_the_next_save() {
        use Action::{Build, Tell};
        play(
            &mut Machine::new([]),
            &[
                (Event::Refused, &[Tell(News::Waits)], Phase::Refused),
                (SAVED, &[Build], Phase::Building),
                (Event::Refused, &[Tell(News::Waits)], Phase::Refused),
                (SAVED, &[Build], Phase::Building),
                (NEW, &[start()], Phase::Running),
                (Event::Ended(Some(2)), &[Tell(News::Ended(Some(2)))], Phase::Ended),
                (SAVED, &[Build], Phase::Building),
                (SAME, &[start()], Phase::Running),
            ],
        );
    }

    #[test]
    fn files_are_applied_once_unless_they_are_saved_or_the_operator_failed() {
        use Action::{Build, Start, Stop, Tell};
        let apply = Start(vec![manifest()]);
        play(
            &mut Machine::new([manifest()]),
            &[
                (NEW, std::slice::from_ref(&apply), Phase::Running),
                (Event::Ended(Some(1)), &[Tell(News::Ended(Some(1)))], Phase::Ended),
                (SAVED, &[Build], Phase::Building),
                (NEW, std::slice::from_ref(&apply), Phase::Running),
                (SAVED, &[Build], Phase::Rebuilding),
                (NEW, &[Stop], Phase::Restarting),
                (Event::Ended(Some(0)), &[start()], Phase::Running),
                (Event::Saved(vec![manifest()]), &[Build], Phase::Rebuilding),
                (SAME, &[Stop], Phase::Restarting),
                (SAVED, &[Build], Phase::Restarting),
                (Event::Ended(Some(0)), &[], Phase::Building),
                (Event::Refused, &[apply.clone(), Tell(News::Keeps)], Phase::Outdated),
            ],
        );
    }

    #[test]
    fn files_of_an_operator_that_failed_when_it_was_replaced_are_applied_once_more() {
        use Action::{Build, Start, Stop};
        let apply = Start(vec![manifest()]);
        play(
            &mut Machine::new([manifest()]),
            &[
                (NEW, std::slice::from_ref(&apply), Phase::Running),
                (SAVED, &[Build], Phase::Rebuilding),
                (NEW, &[Stop], Phase::Restarting),
                (Event::Ended(None), std::slice::from_ref(&apply), Phase::Running),
                (SAVED, &[Build], Phase::Rebuilding),
                (NEW, &[Stop], Phase::Restarting),
                (Event::Ended(Some(1)), &[start()], Phase::Running),
                (SAVED, &[Build], Phase::Rebuilding),
                (NEW, &[Stop], Phase::Restarting),
                (Event::Ended(Some(1)), &[start()], Phase::Running),
            ],
        );
    }

    #[test]
    fn it_ends_after_the_operator_and_the_build() {
        use Action::{Build, Kill, Leave, Stop, Tell};
        play(
            &mut running(),
            &[
                (SAVED, &[Build], Phase::Rebuilding),
                (Event::Interrupted(2), &[Stop], Phase::Leaving),
                (SAVED, &[], Phase::Leaving),
                (Event::Refused, &[], Phase::Leaving),
                (Event::ServerEnded, &[], Phase::Leaving),
                (Event::Ended(Some(0)), &[Leave(0)], Phase::Leaving),
            ],
        );
        play(
            &mut running(),
            &[
                (Event::Interrupted(2), &[Stop], Phase::Leaving),
                (Event::Interrupted(2), &[Kill, Leave(130)], Phase::Leaving),
            ],
        );
        play(
            &mut running(),
            &[
                (Event::ServerEnded, &[Tell(News::ServerEnded), Stop], Phase::Leaving),
                (Event::Ended(Some(1)), &[Leave(1)], Phase::Leaving),
            ],
        );
        play(
            &mut Machine::new([]),
            &[(Event::Interrupted(2), &[], Phase::Leaving), (NEW, &[Leave(0)], Phase::Leaving)],
        );
    }
}
