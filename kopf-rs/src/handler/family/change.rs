//! Handlers of changes: `on_create`, `on_update`, `on_delete`, `finalize`, `on_resume`, `on_field`, and their sub-handlers.
//!
//! They are called for changes since the object was last handled, and store their progress on the object.

use std::sync::LazyLock;

use serde_json::Value;

use crate::handler::attribute::{
    Attribute, FINALIZE, ON_CREATE, ON_DELETE, ON_FIELD, ON_RESUME, ON_UPDATE,
};
use crate::handler::cause::Cause;
use crate::handler::filter::{Criterion, Filters, Former};
use crate::handler::options::{CallbackOptions, ChangeOptions, RetryOptions};
use crate::handler::owned::{OwnedKind, owned_kinds};
use crate::handler::registry::Registry;
use crate::handler::registry::callback::Callback;
use crate::handler::registry::selectors::IntoSelector;
use crate::handler::rules::FamilyRules;
use crate::handler::subhandlers::GivesSubhandlers;
use crate::handler::subject::{Change, Reason, Subject};
use crate::object::diff::Diff;
use crate::object::path::FieldPath;
use crate::object::selector::Selector;

/// The kind of changes that a handler is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// `#[on_create]`
    Create,
    /// `#[on_update]`
    Update,
    /// `#[on_delete]`
    Delete,
    /// `#[finalize]`
    Finalize,
    /// `#[on_resume]`
    Resume,
    /// `#[on_field]`
    Field,
}

/// A handler of changes.
pub(crate) struct ChangeHandler {
    pub(crate) kind: ChangeKind,
    pub(crate) selector: Selector,
    pub(crate) options: ChangeOptions,
    /// The kinds of its children. A change of such a child triggers a call with the reason of a resume.
    pub(crate) owns: Vec<OwnedKind>,
}

impl GivesSubhandlers for ChangeOptions {}

// === impl ===

impl ChangeKind {
    pub(super) fn attribute(self) -> Attribute {
        match self {
            Self::Create => ON_CREATE,
            Self::Update => ON_UPDATE,
            Self::Delete => ON_DELETE,
            Self::Finalize => FINALIZE,
            Self::Resume => ON_RESUME,
            Self::Field => ON_FIELD,
        }
    }
}

impl ChangeOptions {
    /// Rejects options that are missing or contradict each other.
    fn check(&self, kind: ChangeKind) -> Result<(), &'static str> {
        if self.field.is_none() && kind == ChangeKind::Field {
            return Err("needs a `field`");
        }
        let one_sided = self.old.is_some() || self.new.is_some();
        if self.field.is_none() && one_sided {
            return Err("`value`, `old` and `new` need a `field`");
        }
        if self.filters.value.is_some() && one_sided {
            return Err("`value` excludes `old` and `new`");
        }
        self.filters.check(self.field.as_ref())
    }
}

impl ChangeHandler {
    pub(crate) fn new(
        kind: ChangeKind,
        selector: Selector,
        mut options: ChangeOptions,
    ) -> Result<Self, String> {
        let owns = std::mem::take(&mut options.owns);
        let reads = std::mem::take(&mut options.reads);
        Ok(Self {
            kind,
            selector,
            options,
            owns: owned_kinds(owns, reads)?,
        })
    }
}

impl FamilyRules for ChangeHandler {
    fn attribute(&self) -> Attribute {
        self.kind.attribute()
    }

    fn id_scope(&self) -> &'static str {
        "changes"
    }

    fn selector(&self) -> Option<&Selector> {
        Some(&self.selector)
    }

    fn field(&self) -> Option<&FieldPath> {
        self.options.field.as_ref()
    }

    fn filters(&self) -> &Filters {
        &self.options.filters
    }

    fn accepts_change(&self, old: Former<'_>, new: Option<&Value>) -> bool {
        let ChangeOptions {
            old: was, new: is, ..
        } = &self.options;
        was.as_ref().is_none_or(|it| it.holds_formerly(old))
            && is.as_ref().is_none_or(|it| it.holds(new))
    }

    fn has_filter_functions(&self) -> bool {
        self.options.has_filter_functions()
    }

    fn retry(&self) -> &RetryOptions {
        &self.options.retry
    }

    fn persists_progress(&self) -> bool {
        true
    }

    fn needs_finalizer(&self) -> bool {
        match self.kind {
            ChangeKind::Delete => !self.options.optional,
            kind => kind == ChangeKind::Finalize,
        }
    }

    fn comes_last(&self) -> bool {
        self.kind == ChangeKind::Finalize
    }

    fn is_optional_deletion(&self) -> bool {
        self.kind == ChangeKind::Delete && self.options.optional
    }

    fn is_for(&self, reason: Reason, initial: bool) -> bool {
        match self.kind {
            ChangeKind::Create => reason == Reason::Create,
            ChangeKind::Update => reason == Reason::Update,
            ChangeKind::Delete | ChangeKind::Finalize => reason == Reason::Delete,
            ChangeKind::Resume => {
                initial
                    && reason != Reason::Create
                    && (reason != Reason::Delete || self.options.deleted)
            }
            ChangeKind::Field => true,
        }
    }

    fn reacts_to_differences(&self) -> bool {
        matches!(self.kind, ChangeKind::Update | ChangeKind::Field)
    }

    fn is_for_resuming(&self) -> bool {
        self.kind == ChangeKind::Resume
    }

    fn is_for_changes(&self) -> bool {
        true
    }

    fn owns(&self) -> &[OwnedKind] {
        &self.owns
    }

    /// Sub-handlers are called for the same changes as their parent.
    fn subhandler(&self, options: CallbackOptions) -> Result<Box<dyn FamilyRules>, String> {
        let is_foreign = |option: &&str| ["optional", "deleted", "owns", "reads"].contains(option);
        if let Some(foreign) = options.given().find(is_foreign) {
            return Err(format!("`{foreign}` is not an option of sub-handlers"));
        }
        let options = options.change;
        // Sub-handlers need no field.
        options.check(ChangeKind::Update)?;
        if !self.reacts_to_differences() && (options.old.is_some() || options.new.is_some()) {
            let parent = self.attribute().name;
            return Err(format!(
                "`old` and `new` belong to sub-handlers of on_update and on_field, but its parent is one of {parent}: use `value` or `when` \
                 here, or register it in a parent that is called for updates"
            ));
        }
        let child = Self::new(self.kind, self.selector.clone(), options)?;
        Ok(Box::new(child))
    }
}

/// Defines one method per attribute.
macro_rules! by_hand {
    ($($method:ident $kind:ident $doc:literal)*) => {
        impl Registry {
            $(
                #[doc = $doc]
                #[must_use]
                pub fn $method(self, resources: impl IntoSelector, handler: Callback) -> Self {
                    self.with_change(ChangeKind::$kind, resources, handler)
                }
            )*
        }
    };
}

by_hand! {
    on_create Create "Call `handler` for new objects."
    on_update Update "Call `handler` for changed objects."
    on_delete Delete "Call `handler` for objects being deleted."
    finalize Finalize "Call `handler` for objects being deleted, when all else has ended for them."
    on_resume Resume "Call `handler` for objects found handled when the operator starts."
    on_field Field "Call `handler` for changes of its field, which it must have."
}

impl Registry {
    fn with_change(
        self,
        kind: ChangeKind,
        resources: impl IntoSelector,
        handler: Callback,
    ) -> Self {
        let selector = resources.into_selector();
        self.with(kind.attribute(), handler, |options| {
            let CallbackOptions {
                change,
                owns,
                reads,
                ..
            } = options;
            change.check(kind)?;
            let options = ChangeOptions {
                owns,
                reads,
                ..change
            };
            Ok(Box::new(ChangeHandler::new(kind, selector?, options)?))
        })
    }
}

impl Callback {
    /// The criterion on the former value of the field. Default: any value.
    #[must_use]
    pub fn old(mut self, old: impl Into<Criterion>) -> Self {
        self.options.change.old = Some(old.into());
        self
    }
    /// The criterion on the new value of the field. Default: any value.
    #[must_use]
    pub fn new(mut self, new: impl Into<Criterion>) -> Self {
        self.options.change.new = Some(new.into());
        self
    }
    /// For `on_delete`: adds no finalizer. By default, a finalizer keeps the object until the handler is done.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.options.change.optional = true;
        self
    }
    /// For `on_resume`: also calls the handler for objects being deleted. By default, it is not called for them.
    #[must_use]
    pub fn deleted(mut self) -> Self {
        self.options.change.deleted = true;
        self
    }
}

impl Cause {
    /// Returns the reason of the handling cycle; `None` for `on_event`.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.change()?.reason
    }

    /// Returns the state that was handled last: the essence, or the handler's field. For admission handlers: the
    /// whole object before the operation.
    #[must_use]
    pub fn old(&self) -> Option<&Value> {
        match &self.subject {
            Subject::Review(review) => review.before(),
            _ => self.change()?.old.as_deref(),
        }
    }

    /// Returns the state to handle now: the essence, or the handler's field. For admission handlers: the whole object
    /// after the operation.
    #[must_use]
    #[expect(
        clippy::new_ret_no_self,
        reason = "the argument is called `new`, as in Kopf"
    )]
    pub fn new(&self) -> Option<&Value> {
        match &self.subject {
            Subject::Review(review) => review.after(),
            _ => self.change()?.new.as_deref(),
        }
    }

    /// Returns the differences from `old` to `new`.
    #[must_use]
    pub fn diff(&self) -> &Diff {
        static EMPTY: LazyLock<Diff> = LazyLock::new(Diff::default);
        match &self.subject {
            Subject::Review(review) => review.diff(),
            _ => self.change().map_or(&EMPTY, |change| &change.diff),
        }
    }

    pub(crate) fn change(&self) -> Option<&Change> {
        match &self.subject {
            Subject::Change(subject) => Some(&subject.change),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_checked_side_by_side() {
        let options = ChangeOptions {
            old: Some(Criterion::Equals(json!(1))),
            new: Some(Criterion::Absent),
            ..ChangeOptions::default()
        };
        let selector = Selector::positional(&["myapps"]).unwrap();
        let handler = ChangeHandler::new(ChangeKind::Update, selector, options).unwrap();
        let one = json!(1);
        assert!(handler.accepts_change(Former::Known(Some(&one)), None));
        assert!(!handler.accepts_change(Former::Known(None), None));
        assert!(!handler.accepts_change(Former::Known(Some(&one)), Some(&one)));
        assert!(handler.accepts_change(Former::Unknown, None));
    }
}
