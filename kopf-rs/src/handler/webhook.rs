//! Admission handlers as their webhook configurations describe them: the objects, operations and subresource of each,
//! and the policy for requests that it fails to answer.
//!
//! This module depends on neither requests nor the format of the configurations.

use std::time::Duration;

use kopf_rs_schedule::HandlerKind;

use crate::handler::operation::Operation;

/// The kind of an admission handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum AdmissionKind {
    /// `#[on_validate]`
    Validate,
    /// `#[on_mutate]`
    Mutate,
}

/// The configuration of an admission handler's webhook. Other handlers have an empty one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Webhook {
    /// The operations that the handler handles.
    pub(crate) operations: Vec<Operation>,
    /// `None`: the main resource. `*`: the main resource and all its subresources.
    pub(crate) subresource: Option<String>,
    /// True if its webhook stays configured when the operator exits.
    pub(crate) persistent: bool,
    /// True if it has side effects beyond changing the object, unless the request is a dry run.
    pub(crate) side_effects: bool,
    /// True if the API server allows requests that the webhook fails to answer.
    pub(crate) ignore_failures: Option<bool>,
    /// The time that the API server waits for a response.
    pub(crate) timeout: Duration,
    /// True if it handles updates of objects being deleted.
    pub(crate) is_for_dying: bool,
}

/// The default timeout. The API server's own default is 10 seconds, and Kopf's is 30. Mutating webhooks run one after
/// the other within the time of the user's request, so the default is shorter here.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The API server accepts only whole seconds, up to this limit.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

// === impl ===

impl AdmissionKind {
    pub(crate) fn of(kind: HandlerKind) -> Option<Self> {
        match kind {
            HandlerKind::OnValidate => Some(Self::Validate),
            HandlerKind::OnMutate => Some(Self::Mutate),
            _ => None,
        }
    }

    /// Returns the operations that handlers without `operations` handle. A deletion cannot change the object, so
    /// mutating handlers handle deletions only if they declare it.
    fn operations(self) -> Vec<Operation> {
        use Operation::{Connect, Create, Delete, Update};
        match self {
            Self::Validate => vec![Create, Update, Delete, Connect],
            Self::Mutate => vec![Create, Update, Connect],
        }
    }
}

impl Webhook {
    /// Adds the defaults of an admission handler's kind.
    ///
    /// # Errors
    /// Returns an error for values that the API server would reject.
    pub(crate) fn resolve(
        &mut self,
        kind: AdmissionKind,
        timeout: Option<Duration>,
        deleted: bool,
    ) -> Result<(), String> {
        if self.operations.is_empty() {
            self.operations = kind.operations();
        }
        self.timeout = timeout.unwrap_or(TIMEOUT);
        // By default, validating handlers do not, since they could prevent the removal of finalizers. Mutating
        // handlers do, since they may have to change objects until the end.
        self.is_for_dying = deleted || kind == AdmissionKind::Mutate;
        self.check()
    }

    /// Returns whether it handles this subresource; `None` is the main resource.
    pub(crate) fn is_for_subresource(&self, subresource: Option<&str>) -> bool {
        let declared = self.subresource.as_deref();
        declared == Some("*") || declared == subresource
    }

    fn check(&self) -> Result<(), String> {
        let seconds = self.timeout.as_secs_f64();
        if self.timeout < Duration::from_secs(1) || self.timeout > LONGEST_TIMEOUT {
            return Err(format!(
                "`timeout` is how long the API server waits for the answer: expected 1 to 30 seconds, found {seconds}"
            ));
        }
        if self.timeout.subsec_nanos() != 0 {
            return Err(format!(
                "the API server waits for whole seconds: expected a `timeout` such as 5, found {seconds}"
            ));
        }
        if self.subresource.as_deref() == Some("") {
            return Err("`subresource` is empty: leave it out for the main resource".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::handler::definition::Handler;
    use crate::handler::options::Callback;
    use crate::handler::registry::Registry;
    use crate::handler::registry::callback::handler as callback;

    fn registered(kind: AdmissionKind, callback: Callback) -> Result<Arc<Handler>, String> {
        let registry = match kind {
            AdmissionKind::Validate => Registry::new().on_validate("myapps", callback),
            AdmissionKind::Mutate => Registry::new().on_mutate("myapps", callback),
        };
        registry.check().map_err(|error| error.to_string())?;
        Ok(registry.handlers()[0].clone())
    }

    fn named() -> Callback {
        callback("h", |_| async { Ok(()) })
    }

    #[test]
    fn defaults_are_as_documented() {
        use Operation::{Connect, Create, Delete, Update};
        let webhook = |kind, callback| registered(kind, callback).unwrap().webhook.clone();
        let validate = webhook(AdmissionKind::Validate, named());
        assert_eq!(validate.operations, [Create, Update, Delete, Connect]);
        assert!(!validate.is_for_dying && !validate.persistent && !validate.side_effects);
        assert_eq!(validate.ignore_failures, None);
        assert!(validate.is_for_subresource(None) && !validate.is_for_subresource(Some("status")));
        let mutate = webhook(AdmissionKind::Mutate, named().subresource("*"));
        assert!(mutate.is_for_dying);
        assert_eq!(mutate.operations, [Create, Update, Connect]);
        assert!(mutate.is_for_subresource(None) && mutate.is_for_subresource(Some("status")));
        let mutate = webhook(AdmissionKind::Mutate, named().operations([Delete]));
        assert_eq!(mutate.operations, [Delete]);
    }

    #[test]
    fn values_that_the_api_server_would_refuse_are_refused() {
        for (callback, expected) in [
            (named().timeout(0.5), "expected 1 to 30 seconds, found 0.5"),
            (named().timeout(31), "expected 1 to 30 seconds, found 31"),
            (named().timeout(1.5), "whole seconds"),
            (named().subresource(""), "`subresource` is empty"),
            (named().value(1), "need a `field`"),
            (named().retries(3), "`retries` is not an option of on_validate"),
        ] {
            let error = registered(AdmissionKind::Validate, callback).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let error = registered(AdmissionKind::Mutate, named().deleted()).unwrap_err();
        assert!(error.contains("it belongs to on_resume and on_validate"), "{error}");
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
