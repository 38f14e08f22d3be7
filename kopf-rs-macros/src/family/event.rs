//! `on_event`.

use crate::family::{COMMON_ARGUMENTS, FIELD, FILTERS, Family, Kind, OBJECT_ARGUMENTS, Returns};

static EVENT: Family = Family {
    declaration: "Event",
    options: "EventOptions",
    groups: &[FILTERS],
    fields: &[FIELD],
    arguments: &[OBJECT_ARGUMENTS, &["event_type", "event"], COMMON_ARGUMENTS],
    has_object: true,
    returns: Returns::Result,
};

pub(crate) const ON_EVENT: Kind = Kind {
    attribute: "on_event",
    family: &EVENT,
    variant: None,
    own: &[],
    required: None,
    is_nested: false,
};
