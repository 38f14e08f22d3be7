//! The progress of one write: chooses the next request, and processes its answer.
//!
//! Sends no requests and makes no pauses: the writer does. The policy decides the next step.

use std::time::Duration;

use serde::Deserialize;

use crate::cluster::error::ClusterError;
use crate::cluster::write::{Changes, Part, PatchRequest};
use crate::engine::rewritten::Sighting;
use crate::engine::writer::policy::{Next, Patience, Request, Sight, Tries, Why, after_error, after_read};
use crate::object::operations::Operations;
use crate::object::raw::Raw;
use crate::object::resource::Resource;

/// The end of a write.
#[derive(Debug)]
pub(crate) enum Written {
    /// The present object.
    Landed(Raw),
    /// The object is gone for certain, or its API version may no longer be served.
    Gone { is_certain: bool },
    /// The server has another state: this one, unless it cannot be read.
    Outdated(Result<Raw, ClusterError>),
    /// The object was only read: its present state, unless it cannot be read.
    Read(Result<Raw, ClusterError>),
    /// The content was refused, and would be again.
    Refused(String),
    /// RBAC forbids the write, and the operator runs with `once`.
    Forbidden(ClusterError),
    /// The operator stops, and this was the last attempt.
    GivenUp(ClusterError),
    /// The write became pointless while it waited for the server.
    Void,
    /// The write is still pending: a message arrived that must not wait for the server.
    Interrupted,
}

/// The step after an answer.
#[derive(Debug)]
pub(super) enum Step {
    GoOn,
    /// The same request again, after a pause of at least this length.
    Again {
        error: ClusterError,
        at_least: Duration,
        is_told: bool,
    },
    End(Written),
}

/// Computes the changes that a state still needs.
pub(crate) type Plan<'a> = dyn Fn(&Raw) -> Result<Changes, String> + Sync + 'a;

/// The parts that have landed.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    status: bool,
    rest: bool,
}

/// The facts that the requests of a write have shown, however it ends.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The values that the server has stored in another form than they were sent.
    pub(crate) rewritten: Vec<Sighting>,
    /// The changes of functions, for each state they were applied to, that may have landed partly or completely.
    pub(crate) maybe_landed: Vec<Operations>,
}

/// A write in progress.
pub(crate) struct Job<'a> {
    pub(super) resource: &'a Resource,
    /// `None` if the object is only read.
    plan: Option<&'a Plan<'a>>,
    changes: Option<Changes>,
    /// The finalizers that the changes replace.
    finalizers: Option<&'a [String]>,
    /// The newest known state.
    state: Raw,
    /// The status has a subresource of its own.
    apart: bool,
    /// A status subresource may exist although discovery does not list it.
    may_be_apart: bool,
    done: Done,
    why: Option<Why>,
    /// A request for the current part had no answer.
    may_have_landed: bool,
    shown: Option<&'a mut Shown>,
    pub(super) tries: Tries,
}

impl<'a> Job<'a> {
    /// Creates a write that applies `plan` to `state`. With `finalizers`, the object must have exactly these when the write lands.
    pub(crate) fn write(
        resource: &'a Resource,
        state: &Raw,
        plan: &'a Plan<'a>,
        finalizers: Option<&'a [String]>,
    ) -> Result<Self, String> {
        let changes = plan(state)?;
        Ok(Self {
            plan: Some(plan),
            changes: Some(changes),
            finalizers,
            why: None,
            ..Self::read(resource, state)
        })
    }

    /// Creates a read of the present object, which ends with [`Written::Read`].
    pub(crate) fn read(resource: &'a Resource, state: &Raw) -> Self {
        Self {
            resource,
            plan: None,
            changes: None,
            finalizers: None,
            state: state.clone(),
            apart: resource.has_status_subresource(),
            may_be_apart: !resource.has_status_subresource(),
            done: Done::default(),
            why: Some(Why::ToPlan),
            may_have_landed: false,
            shown: None,
            tries: Tries::default(),
        }
    }

    /// Sets for how long failures are repeated.
    pub(crate) fn set_patience(&mut self, patience: Patience) {
        self.tries.patience = patience;
    }

    /// Sets the place where facts from the answers to requests are stored.
    pub(crate) fn tell(&mut self, shown: &'a mut Shown) {
        self.shown = Some(shown);
    }

    /// Returns whether the known state has other finalizers than those which the changes replace.
    pub(crate) fn is_outdated(&self) -> bool {
        self.has_other_finalizers(&self.state)
    }

    /// Notes whether earlier requests have shown a status subresource that discovery does not list.
    pub(super) fn know_status_path(&mut self, is_there: bool) {
        if self.may_be_apart {
            self.apart = is_there;
            self.may_be_apart = false;
        }
    }

    /// Returns the next request; `None` if the write is done.
    pub(super) fn request(&self) -> Option<Request> {
        if let Some(why) = self.why {
            return Some(Request::Read(why));
        }
        self.parts().map(Request::Patch).next()
    }

    fn parts(&self) -> impl Iterator<Item = Part> {
        let with_status = !self.apart;
        let status = (self.apart && !self.done.status).then_some(Part::Status);
        let rest = (!self.done.rest).then_some(Part::Object { with_status });
        let says = |part: &Part| {
            let changes = self.changes.as_ref();
            changes.is_some_and(|changes| changes.has(*part))
        };
        status.into_iter().chain(rest).filter(says)
    }

    /// Returns whether the listed status subresource does not exist.
    pub(super) fn has_lost_status(&self) -> bool {
        self.resource.has_status_subresource() && !self.apart
    }

    /// Returns whether the server has dropped the status from this part, and may have a subresource for it.
    pub(super) fn is_status_dropped(&self, part: Part, reply: &Raw) -> bool {
        let lose = |changes: &Changes| changes.lose_status_in(reply);
        self.may_be_apart
            && part == (Part::Object { with_status: true })
            && self.changes.as_ref().is_some_and(lose)
    }

    pub(super) fn is_for_reading(&self) -> bool {
        self.plan.is_none()
    }

    pub(super) fn state(&self) -> &Raw {
        &self.state
    }

    /// Ends a write of which all parts have landed.
    pub(super) fn done(self) -> Written {
        Written::Landed(self.state)
    }

    pub(super) fn patch(&self, part: Part) -> Option<PatchRequest<'_>> {
        let changes = self.changes.as_ref()?;
        Some(PatchRequest {
            resource: self.resource,
            facts: self.state.facts(),
            changes,
            part,
            is_bound: self.finalizers.is_some(),
        })
    }

    /// Processes the answer to `request`. Returns the next step.
    pub(super) fn take(&mut self, request: Request, answer: Result<Raw, ClusterError>) -> Step {
        match answer {
            Ok(found) => self.take_state(request, found),
            Err(error) => self.take_error(request, error),
        }
    }

    fn take_state(&mut self, request: Request, found: Raw) -> Step {
        self.tries.failures = 0;
        let next = match request {
            Request::Read(why) => after_read(self.sight(&found), why, &self.tries),
            Request::Patch(part) => self.has_landed(part, &found),
        };
        let is_read = matches!(request, Request::Read(_));
        match next {
            Next::Done => {
                self.state = found;
                self.part_is_done();
                if is_read { self.go_on_with_rest() } else { Step::GoOn }
            }
            Next::Rebind => {
                self.tries.rebinds += 1;
                self.state = found;
                self.renew()
            }
            Next::AllInOne => {
                self.state = found;
                self.apart = false;
                // The subresource may be back before this lands.
                self.may_be_apart = true;
                self.renew()
            }
            Next::StatusApart => {
                self.state = found;
                self.done.rest = true;
                self.apart = true;
                self.may_be_apart = false;
                self.tries.is_status_again = true;
                self.renew()
            }
            Next::Gone => Step::End(Written::Gone { is_certain: true }),
            _ => Step::End(self.to_plan(Ok(found))),
        }
    }

    fn take_error(&mut self, request: Request, error: ClusterError) -> Step {
        let next = after_error(&error, request, &self.tries);
        self.tries.denials += u32::from(matches!(error, ClusterError::Denied { .. }));
        if matches!(request, Request::Patch(_)) && error.may_have_landed() {
            self.may_have_landed = true;
            self.may_land_twice();
        }
        match next {
            Next::Read(why) => {
                self.why = Some(why);
                Step::GoOn
            }
            Next::Again { at_least, is_told } => {
                self.tries.failures += 1;
                Step::Again { error, at_least, is_told }
            }
            Next::NoSubresource => {
                self.done.status = true;
                Step::GoOn
            }
            Next::Gone => Step::End(Written::Gone {
                is_certain: matches!(error, ClusterError::OtherObject(_))
                    || error.says_gone(&self.state.facts().name),
            }),
            Next::PlanAnew => Step::End(self.to_plan(Err(error))),
            Next::Forbidden => Step::End(Written::Forbidden(error)),
            Next::Refused => Step::End(match error {
                ClusterError::Invalid(message) => Written::Refused(message),
                error => Written::Refused(error.to_string()),
            }),
            _ => Step::End(Written::GivenUp(error)),
        }
    }

    /// Returns the end of a job whose caller plans for the state that was found.
    fn to_plan(&self, found: Result<Raw, ClusterError>) -> Written {
        if self.is_for_reading() { Written::Read(found) } else { Written::Outdated(found) }
    }

    /// Processes the reply to this part. Returns the next step.
    fn has_landed(&mut self, part: Part, reply: &Raw) -> Next {
        if self.parts().nth(1).is_some() {
            self.may_land_twice();
        }
        if self.is_status_dropped(part, reply) {
            return Next::StatusApart;
        }
        if let (Some(shown), Some(changes)) = (&mut self.shown, &self.changes) {
            for earlier in &mut shown.rewritten {
                earlier.goes_on(&self.state, reply);
            }
            shown.rewritten.extend(Sighting::of(changes, part, reply));
        }
        let is_followed = part == Part::Status && self.parts().count() > 1;
        if is_followed && self.has_other_finalizers(reply) { Next::PlanAnew } else { Next::Done }
    }

    /// Remembers changes that have landed or may have: applied to a newer state, they would be made twice.
    fn may_land_twice(&mut self) {
        if let (Some(shown), Some(Changes::Operations { operations, .. })) = (&mut self.shown, &self.changes)
            && shown.maybe_landed.last() != Some(operations)
        {
            shown.maybe_landed.push(operations.clone());
        }
    }

    fn part_is_done(&mut self) {
        let part = self.parts().next();
        match part {
            Some(Part::Status) => self.done.status = true,
            _ => self.done.rest = true,
        }
        self.may_have_landed = false;
    }

    /// Continues with the rest after the status. If another writer has changed the finalizers since, the rest was made for another state and
    /// would undo that. Returns the next step.
    fn go_on_with_rest(&mut self) -> Step {
        if self.parts().next().is_some() && self.is_outdated() {
            return Step::End(Written::Outdated(Ok(self.state.clone())));
        }
        self.renew()
    }

    /// Computes the remaining changes for the newest state. Returns the next step.
    fn renew(&mut self) -> Step {
        self.why = None;
        self.may_have_landed = false;
        match self.plan.map(|plan| plan(&self.state)) {
            Some(Ok(changes)) => {
                self.changes = Some(changes);
                Step::GoOn
            }
            Some(Err(message)) => Step::End(Written::Refused(message)),
            None => Step::GoOn,
        }
    }

    fn sight(&self, found: &Raw) -> Sight {
        let (is, was) = (found.facts(), self.state.facts());
        let is_done = || {
            let (changes, part) = (self.changes.as_ref()?, self.parts().next()?);
            Some(changes.are_in(part, found.body().as_deref().ok()?))
        };
        if is.uid != was.uid {
            Sight::OtherObject
        } else if self.why == Some(Why::Conflict) && self.may_have_landed && is_done() == Some(true) {
            // The functions of the patch must not be applied twice, whatever another writer has written since.
            Sight::Done
        } else if self.has_other_finalizers(found) {
            Sight::OtherFinalizers
        } else if is.resource_version == was.resource_version {
            Sight::Unchanged
        } else {
            Sight::Newer
        }
    }

    fn has_other_finalizers(&self, found: &Raw) -> bool {
        let expected = self.finalizers;
        expected.is_some_and(|expected| finalizers(found) != expected)
    }
}

fn finalizers(raw: &Raw) -> Vec<String> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        finalizers: Vec<String>,
    }
    let object = serde_json::from_str::<Object>(raw.text());
    object.map(|object| object.metadata.finalizers).unwrap_or_default()
}

#[cfg(test)]
mod tests;
