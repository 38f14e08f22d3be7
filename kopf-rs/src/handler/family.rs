//! Families of handlers. Handlers of one family have the same options, are called with the same subject, and are treated by the same rules.
//!
//! Each family is a module: its attributes, its options, its subject, its rules, and the methods of [`Registry`](crate::Registry) and
//! [`Cause`](crate::Cause) that only it has. Here they meet: this file has one arm per family and enum. "What a new attribute touches" in
//! `ARCHITECTURE.md` lists the rest. Must not know how handlers are run.

use crate::handler::cause::{Reason, SubjectObject};
use crate::handler::family::activity::{Activity, ActivityHandler, ActivityOptions};
use crate::handler::family::change::{ChangeHandler, ChangeKind, ChangeOptions, ChangeSubject};
use crate::handler::family::event::{EventHandler, EventOptions, EventSubject};
use crate::handler::filter::{Filters, Former, NO_FILTERS};
use crate::handler::options::{CallbackOptions, NO_RETRY, RetryOptions};
use crate::object::path::FieldPath;
use crate::object::selector::{Selector, SelectorError};

pub(crate) mod activity;
pub(crate) mod change;
pub(crate) mod event;

/// Which family a handler belongs to, with all that only this family has.
pub(crate) enum Family {
    Change(ChangeHandler),
    Event(EventHandler),
    Activity(ActivityHandler),
}

/// What an annotated function declares: the family, and functions that make its selector and its options.
#[derive(Clone, Copy)]
pub enum Declaration {
    /// `#[on_create]`, `#[on_update]`, `#[on_delete]`, `#[on_resume]`, `#[on_field]`
    Change(ChangeKind, MakeSelector, fn() -> ChangeOptions),
    /// `#[on_event]`
    Event(MakeSelector, fn() -> EventOptions),
    /// `#[on_startup]`, `#[on_cleanup]`
    Activity(Activity, fn() -> ActivityOptions),
}

/// Which resources an annotated function is for.
pub(crate) type MakeSelector = fn() -> Result<Selector, SelectorError>;

/// What a handler is called for.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Change(ChangeSubject),
    Event(EventSubject),
    Activity(Activity),
}

/// The attributes of all families.
const ATTRIBUTES: [&[Attribute]; 3] = [
    &change::ATTRIBUTES,
    &event::ATTRIBUTES,
    &activity::ATTRIBUTES,
];

/// An attribute, and what a closure in its place may be told: the methods of [`Callback`](crate::Callback).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attribute {
    pub(crate) name: &'static str,
    pub(crate) options: &'static [&'static [&'static str]],
}

/// How handlers of a family are treated. The defaults are those of a handler that has nothing to do with changes.
pub(crate) trait FamilyRules {
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

    /// Which objects it is for.
    fn filters(&self) -> &Filters {
        &NO_FILTERS
    }

    /// Whether its field, or the object, has changed from and to what it is for.
    fn accepts_change(&self, _old: Former<'_>, _new: Option<&serde_json::Value>) -> bool {
        true
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
}

// === impl ===

impl Family {
    /// How the handler is treated.
    pub(crate) fn rules(&self) -> &dyn FamilyRules {
        match self {
            Self::Change(handler) => handler,
            Self::Event(handler) => handler,
            Self::Activity(handler) => handler,
        }
    }
}

impl Declaration {
    /// The attribute, and the family with selector and options made.
    pub(crate) fn resolved(self) -> (Attribute, Result<Family, SelectorError>) {
        match self {
            Self::Change(kind, selector, options) => {
                let family =
                    selector().map(|selector| ChangeHandler::new(kind, selector, options()));
                (kind.attribute(), family.map(Family::Change))
            }
            Self::Event(selector, options) => {
                let family = selector().map(|selector| EventHandler::new(selector, options()));
                (event::ON_EVENT, family.map(Family::Event))
            }
            Self::Activity(activity, options) => {
                let family = ActivityHandler::new(activity, options());
                (activity.attribute(), Ok(Family::Activity(family)))
            }
        }
    }
}

impl Subject {
    /// The object, where there is one.
    pub(crate) fn object(&self) -> Option<&SubjectObject> {
        match self {
            Self::Change(subject) => Some(&subject.object),
            Self::Event(subject) => Some(&subject.object),
            Self::Activity(_) => None,
        }
    }
}

impl Attribute {
    /// What is wrong with the options of a closure that is registered in place of an annotated function.
    pub(crate) fn misuse(self, options: &CallbackOptions) -> Option<String> {
        let foreign = options.given().find(|option| !self.has(option))?;
        let name = self.name;
        Some(format!(
            "`{foreign}` is no option of {name}: it belongs to {}",
            owners(foreign)
        ))
    }

    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|group| group.contains(&option))
    }
}

/// The attributes that have the option: `on_update and on_field`.
fn owners(option: &str) -> String {
    let all = ATTRIBUTES.concat();
    let owners = all.iter().filter(|attribute| attribute.has(option));
    let owners: Vec<_> = owners.map(|attribute| attribute.name).collect();
    match owners.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => "none".to_owned(),
    }
}
