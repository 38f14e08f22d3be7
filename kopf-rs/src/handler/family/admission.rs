//! Admission handlers: `on_validate`, `on_mutate`. The API server calls them before it executes a request, and they
//! allow or deny it. A call has no effect beyond its response.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::handler::attribute::{Attribute, ON_MUTATE, ON_VALIDATE};
use crate::handler::cause::Cause;
use crate::handler::extract::extractors::{ByType, GivenToReviews, OfAStoredObject};
use crate::handler::filter::Filters;
use crate::handler::operation::Operation;
use crate::handler::options::CallbackOptions;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::Callback;
use crate::handler::registry::selectors::IntoSelector;
use crate::handler::review::{UserInfo, Warnings};
use crate::handler::rules::FamilyRules;
use crate::handler::webhook::{AdmissionHandler, AdmissionKind};
use crate::object::path::FieldPath;
use crate::object::selector::Selector;

/// The options of `on_validate` and `on_mutate`.
#[derive(Clone, Default)]
pub struct AdmissionOptions {
    /// The field that the handler is restricted to.
    pub field: Option<FieldPath>,
    /// `labels annotations when value`
    pub filters: Filters,
    /// The operations that it handles; empty for all.
    pub operations: Vec<Operation>,
    /// The subresource that it handles.
    pub subresource: Option<String>,
    /// Its webhook stays configured when the operator exits.
    pub persistent: bool,
    /// It has side effects beyond changing the object.
    pub side_effects: bool,
    /// The API server allows requests that it fails to answer.
    pub ignore_failures: Option<bool>,
    /// The time that the API server waits for a response.
    pub timeout: Option<Duration>,
    /// `on_validate`: also handle updates of objects being deleted.
    pub deleted: bool,
}

// === impl ===

pub(super) fn attribute(kind: AdmissionKind) -> Attribute {
    match kind {
        AdmissionKind::Validate => ON_VALIDATE,
        AdmissionKind::Mutate => ON_MUTATE,
    }
}

/// Builds the handler from these options.
pub(super) fn handler(
    kind: AdmissionKind,
    selector: Selector,
    options: AdmissionOptions,
) -> Result<AdmissionHandler, String> {
    let handler = AdmissionHandler {
        kind,
        selector,
        field: options.field,
        filters: options.filters,
        operations: options.operations,
        subresource: options.subresource,
        persistent: options.persistent,
        side_effects: options.side_effects,
        ignore_failures: options.ignore_failures,
        timeout: options.timeout,
        deleted: options.deleted,
    };
    handler.check()?;
    Ok(handler)
}

impl FamilyRules for AdmissionHandler {
    fn attribute(&self) -> Attribute {
        attribute(self.kind)
    }

    fn id_scope(&self) -> &'static str {
        self.kind.attribute_name()
    }

    fn noun(&self) -> &'static str {
        "Webhook"
    }

    fn may_share_id(&self) -> bool {
        true
    }

    fn selector(&self) -> Option<&Selector> {
        Some(&self.selector)
    }

    fn field(&self) -> Option<&FieldPath> {
        self.field.as_ref()
    }

    fn filters(&self) -> &Filters {
        &self.filters
    }

    fn posts_lines(&self) -> bool {
        false
    }

    fn admission(&self) -> Option<&AdmissionHandler> {
        Some(self)
    }
}

impl From<CallbackOptions> for AdmissionOptions {
    fn from(given: CallbackOptions) -> Self {
        Self {
            field: given.change.field,
            filters: given.change.filters,
            operations: given.operations,
            subresource: given.subresource,
            persistent: given.persistent,
            side_effects: given.side_effects,
            ignore_failures: given.ignore_failures,
            timeout: given.change.retry.timeout,
            deleted: given.change.deleted,
        }
    }
}

impl<T: OfAStoredObject> ByType<T, AdmissionOptions> {
    /// Compiles only if admission handlers have this argument.
    pub fn is_given()
    where
        T: GivenToReviews,
    {
    }
}

impl Registry {
    /// Calls `handler` to allow or deny requests about objects.
    #[must_use]
    pub fn on_validate(self, resources: impl IntoSelector, handler: Callback) -> Self {
        self.with_admission(AdmissionKind::Validate, resources, handler)
    }

    /// Calls `handler` to change objects before they are stored.
    #[must_use]
    pub fn on_mutate(self, resources: impl IntoSelector, handler: Callback) -> Self {
        self.with_admission(AdmissionKind::Mutate, resources, handler)
    }

    fn with_admission(
        self,
        kind: AdmissionKind,
        resources: impl IntoSelector,
        handler: Callback,
    ) -> Self {
        let selector = resources.into_selector();
        self.with(attribute(kind), handler, |options| {
            let made = self::handler(kind, selector?, options.into())?;
            Ok(Box::new(made))
        })
    }
}

impl Cause {
    /// Returns the operation of the request; `None` outside of admission handlers.
    #[must_use]
    pub fn operation(&self) -> Option<Operation> {
        Some(self.review()?.facts.operation)
    }

    /// Returns the subresource of the request, for admission handlers; `None` for the object itself.
    #[must_use]
    pub fn subresource(&self) -> Option<&str> {
        self.review()?.facts.subresource.as_deref()
    }

    /// Returns whether the request is a dry run, for admission handlers, which then must not have side effects.
    #[must_use]
    pub fn dryrun(&self) -> bool {
        self.review().is_some_and(|it| it.facts.dryrun)
    }

    /// Returns the user who sent the request, for admission handlers.
    #[must_use]
    pub fn userinfo(&self) -> UserInfo {
        let told = self.review().map(|it| &it.facts.userinfo);
        let read = told.and_then(|it| UserInfo::deserialize(it).ok());
        read.unwrap_or_default()
    }

    /// Returns the HTTP headers of the API server's call, with names in lower case, for admission handlers.
    #[must_use]
    pub fn headers(&self) -> &Value {
        self.review().map_or(&Value::Null, |it| &it.facts.headers)
    }

    /// Returns the client certificate of the API server, for admission handlers; an empty object if it presented
    /// none.
    #[must_use]
    pub fn sslpeer(&self) -> &Value {
        self.review().map_or(&Value::Null, |it| &it.facts.sslpeer)
    }

    /// Returns the warnings for the sender of the request, for admission handlers. Warnings of other handlers are
    /// discarded.
    #[must_use]
    pub fn warnings(&self) -> Warnings {
        let warnings = self.review().map(|it| it.warnings.clone());
        warnings.unwrap_or_default()
    }
}

impl Callback {
    /// For `on_validate` and `on_mutate`: the operations to handle. Default: all; for `on_mutate` all except
    /// deletions.
    #[must_use]
    pub fn operations(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.options.operations.extend(operations);
        self
    }
    /// For `on_validate` and `on_mutate`: the subresource to handle, such as `status`; `*` for all subresources and
    /// the resource itself. Default: the resource itself.
    #[must_use]
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.options.subresource = Some(subresource.into());
        self
    }
    /// For `on_validate` and `on_mutate`: keeps the webhook configured when the operator exits, so that requests fail
    /// while no operator runs. By default, requests then pass without a check.
    #[must_use]
    pub fn persistent(mut self) -> Self {
        self.options.persistent = true;
        self
    }
    /// For `on_validate` and `on_mutate`: declares side effects beyond changing the object, unless the request is a
    /// dry run. Default: no side effects.
    #[must_use]
    pub fn side_effects(mut self) -> Self {
        self.options.side_effects = true;
        self
    }
    /// For `on_validate` and `on_mutate`: sets whether the API server allows requests that the webhook fails to
    /// answer, because it is unreachable, panics or times out. Default: `false`.
    #[must_use]
    pub fn ignore_failures(mut self, ignore: bool) -> Self {
        self.options.ignore_failures = Some(ignore);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::handler::definition::Handler;
    use crate::handler::registry::callback::handler as callback;

    fn registered(kind: AdmissionKind, callback: Callback) -> Result<Arc<Handler>, String> {
        let registry = Registry::new().with_admission(kind, "myapps", callback);
        registry.check().map_err(|error| error.to_string())?;
        Ok(registry.handlers()[0].clone())
    }

    fn named() -> Callback {
        callback("h", |_| async { Ok(()) })
    }

    #[test]
    fn defaults_are_as_documented() {
        use Operation::{Connect, Create, Delete, Update};
        let validate = registered(AdmissionKind::Validate, named()).unwrap();
        let validate = validate.admission().unwrap();
        assert_eq!(validate.operations(), [Create, Update, Delete, Connect]);
        assert!(!validate.is_for_dying() && !validate.persistent && !validate.side_effects);
        assert_eq!(validate.ignore_failures, None);
        assert!(validate.is_for_subresource(None) && !validate.is_for_subresource(Some("status")));
        let mutate = registered(AdmissionKind::Mutate, named().subresource("*")).unwrap();
        let mutate = mutate.admission().unwrap();
        assert!(mutate.is_for_dying());
        assert_eq!(mutate.operations(), [Create, Update, Connect]);
        assert!(mutate.is_for_subresource(None) && mutate.is_for_subresource(Some("status")));
        let deletions = named().operations([Delete]);
        let mutate = registered(AdmissionKind::Mutate, deletions).unwrap();
        let mutate = mutate.admission().unwrap();
        assert_eq!(mutate.operations(), [Delete]);
    }

    #[test]
    fn what_the_api_server_would_refuse_is_refused() {
        for (callback, expected) in [
            (named().timeout(0.5), "expected 1 to 30 seconds, found 0.5"),
            (named().timeout(31), "expected 1 to 30 seconds, found 31"),
            (named().timeout(1.5), "whole seconds"),
            (named().subresource(""), "`subresource` is empty"),
            (named().value(1), "need a `field`"),
            (
                named().retries(3),
                "`retries` is not an option of on_validate",
            ),
        ] {
            let error = registered(AdmissionKind::Validate, callback).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let error = registered(AdmissionKind::Mutate, named().deleted()).unwrap_err();
        assert!(
            error.contains("it belongs to on_resume and on_validate"),
            "{error}"
        );
    }

    #[test]
    fn handlers_may_share_an_id() {
        let registry = Registry::new()
            .on_validate("myapps", named())
            .on_validate("myapps", named())
            .on_mutate("myapps", named());
        assert!(registry.check().is_ok());
    }
}
