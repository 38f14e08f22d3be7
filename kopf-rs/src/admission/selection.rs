//! Selects the handlers to call for a review.
//!
//! The API server selects by webhook configurations, which may be outdated or written by others, so everything is
//! checked again. This module does not know how handlers are called.

use serde_json::{Map, Value};

use crate::admission::review::Review;
use crate::handler::cause::Cause;
use crate::handler::definition::Handler;
use crate::handler::filter::Criterion;
use crate::handler::operation::Operation;
use crate::handler::webhook::AdmissionKind;
use crate::object::resource::Resource;

/// Returns true if the handler applies to this resource. `served` is the discovered resource, if known.
pub(crate) fn is_for_resource(handler: &Handler, review: &Review, served: Option<&Resource>) -> bool {
    handler.selector().is_some_and(|selector| {
        selector.means(&review.resource) || served.is_some_and(|it| selector.means(it))
    })
}

/// Returns true if the handler applies to the request, regardless of its filters.
pub(crate) fn is_for_request(handler: &Handler, review: &Review) -> bool {
    let (facts, webhook) = (&review.facts, &handler.webhook);
    webhook.operations.contains(&facts.operation)
        && webhook.is_for_subresource(facts.subresource.as_deref())
        && (webhook.is_for_dying || !is_dying(review))
        && is_for_deletion(handler, review)
}

/// Returns true if the object passes the filters, including functions of users.
pub(crate) fn is_for_object(handler: &Handler, review: &Review, cause: &Cause) -> bool {
    handler.filtered(|filters| {
        let before = review.sides.before.as_ref();
        let before = before.map(|it| it["metadata"]["labels"].as_object());
        let now = Some(Some(review.body.label_map()));
        let mut labels = now.into_iter().chain(before);
        labels.any(|found| hold(&filters.labels, found))
            && hold(&filters.annotations, Some(review.body.annotation_map()))
            && handler.field().is_none_or(|field| {
                let wanted = filters.value.as_ref().unwrap_or(&Criterion::Present);
                wanted.holds(field.resolve(&review.body))
            })
            && filters.when.as_ref().is_none_or(|when| when(cause))
    })
}

/// Returns true for updates of an object that is being deleted. By default handlers ignore these, so that they do not block the removal of
/// finalizers.
fn is_dying(review: &Review) -> bool {
    let old = review.sides.before.as_ref();
    review.facts.operation == Operation::Update
        && old.is_some_and(|it| !it["metadata"]["deletionTimestamp"].is_null())
}

/// Returns true if the handler applies to the operation. As in Kopf, a mutating handler is called for deletions only if it declares no other
/// operation, because it expects that it can change the object.
fn is_for_deletion(handler: &Handler, review: &Review) -> bool {
    review.facts.operation != Operation::Delete
        || handler.admission() == Some(AdmissionKind::Validate)
        || handler.webhook.operations.iter().all(|it| *it == Operation::Delete)
}

fn hold(criteria: &[(String, Criterion)], found: Option<&Map<String, Value>>) -> bool {
    let mut criteria = criteria.iter();
    criteria.all(|(name, criterion)| criterion.holds(found.and_then(|it| it.get(name))))
}
