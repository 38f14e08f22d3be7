//! One write as far as it has come: which request is next, and what an answer makes of it.
//!
//! No requests and no pauses: those are made by the writer. What comes next is decided by the policy.

use std::time::Duration;

use serde::Deserialize;

use crate::cluster::error::ClusterError;
use crate::cluster::write::{Changes, Part, PatchRequest};
use crate::engine::writer::policy::{Answer, Next, Patience, Request, Sight, Tries, Why, after};
use crate::object::raw::Raw;
use crate::object::resource::Resource;

/// How a write has ended.
#[derive(Debug)]
pub(crate) enum Written {
    /// The object as it is now.
    Landed(Raw),
    /// The object is no more, or not in this version: the former for certain, or maybe.
    Gone { is_certain: bool },
    /// Another state stands there: this one, unless it must not be read.
    Outdated(Result<Raw, ClusterError>),
    /// The content was refused, and would be again.
    Refused(String),
    /// It is not permitted, and the operator is to end.
    Forbidden(ClusterError),
    /// The operator stops, and this was the last try.
    GivenUp(ClusterError),
    /// It became pointless while waiting for the server.
    Void,
}

/// The step after an answer.
#[derive(Debug)]
pub(super) enum Step {
    GoOn,
    /// The same request again, after a pause that is not shorter.
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

/// A write that is going on.
pub(crate) struct Job<'a> {
    pub(super) resource: &'a Resource,
    /// Nothing where the object is only to be read.
    plan: Option<&'a Plan<'a>>,
    changes: Option<Changes>,
    /// The finalizers that the changes replace.
    finalizers: Option<&'a [String]>,
    /// The newest state known.
    state: Raw,
    /// The status goes to a subresource of its own.
    apart: bool,
    /// It may be there though nobody has told of it.
    may_be_apart: bool,
    done: Done,
    why: Option<Why>,
    /// A request for the current part had no answer.
    may_have_landed: bool,
    pub(super) tries: Tries,
}

impl<'a> Job<'a> {
    /// Make of `state` what is planned. With `finalizers` it must have exactly these when that lands.
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

    /// See what has become of `state`: [`Written::Outdated`].
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
            tries: Tries::default(),
        }
    }

    /// Failures are repeated for so long.
    pub(crate) fn set_patience(&mut self, patience: Patience) {
        self.tries.patience = patience;
    }

    /// An earlier request for the same had no answer.
    pub(crate) fn may_have_landed(&mut self) {
        self.may_have_landed = true;
    }

    /// Whether the state known has other finalizers than the changes replace.
    pub(crate) fn is_outdated(&self) -> bool {
        self.has_other_finalizers(&self.state)
    }

    /// Takes in whether requests have shown a status subresource that discovery does not know of.
    pub(super) fn know_status_path(&mut self, is_there: bool) {
        if self.may_be_apart {
            self.apart = is_there;
            self.may_be_apart = false;
        }
    }

    /// The next request; `None` where all is done.
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

    /// The status subresource that was to be written to is not there.
    pub(super) fn has_lost_status(&self) -> bool {
        self.resource.has_status_subresource() && !self.apart
    }

    /// Whether the server has dropped the status from this part, and may have a subresource for it.
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

    /// All of it has landed.
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

    /// Take in the answer to `request`.
    pub(super) fn take(&mut self, request: Request, answer: Result<Raw, ClusterError>) -> Step {
        match answer {
            Ok(found) => self.take_state(request, found),
            Err(error) => self.take_error(request, error),
        }
    }

    fn take_state(&mut self, request: Request, found: Raw) -> Step {
        self.tries.failures = 0;
        let answer = match request {
            Request::Read(_) => Answer::Found(self.sight(&found)),
            Request::Patch(part) if self.is_status_dropped(part, &found) => {
                Answer::LandedWithoutStatus
            }
            Request::Patch(part) => Answer::Landed {
                is_outdated: part == Part::Status
                    && self.parts().count() > 1
                    && self.has_other_finalizers(&found),
            },
        };
        let is_read = matches!(request, Request::Read(_));
        match after(answer, request, &self.tries) {
            Next::Done => {
                self.state = found;
                self.part_is_done();
                // Somebody else may have written since: the rest is for another state than it was made for.
                if is_read { self.renew() } else { Step::GoOn }
            }
            Next::Rebind => {
                self.tries.rebinds += 1;
                self.state = found;
                self.renew()
            }
            Next::AllInOne => {
                self.state = found;
                self.apart = false;
                // It may be back before this lands.
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
            _ => Step::End(Written::Outdated(Ok(found))),
        }
    }

    fn take_error(&mut self, request: Request, error: ClusterError) -> Step {
        let next = after(Answer::of(&error), request, &self.tries);
        self.tries.denials += u32::from(matches!(error, ClusterError::Denied { .. }));
        if matches!(request, Request::Patch(_)) {
            self.may_have_landed |= error.may_have_landed();
        }
        match next {
            Next::Read(why) => {
                self.why = Some(why);
                Step::GoOn
            }
            Next::Again { at_least, is_told } => {
                self.tries.failures += 1;
                Step::Again {
                    error,
                    at_least,
                    is_told,
                }
            }
            Next::NoSubresource => {
                self.done.status = true;
                Step::GoOn
            }
            Next::Gone => Step::End(Written::Gone {
                is_certain: matches!(error, ClusterError::OtherObject(_))
                    || error.says_gone(&self.state.facts().name),
            }),
            Next::PlanAnew => Step::End(Written::Outdated(Err(error))),
            Next::Forbidden => Step::End(Written::Forbidden(error)),
            Next::Refused => Step::End(match error {
                ClusterError::Invalid(message) => Written::Refused(message),
                error => Written::Refused(error.to_string()),
            }),
            _ => Step::End(Written::GivenUp(error)),
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

    /// Computes the rest of the changes for the newest state.
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
        } else if self.has_other_finalizers(found) {
            Sight::OtherFinalizers
        } else if is.resource_version == was.resource_version {
            Sight::Unchanged
        } else if self.may_have_landed && is_done() == Some(true) {
            Sight::Done
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
    object
        .map(|object| object.metadata.finalizers)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
