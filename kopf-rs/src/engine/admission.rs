//! Answers admission reviews: calls the handlers that a review is for, within its deadline.
//!
//! A handler that panics or misses the deadline does not deny the request: the review fails, and the `failurePolicy` of the webhook decides.
//! Must not know sockets, nor the wire format of the answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::admission::answer::{Refusal, ReviewReply};
use crate::admission::changes::Changes;
use crate::admission::review::{BadReview, ConnectionFacts, Review};
use crate::admission::route;
use crate::admission::selection::{is_for_object, is_for_request, is_for_resource};
use crate::cluster::Client;
use crate::cluster::observed::{OwnRequests, Reviewed};
use crate::engine::invoke::{Cancelled, HandlerGroup, Invoker, guarded};
use crate::engine::report::report_counted;
use crate::handler::cause::{Attempt, CauseContext};
use crate::handler::definition::{Handler, HandlerCall};
use crate::handler::extensions::Extensions;
use crate::handler::logger::Logger;
use crate::handler::operation::Operation;
use crate::handler::outcome::Outcome;
use crate::handler::review::Warnings;
use crate::handler::subject::{ReviewSubject, Subject, SubjectObject};
use crate::handler::webhook::AdmissionKind;
use crate::happening::Happening;
use crate::happening::calls::CallHappening;
use crate::happening::handling::{Fate, Handling};
use crate::happening::webhooks::Reviewing;
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::object::resource::Resource;

/// Answers admission reviews.
pub(crate) struct Reviewer {
    /// The handlers by the paths of their webhooks.
    routes: HashMap<String, Vec<Arc<Handler>>>,
    invoker: Arc<Invoker>,
    context: CauseContext,
    /// The served resources; `None` until discovery has reported them.
    served: Mutex<Vec<Arc<Resource>>>,
    has_discovery: bool,
}

/// A review in progress.
struct ReviewRun<'a> {
    reviewer: &'a Reviewer,
    review: &'a Review,
    about: Arc<Reference>,
    /// The id of the handlers that the path selects.
    handler: Arc<str>,
    context: CauseContext,
    subject: ReviewSubject,
    /// The deadline of all calls together.
    until: Instant,
    deadline: Duration,
    refusals: Vec<Refusal>,
    /// The requests that handlers send about the kind under review.
    own: OwnRequests,
    /// The status and the reason if the review fails without a denial.
    failure: Option<(u16, String)>,
}

impl Reviewer {
    /// Returns a reviewer with these admission handlers. With discovery, the served resources will be reported.
    pub(crate) fn new(group: HandlerGroup, has_discovery: bool) -> Self {
        let mut routes: HashMap<String, Vec<Arc<Handler>>> = HashMap::new();
        for handler in group.handlers {
            if let Some(kind) = handler.admission() {
                let path = route::path(kind, &handler.id);
                routes.entry(path).or_default().push(handler);
            }
        }
        Self {
            routes,
            invoker: group.invoker,
            context: group.context,
            served: Mutex::default(),
            has_discovery,
        }
    }

    /// Stores the served resources, their names and their subresources.
    pub(crate) fn served(&self, resources: Vec<Resource>) {
        *self.served.lock() = resources.into_iter().map(Arc::new).collect();
    }

    /// Answers the review that was posted to `path`, within the `deadline`.
    pub(crate) async fn review(
        &self,
        path: &str,
        body: &[u8],
        connection: ConnectionFacts,
        deadline: Duration,
    ) -> ReviewReply {
        let until = Instant::now() + deadline;
        let Some(handlers) = self.routes.get(path) else {
            return ReviewReply::failed(
                503,
                "this instance of the operator has no admission handler at this path; during an update, an instance of another release may have one",
            );
        };
        let review = match Review::parse(body, connection) {
            Ok(review) => review,
            Err(BadReview(message)) => return ReviewReply::failed(400, &message),
        };
        let served = self.resource(&review);
        let for_resource = |handler: &&Arc<Handler>| {
            let is_for = || is_for_resource(handler, &review, served.as_deref());
            guarded(is_for).unwrap_or(false)
        };
        let handlers: Vec<_> = handlers.iter().filter(for_resource).collect();
        if handlers.is_empty() && served.is_none() && self.has_discovery {
            // A handler may name this resource by a short name or a category, which only discovery resolves. The API server asks again after
            // a moment.
            let message = format!("{} is not discovered yet", review.resource);
            return ReviewReply::failed(503, &message);
        }
        if handlers.is_empty() {
            let message = format!(
                "the admission handler at this path of this instance of the operator is not for {}; during an update, that of another release may be",
                review.resource
            );
            return ReviewReply::failed(503, &message);
        }
        let has_status = served.as_deref().is_some_and(Resource::has_status_subresource);
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
        let served = self.served.lock();
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
        let own = OwnRequests::new(Reviewed {
            resource: resource.clone(),
            subresource: review.facts.subresource.clone(),
            namespace: about.namespace.clone(),
            name: about.name.clone(),
        });
        let context = CauseContext {
            logger: Logger::of(about.clone()),
            // The object may never come to exist, so the handler gets a copy of the memo.
            memo: reviewer.context.memo.copied(),
            extensions: observed(&reviewer.context.extensions, &own),
        };
        let subject = ReviewSubject {
            object: SubjectObject { resource, body: review.body.clone() },
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
            own,
            failure: None,
        }
    }

    /// Calls the handler if the review is for it.
    async fn ask(&mut self, handler: &Arc<Handler>, changes: &mut Changes<'_>) {
        let call = self.call(handler);
        let is_for_it =
            guarded(|| is_for_request(handler, self.review) && is_for_object(handler, self.review, &call));
        match is_for_it {
            Ok(true) => {}
            Ok(false) => return,
            Err(panic) => {
                let handler = handler.clone();
                let id = handler.id.clone();
                self.report(&Reviewing::FilterPanicked { handler, panic });
                return self.fail(500, format!("a filter of the admission handler '{id}' has panicked"));
            }
        }
        self.report(&CallHappening::Invoked { handler: handler.clone() });
        let mut patch = Patch::new();
        let invoked = self.reviewer.invoker.invoke(&call, &self.about, &mut patch);
        // Boxed because `timeout_at` would store the future twice.
        match tokio::time::timeout_at(self.until, Box::pin(invoked)).await {
            Ok(Ok(outcome)) => {
                self.judge(handler, outcome);
                patch.sign(&handler.id);
                self.change(handler, &patch, changes);
            }
            Ok(Err(Cancelled)) => self.fail(503, "the operator stops".to_owned()),
            Err(_) => {
                let after = self.deadline;
                let awaits = self.awaits(handler);
                let (id, handler) = (handler.id.clone(), handler.clone());
                let seconds = after.as_secs_f64();
                let message =
                    format!("the admission handler '{id}' has not returned within {seconds:.1} seconds");
                self.fail(500, [message].into_iter().chain(awaits.clone()).collect::<Vec<_>>().join(": "));
                self.report(&Reviewing::OutOfTime { handler, after, awaits });
            }
        }
    }

    /// Describes the handler's own request that waits for this webhook, which is a deadlock; `None` if there is no such request.
    fn awaits(&self, handler: &Handler) -> Option<String> {
        let request = self.own.first_unanswered()?;
        let operations = &handler.webhook.operations;
        let is_asked = match request.method.as_str() {
            "DELETE" => operations.contains(&Operation::Delete),
            "POST" => operations.contains(&Operation::Create),
            // A server-side apply creates the object if it does not exist.
            _ => operations.iter().any(|it| matches!(it, Operation::Create | Operation::Update)),
        };
        is_asked.then(|| {
            let what = if request.is_same {
                "the object under review"
            } else {
                "an object of the same kind"
            };
            format!(
                "it waits for its own request {} {} about {what}, and the API server answers that only once this webhook has answered a review of it, too. \
                 Change the object under review by the patch of an `on_mutate` handler, and everything else by a handler that is called after the request, such as \
                 `on_create` or `on_update`; or leave requests of the operator itself out by a filter",
                request.method, request.path
            )
        })
    }

    fn call(&self, handler: &Arc<Handler>) -> HandlerCall {
        let attempt = Attempt::first(self.reviewer.invoker.clock.now());
        let subject = Subject::Review(self.subject.clone());
        HandlerCall::new(handler.clone(), self.context.clone(), attempt, subject)
    }

    /// Records the outcome of a call.
    fn judge(&mut self, handler: &Arc<Handler>, outcome: Outcome) {
        if let Outcome::Panicked { .. } = outcome {
            let id = &handler.id;
            self.fail(500, format!("the admission handler '{id}' has panicked"));
        }
        let outcome = outcome.without_subhandlers("admission handlers have no sub-handlers");
        let refusal = Refusal::of(&outcome);
        if let Outcome::Denied { message, .. } = outcome {
            self.report(&Reviewing::Denied { handler: handler.clone(), message });
        } else if let Some(attempted) = Handling::attempted(handler, outcome, |_| Fate::Stopped) {
            self.report(&attempted);
        }
        let Some(refusal) = refusal else { return };
        if let Some(code) = refusal.odd_code() {
            let handler = handler.clone();
            self.report(&Reviewing::OddCode { handler, code });
        }
        self.refusals.push(refusal);
    }

    /// Adds the changes of the handler to the answer. Guarded against panics because a patch may contain functions of the user, which run
    /// here.
    fn change(&mut self, handler: &Arc<Handler>, patch: &Patch, changes: &mut Changes<'_>) {
        if patch.is_empty() {
            return;
        }
        let outcome = if handler.admission() == Some(AdmissionKind::Mutate) {
            let now = self.reviewer.invoker.clock.now();
            guarded(|| changes.add(patch, now)).unwrap_or_else(Err)
        } else {
            Err("what validates cannot change: that is for on_mutate".to_owned())
        };
        if let Err(reason) = outcome {
            let id = &handler.id;
            let message = format!("the admission handler '{id}' has changed the object in vain: {reason}");
            self.fail(500, message);
            let handler = handler.clone();
            self.report(&Reviewing::ChangeRefused { handler, reason });
        }
    }

    fn reply(self, changes: Changes<'_>) -> ReviewReply {
        let allowed = self.refusals.is_empty() && self.failure.is_none();
        let took = (Instant::now() + self.deadline).saturating_duration_since(self.until);
        let (reviewer, handler) = (self.reviewer, self.handler.clone());
        let reply = self.answer(changes);
        if let Some(meter) = reviewer.invoker.meter() {
            meter.review_ends(&handler, allowed, reply.code, took);
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

    fn report(&self, happening: &dyn Happening) {
        report_counted(self.reviewer.invoker.meter(), &self.context.logger, happening);
    }
}

/// Returns the extensions for the handlers of a review, with a client that records the requests it sends.
fn observed(given: &Arc<Extensions>, own: &OwnRequests) -> Arc<Extensions> {
    let Some(client) = given.get::<Client>() else {
        return given.clone();
    };
    let own = own.clone();
    Arc::new(given.making(move || own.observing(&client)))
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests;
