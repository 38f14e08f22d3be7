//! Families of handlers. The handlers of one family have the same options and the same subject, and follow the same
//! rules.
//!
//! Each family has a module with its options, its rules, and its own methods of [`Registry`](crate::Registry) and
//! [`Cause`](crate::Cause). This module turns declarations into handlers of their families. "What a new attribute
//! touches" in `ARCHITECTURE.md` lists the other places to change. This module does not know how handlers run.

use crate::handler::attribute::{Attribute, INDEX, ON_EVENT, RECONCILE};
use crate::handler::family::activity::{ActivityHandler, ActivityOptions};
use crate::handler::family::admission::AdmissionOptions;
use crate::handler::family::background::{BackgroundHandler, BackgroundOptions};
use crate::handler::family::change::{ChangeHandler, ChangeKind};
use crate::handler::family::event::{EventHandler, EventOptions};
use crate::handler::family::index::{IndexHandler, IndexOptions};
use crate::handler::family::reconcile::ReconcileOptions;
use crate::handler::index::erased::IndexType;
use crate::handler::options::ChangeOptions;
use crate::handler::rules::FamilyRules;
use crate::handler::subject::Activity;
use crate::handler::timing::BackgroundKind;
use crate::handler::webhook::AdmissionKind;
use crate::object::selector::{Selector, SelectorError};

pub(crate) mod activity;
pub(crate) mod admission;
pub(crate) mod background;
pub(crate) mod change;
pub(crate) mod event;
pub(crate) mod index;
pub(crate) mod reconcile;

/// The declaration of an annotated function: its family, and functions that build its selector and options.
#[derive(Clone, Copy)]
pub enum Declaration {
    /// `#[on_create]`, `#[on_update]`, `#[on_delete]`, `#[finalize]`, `#[on_resume]`, `#[on_field]`
    Change(ChangeKind, MakeSelector, fn() -> ChangeOptions),
    /// `#[on_event]`
    Event(MakeSelector, fn() -> EventOptions),
    /// `#[daemon]`, `#[timer]`
    Background(BackgroundKind, MakeSelector, fn() -> BackgroundOptions),
    /// `#[reconcile]`
    Reconcile(MakeSelector, fn() -> ReconcileOptions),
    /// `#[on_validate]`, `#[on_mutate]`
    Admission(AdmissionKind, MakeSelector, fn() -> AdmissionOptions),
    /// `#[index]`
    Index(MakeSelector, fn() -> IndexOptions, IndexType),
    /// `#[on_startup]`, `#[on_cleanup]`, `#[on_login]`, `#[on_probe]`
    Activity(Activity, fn() -> ActivityOptions),
}

/// Builds the selector of the resources that an annotated function handles.
pub(crate) type MakeSelector = fn() -> Result<Selector, SelectorError>;

// === impl ===

impl Declaration {
    /// Returns the attribute, and the family's rules with resolved selector and options.
    pub(crate) fn resolved(self) -> (Attribute, Result<Box<dyn FamilyRules>, String>) {
        match self {
            Self::Change(kind, selector, options) => {
                let made = |it| ChangeHandler::new(kind, it, options());
                let handler = named(selector).and_then(made);
                (kind.attribute(), handler.map(boxed))
            }
            Self::Event(selector, options) => {
                let handler = named(selector).map(|it| EventHandler::new(it, options()));
                (ON_EVENT, handler.map(boxed))
            }
            Self::Background(kind, selector, options) => {
                let made = |it| BackgroundHandler::new(kind, it, options());
                let handler = named(selector).and_then(made);
                (background::attribute(kind), handler.map(boxed))
            }
            Self::Reconcile(selector, options) => {
                let made = |it| options().handler(it);
                (RECONCILE, named(selector).and_then(made).map(boxed))
            }
            Self::Admission(kind, selector, options) => {
                let made = |it| admission::handler(kind, it, options());
                let handler = named(selector).and_then(made);
                (admission::attribute(kind), handler.map(boxed))
            }
            Self::Index(selector, options, ty) => {
                let made = |it| IndexHandler::new(it, options(), ty);
                (INDEX, named(selector).and_then(made).map(boxed))
            }
            Self::Activity(activity, options) => {
                let handler = ActivityHandler::new(activity, options());
                (activity::attribute(activity), Ok(boxed(handler)))
            }
        }
    }
}

fn named(selector: MakeSelector) -> Result<Selector, String> {
    selector().map_err(|error| error.to_string())
}

fn boxed(handler: impl FamilyRules + 'static) -> Box<dyn FamilyRules> {
    Box::new(handler)
}
