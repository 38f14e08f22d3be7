//! Reviews of requests: calls the admission handlers that a review is for, within its time, and answers for them.
//!
//! A handler that panics, or does not return in time, is no denial: the request fails, and the webhook's configuration says what that means. Must
//! not know sockets, nor what is answered.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::admission::answer::{Refusal, ReviewReply, WAITING};
use crate::admission::changes::Changes;
use crate::admission::review::{BadReview, ConnectionFacts, Review};
use crate::admission::route;
use crate::admission::selection::{is_for_object, is_for_request, is_for_resource};
use crate::engine::invoke::{Cancelled, Invoker, guarded};
use crate::engine::report::report;
use crate::handler::cause::{Attempt, CauseContext};
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::logger::Logger;
use crate::handler::outcome::Outcome;
use crate::handler::review::Warnings;
use crate::handler::subject::{ReviewSubject, Subject, SubjectObject};
use crate::handler::webhook::AdmissionKind;
use crate::happening::Happening;
use crate::happening::handling::{AttemptEnd, Fate, Handling};
use crate::happening::reviewing::Reviewing;
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::object::resource::Resource;
use crate::rt::clock::Clock;

/// What reviews need of the operator.
pub(crate) struct ReviewerSetup {
    /// The admission handlers, in the order of their declaration.
    pub(crate) handlers: Vec<Arc<Handler>>,
    pub(crate) invoker: Arc<Invoker>,
    pub(crate) context: CauseContext,
    pub(crate) clock: Clock,
    /// Somebody tells what the cluster serves.
    pub(crate) has_discovery: bool,
}

/// Answers reviews.
pub(crate) struct Reviewer {
    /// The handlers by the paths of their webhooks.
    routes: HashMap<String, Vec<Arc<Handler>>>,
    invoker: Arc<Invoker>,
    context: CauseContext,
    clock: Clock,
    /// What discovery has found, as soon as it has.
    served: RwLock<Vec<Arc<Resource>>>,
    has_discovery: bool,
}

/// A review under way.
struct ReviewRun<'a> {
    reviewer: &'a Reviewer,
    review: &'a Review,
    about: Arc<Reference>,
    /// The id of those that are asked.
    handler: Arc<str>,
    context: CauseContext,
    subject: ReviewSubject,
    /// All calls together end by then.
    until: Instant,
    deadline: Duration,
    refusals: Vec<Refusal>,
    /// Why there is no answer, where nobody denies.
    failure: Option<(u16, String)>,
}

impl Reviewer {
    pub(crate) fn new(setup: ReviewerSetup) -> Self {
        let mut routes: HashMap<String, Vec<Arc<Handler>>> = HashMap::new();
        for handler in setup.handlers {
            if let Some(admission) = handler.admission() {
                let path = route::path(admission.kind, &handler.id);
                routes.entry(path).or_default().push(handler);
            }
        }
        Self {
            routes,
            invoker: setup.invoker,
            context: setup.context,
            clock: setup.clock,
            served: RwLock::default(),
            has_discovery: setup.has_discovery,
        }
    }

    /// Take in what the cluster serves: the names of resources, and their subresources.
    pub(crate) fn served(&self, resources: Vec<Resource>) {
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        *served = resources.into_iter().map(Arc::new).collect();
    }

    /// Answer the review that was posted to `path`, within the `deadline`.
    pub(crate) async fn review(
        &self,
        path: &str,
        body: &[u8],
        connection: ConnectionFacts,
        deadline: Duration,
    ) -> ReviewReply {
        let until = Instant::now() + deadline;
        let Some(handlers) = self.routes.get(path) else {
            return ReviewReply::failed(404, "there is no admission handler at this path");
        };
        let review = match Review::parse(body, connection) {
            Ok(review) => review,
            Err(BadReview(message)) => return ReviewReply::failed(400, &message),
        };
        let served = self.resource(&review);
        let for_resource = |handler: &&Arc<Handler>| {
            let is_for = |it| is_for_resource(it, &review, served.as_deref());
            guarded(|| handler.admission().is_some_and(is_for)).unwrap_or(false)
        };
        let handlers: Vec<_> = handlers.iter().filter(for_resource).collect();
        if handlers.is_empty() && served.is_none() && self.has_discovery {
            // It may be what a handler means by a short name or a category: the API server asks again in a moment.
            let message = format!("{} is not discovered yet", review.resource);
            return ReviewReply::failed(503, &message);
        }
        if handlers.is_empty() {
            let message = format!(
                "the admission handler at this path is not for {}",
                review.resource
            );
            return ReviewReply::failed(404, &message);
        }
        let has_status = served
            .as_deref()
            .is_some_and(Resource::has_status_subresource);
        let resource = served.unwrap_or_else(|| Arc::new(review.resource.clone()));
        let mut changes = Changes::new(&review, has_status);
        let mut reviewing = ReviewRun::new(self, &review, resource, (until, deadline));
        if let Some(first) = handlers.first() {
            reviewing.handler = first.id.clone();
        }
        for handler in handlers {
            reviewing.ask(handler, &mut changes).await;
        }
        reviewing.reply(changes)
    }

    fn resource(&self, review: &Review) -> Option<Arc<Resource>> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        let asked = &review.resource;
        let is_asked = |it: &&Arc<Resource>| {
            (&it.group, &it.version, &it.plural) == (&asked.group, &asked.version, &asked.plural)
        };
        served.iter().find(is_asked).cloned()
    }
}

impl<'a> ReviewRun<'a> {
    fn new(
        reviewer: &'a Reviewer,
        review: &'a Review,
        resource: Arc<Resource>,
        (until, deadline): (Instant, Duration),
    ) -> Self {
        let about = Arc::new(review.about());
        let context = CauseContext {
            logger: Logger::of(about.clone()),
            // The object may never be: nothing is remembered of it.
            memo: reviewer.context.memo.copied(),
            extensions: reviewer.context.extensions.clone(),
        };
        let subject = ReviewSubject {
            object: SubjectObject {
                resource,
                body: review.body.clone(),
            },
            facts: review.facts.clone(),
            sides: review.sides.clone(),
            warnings: Warnings::new(),
        };
        Self {
            reviewer,
            review,
            about,
            handler: Arc::default(),
            context,
            subject,
            until,
            deadline,
            refusals: Vec::new(),
            failure: None,
        }
    }

    /// Call the handler, if the review is for it.
    async fn ask(&mut self, handler: &Arc<Handler>, changes: &mut Changes<'_>) {
        let call = self.call(handler);
        let is_for_it = guarded(|| {
            let is_for_request = |it| is_for_request(it, self.review);
            handler.admission().is_some_and(is_for_request)
                && is_for_object(handler, self.review, &call)
        });
        match is_for_it {
            Ok(true) => {}
            Ok(false) => return,
            Err(panic) => {
                let handler = handler.clone();
                let id = handler.id.clone();
                self.tell(Reviewing::FilterPanicked { handler, panic });
                return self.fail(
                    500,
                    format!("a filter of the admission handler '{id}' has panicked"),
                );
            }
        }
        self.report(&Happening::Invoked {
            handler: handler.clone(),
        });
        let mut patch = Patch::new();
        let invoked = self.reviewer.invoker.invoke(&call, &self.about, &mut patch);
        // Boxed: `timeout_at` would store it twice.
        match tokio::time::timeout_at(self.until, Box::pin(invoked)).await {
            Ok(Ok(outcome)) => {
                self.judge(handler, outcome);
                patch.sign(&handler.id);
                self.change(handler, &patch, changes);
            }
            Ok(Err(Cancelled)) => self.fail(503, "the operator stops".to_owned()),
            Err(_) => {
                let after = self.deadline;
                let (id, handler) = (handler.id.clone(), handler.clone());
                self.tell(Reviewing::OutOfTime { handler, after });
                let seconds = after.as_secs_f64();
                let message = format!(
                    "the admission handler '{id}' has not returned within {seconds:.1} seconds"
                );
                self.fail(500, message);
            }
        }
    }

    fn call(&self, handler: &Arc<Handler>) -> HandlerCall {
        let attempt = Attempt::first(self.reviewer.clock.now());
        let subject = Subject::Review(self.subject.clone());
        HandlerCall::new(handler.clone(), self.context.clone(), attempt, subject)
    }

    /// Take in what a call has come to.
    fn judge(&mut self, handler: &Arc<Handler>, outcome: Outcome) {
        if let Outcome::Panicked { .. } = outcome {
            let id = &handler.id;
            self.fail(500, format!("the admission handler '{id}' has panicked"));
        }
        let refusal = Refusal::of(&outcome);
        self.report(&Happening::Handling(Handling::Attempted {
            handler: handler.clone(),
            end: end_of(outcome),
        }));
        let Some(refusal) = refusal else { return };
        if let Some(code) = refusal.odd_code() {
            let handler = handler.clone();
            self.tell(Reviewing::OddCode { handler, code });
        }
        self.refusals.push(refusal);
    }

    /// Functions of users are called with the object.
    fn change(&mut self, handler: &Arc<Handler>, patch: &Patch, changes: &mut Changes<'_>) {
        if patch.is_empty() {
            return;
        }
        let kind = handler.admission().map(|it| it.kind);
        let outcome = if kind == Some(AdmissionKind::Mutate) {
            let now = self.reviewer.clock.now();
            guarded(|| changes.add(patch, now)).unwrap_or_else(Err)
        } else {
            Err("what validates cannot change: that is for on_mutate".to_owned())
        };
        if let Err(reason) = outcome {
            let id = &handler.id;
            let message =
                format!("the admission handler '{id}' has changed the object in vain: {reason}");
            self.fail(500, message);
            let handler = handler.clone();
            self.tell(Reviewing::ChangeRefused { handler, reason });
        }
    }

    fn reply(self, changes: Changes<'_>) -> ReviewReply {
        let allowed = self.refusals.is_empty() && self.failure.is_none();
        let took = (Instant::now() + self.deadline).saturating_duration_since(self.until);
        let (reviewer, handler) = (self.reviewer, self.handler.clone());
        let reply = self.answer(changes);
        if let Some(meter) = reviewer.invoker.meter() {
            meter.review_ends(&handler, allowed, reply.status, took);
        }
        reply
    }

    fn answer(self, changes: Changes<'_>) -> ReviewReply {
        if let (Some((status, message)), true) = (&self.failure, self.refusals.is_empty()) {
            return ReviewReply::failed(*status, message);
        }
        let (changes, warnings) = (changes.operations(), self.subject.warnings.all());
        ReviewReply::reviewed(self.review, self.refusals, changes.as_ref(), &warnings)
    }

    fn fail(&mut self, status: u16, message: String) {
        self.failure.get_or_insert((status, message));
    }

    fn tell(&self, reviewing: Reviewing) {
        self.report(&Happening::Reviewing(reviewing));
    }

    fn report(&self, happening: &Happening) {
        report(&self.context.logger, happening);
    }
}

/// As the log tells of it: nothing is tried again.
fn end_of(outcome: Outcome) -> AttemptEnd {
    let fate = Fate::Stopped;
    match outcome {
        Outcome::Succeeded(_) => AttemptEnd::Succeeded,
        Outcome::Permanent { message, child } => AttemptEnd::Permanent { message, child },
        Outcome::Denied { message, .. } => AttemptEnd::permanent(message),
        Outcome::Temporary { message, child, .. } => AttemptEnd::Temporary {
            message,
            fate,
            child,
        },
        Outcome::Arbitrary { message } | Outcome::Panicked { message } => {
            AttemptEnd::Arbitrary { message, fate }
        }
        Outcome::TimedOut { after } => AttemptEnd::TimedOut { after },
        Outcome::Waiting => AttemptEnd::permanent(WAITING.to_owned()),
    }
}

#[cfg(test)]
mod tests;
