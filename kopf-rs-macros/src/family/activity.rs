//! `on_startup`, `on_cleanup`, `on_probe`.

use crate::family::{COMMON_ARGUMENTS, Family, Kind, RETRY};

static ACTIVITY: Family = Family {
    declaration: "Activity",
    options: "ActivityOptions",
    groups: &[RETRY],
    fields: &[],
    arguments: &[&["settings", "activity"], COMMON_ARGUMENTS],
    has_object: false,
};

pub(crate) const STARTUP: Kind = kind("on_startup", "Startup");
pub(crate) const CLEANUP: Kind = kind("on_cleanup", "Cleanup");
pub(crate) const PROBE: Kind = kind("on_probe", "Probe");

const fn kind(attribute: &'static str, variant: &'static str) -> Kind {
    Kind {
        attribute,
        family: &ACTIVITY,
        variant: Some(("Activity", variant)),
        own: &[],
        required: None,
        is_nested: false,
    }
}
