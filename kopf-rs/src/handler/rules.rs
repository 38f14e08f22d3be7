//! How handlers of a family are treated: asked wherever it matters, so that nothing outside of `handler` asks which attribute declared one.

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

/// How handlers of a family are treated. The defaults are those of a handler that has nothing to do with changes.
pub(crate) trait FamilyRules: Any + Send + Sync {
    /// The attribute that declares such a handler.
    fn attribute(&self) -> Attribute;

    /// The ids of handlers with the same scope must differ where their resources overlap.
    fn id_scope(&self) -> &'static str;

    /// What log lines call it.
    fn noun(&self) -> &'static str {
        "Handler"
    }

    /// The resources it is for; `None` where it is for no object.
    fn selector(&self) -> Option<&Selector> {
        None
    }

    /// The field it is for.
    fn field(&self) -> Option<&FieldPath> {
        None
    }

    /// Whether its field is a part of its id.
    fn has_field_in_id(&self) -> bool {
        true
    }

    /// Which objects it is for.
    fn filters(&self) -> &Filters {
        &NO_FILTERS
    }

    /// Whether its field, or the object, has changed from and to what it is for.
    fn accepts_change(&self, _old: Former<'_>, _new: Option<&serde_json::Value>) -> bool {
        true
    }

    /// Whether functions of users are among its filters.
    fn has_filter_functions(&self) -> bool {
        self.filters().has_functions()
    }

    /// How failed attempts are repeated.
    fn retry(&self) -> &RetryOptions {
        &NO_RETRY
    }

    /// Whether the progress of its attempts is kept on the object, which must be patchable for it.
    fn persists_progress(&self) -> bool {
        false
    }

    /// Whether an object in its scope must not vanish before it has seen the deletion.
    fn needs_finalizer(&self) -> bool {
        false
    }

    /// Whether it sees a deletion as well as it can, without holding it up.
    fn is_optional_deletion(&self) -> bool {
        false
    }

    /// Whether it is called after all others that are for the deletion of an object, and after all that runs in the background for it.
    fn comes_last(&self) -> bool {
        false
    }

    /// Whether a cycle with this reason is one it is for. `initial`: the object was listed and not handled since.
    fn is_for(&self, _reason: Reason, _initial: bool) -> bool {
        false
    }

    /// Whether it is called for differences only, one change after the other.
    fn reacts_to_differences(&self) -> bool {
        false
    }

    /// Whether it is called when the operator starts, and not for changes.
    fn is_for_resuming(&self) -> bool {
        false
    }

    /// Whether it is called for changes of objects.
    fn is_for_changes(&self) -> bool {
        false
    }

    /// Whether it is called for every watch event, whatever has changed.
    fn is_for_events(&self) -> bool {
        false
    }

    /// Whether it runs in the background, and when it is called there.
    fn background(&self) -> Option<(BackgroundKind, &Timing)> {
        None
    }

    /// The kinds of the children that it makes: it is called when one of them changes.
    fn owns(&self) -> &[OwnedKind] {
        &[]
    }

    /// The kinds of children that it made in former versions.
    fn formerly_owns(&self) -> &[Selector] {
        &[]
    }

    /// The kinds of objects that it refers to, and does not own.
    fn watches(&self) -> &[TargetKind] {
        &[]
    }

    /// The types of the index that it feeds.
    fn index(&self) -> Option<IndexType> {
        None
    }

    /// Whether its log lines become Kubernetes Events where lines are posted.
    fn posts_lines(&self) -> bool {
        true
    }

    /// Whether several functions may have one id, even for the same resources.
    fn may_share_id(&self) -> bool {
        false
    }

    /// The admission handler that it is, if it is one.
    fn admission(&self) -> Option<&AdmissionHandler> {
        None
    }

    /// The activity it is part of; `None` for handlers of objects.
    fn activity(&self) -> Option<Activity> {
        None
    }

    /// The rules of a handler within this one, with these options.
    fn subhandler(&self, _options: CallbackOptions) -> Result<Box<dyn FamilyRules>, String> {
        Err(NO_PARENT.to_owned())
    }
}

/// Why a handler has no sub-handlers.
pub(crate) const NO_PARENT: &str = "sub-handlers need a parent that is called for a change: on_create, on_update, on_delete, on_resume or on_field";
