//! The rules of a handler family. All code asks these rules, so that no code outside of `handler` asks which
//! attribute declared a handler.

use std::any::Any;

use crate::handler::attribute::Attribute;
use crate::handler::filter::{Filters, Former, NO_FILTERS};
use crate::handler::index::erased::IndexType;
use crate::handler::options::{CallbackOptions, NO_RETRY, RetryOptions};
use crate::handler::owned::OwnedKind;
use crate::handler::subject::{Activity, Reason};
use crate::handler::target::TargetKind;
use crate::handler::timing::{BackgroundKind, Timing};
use crate::handler::webhook::AdmissionHandler;
use crate::object::path::FieldPath;
use crate::object::selector::Selector;

/// The rules of a handler family. The defaults fit a handler that does not handle changes.
pub(crate) trait FamilyRules: Any + Send + Sync {
    /// Returns the attribute that declares such a handler.
    fn attribute(&self) -> Attribute;

    /// Returns the scope of its id. Handlers in the same scope need different ids if their resources overlap.
    fn id_scope(&self) -> &'static str;

    /// Returns the noun that log lines use for it.
    fn noun(&self) -> &'static str {
        "Handler"
    }

    /// Returns the resources it handles; `None` for handlers without an object.
    fn selector(&self) -> Option<&Selector> {
        None
    }

    /// Returns the field it is restricted to.
    fn field(&self) -> Option<&FieldPath> {
        None
    }

    /// Returns whether its field is a part of its id.
    fn has_field_in_id(&self) -> bool {
        true
    }

    /// Returns the filters that select its objects.
    fn filters(&self) -> &Filters {
        &NO_FILTERS
    }

    /// Returns whether its field, or the object, has changed from and to the values that it accepts.
    fn accepts_change(&self, _old: Former<'_>, _new: Option<&serde_json::Value>) -> bool {
        true
    }

    /// Returns whether its filters contain user functions.
    fn has_filter_functions(&self) -> bool {
        self.filters().has_functions()
    }

    /// Returns how failed attempts are retried.
    fn retry(&self) -> &RetryOptions {
        &NO_RETRY
    }

    /// Returns whether the progress of its attempts is stored on the object, which requires the permission to patch
    /// it.
    fn persists_progress(&self) -> bool {
        false
    }

    /// Returns whether objects in its scope need a finalizer, so that they stay until it has handled their deletion.
    fn needs_finalizer(&self) -> bool {
        false
    }

    /// Returns whether it handles deletions on a best-effort basis, without a finalizer that blocks them.
    fn is_optional_deletion(&self) -> bool {
        false
    }

    /// Returns whether it runs after all other deletion handlers of the object, and after its background tasks have
    /// stopped.
    fn comes_last(&self) -> bool {
        false
    }

    /// Returns whether it handles cycles with this reason. `initial`: the object was listed and has not been handled
    /// since.
    fn is_for(&self, _reason: Reason, _initial: bool) -> bool {
        false
    }

    /// Returns whether it handles only differences, one change after the other.
    fn reacts_to_differences(&self) -> bool {
        false
    }

    /// Returns whether it runs when the operator starts, rather than for changes.
    fn is_for_resuming(&self) -> bool {
        false
    }

    /// Returns whether it handles changes of objects.
    fn is_for_changes(&self) -> bool {
        false
    }

    /// Returns whether it handles every watch event, regardless of changes.
    fn is_for_events(&self) -> bool {
        false
    }

    /// Returns its kind and timing if it runs in the background.
    fn background(&self) -> Option<(BackgroundKind, &Timing)> {
        None
    }

    /// Returns the kinds of its children; a change of a child triggers a call.
    fn owns(&self) -> &[OwnedKind] {
        &[]
    }

    /// Returns the kinds of children that former versions of it made.
    fn formerly_owns(&self) -> &[Selector] {
        &[]
    }

    /// Returns the kinds of objects that it refers to but does not own.
    fn watches(&self) -> &[TargetKind] {
        &[]
    }

    /// Returns the types of the index that it fills.
    fn index(&self) -> Option<IndexType> {
        None
    }

    /// Returns whether its log lines become Kubernetes Events if the operator posts log lines.
    fn posts_lines(&self) -> bool {
        true
    }

    /// Returns whether several functions may have the same id, even for the same resources.
    fn may_share_id(&self) -> bool {
        false
    }

    /// Returns its admission rules; `None` if it is not an admission handler.
    fn admission(&self) -> Option<&AdmissionHandler> {
        None
    }

    /// Returns the activity it belongs to; `None` for handlers of objects.
    fn activity(&self) -> Option<Activity> {
        None
    }

    /// Builds the rules of a sub-handler of this handler from these options.
    fn subhandler(&self, _options: CallbackOptions) -> Result<Box<dyn FamilyRules>, String> {
        Err(NO_PARENT.to_owned())
    }
}

/// The error of a handler that cannot have sub-handlers.
pub(crate) const NO_PARENT: &str = "sub-handlers need a parent that is called for a change: on_create, on_update, on_delete, on_resume or on_field";
