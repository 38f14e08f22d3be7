//! Handlers of raw watch events: `on_event`. They are called once for each state of an object, changed or not, and
//! keep no progress.

use serde_json::{Value, json};

use crate::handler::attribute::{Attribute, ON_EVENT};
use crate::handler::cause::Cause;
use crate::handler::filter::Filters;
use crate::handler::options::{CallbackOptions, ChangeOptions};
use crate::handler::registry::Registry;
use crate::handler::registry::callback::Callback;
use crate::handler::registry::selectors::IntoSelector;
use crate::handler::rules::FamilyRules;
use crate::handler::subject::Subject;
use crate::object::event::EventType;
use crate::object::path::FieldPath;
use crate::object::selector::Selector;

/// The options of `on_event`.
#[derive(Clone, Default)]
pub struct EventOptions {
    /// The field that the handler is restricted to.
    pub field: Option<FieldPath>,
    /// `labels annotations when value`
    pub filters: Filters,
}

/// A handler of raw watch events.
pub(crate) struct EventHandler {
    selector: Selector,
    options: EventOptions,
}

impl EventHandler {
    pub(super) fn new(selector: Selector, options: EventOptions) -> Self {
        Self { selector, options }
    }
}

impl FamilyRules for EventHandler {
    fn attribute(&self) -> Attribute {
        ON_EVENT
    }

    fn id_scope(&self) -> &'static str {
        "events"
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

    fn is_for_events(&self) -> bool {
        true
    }

    fn posts_lines(&self) -> bool {
        false
    }
}

impl TryFrom<CallbackOptions> for EventOptions {
    type Error = &'static str;

    fn try_from(given: CallbackOptions) -> Result<Self, Self::Error> {
        let ChangeOptions { field, filters, .. } = given.change;
        filters.check(field.as_ref())?;
        Ok(Self { field, filters })
    }
}

impl Registry {
    /// Calls `handler` for every watch event.
    #[must_use]
    pub fn on_event(self, resources: impl IntoSelector, handler: Callback) -> Self {
        let selector = resources.into_selector();
        self.with(ON_EVENT, handler, |options| {
            let handler = EventHandler::new(selector?, options.try_into()?);
            Ok(Box::new(handler))
        })
    }
}

impl Cause {
    /// Returns the type of the watch event, for `on_event`.
    #[must_use]
    pub fn event_type(&self) -> Option<EventType> {
        match &self.subject {
            Subject::Event(subject) => Some(subject.event),
            _ => None,
        }
    }

    /// Returns the watch event in the form that the server sends: `type` and `object`.
    #[must_use]
    pub fn event(&self) -> Value {
        let kind = self.event_type().and_then(EventType::as_str);
        let object: &Value = self.body();
        json!({"type": kind, "object": object})
    }
}
