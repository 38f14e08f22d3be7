//! `on_startup`, `on_cleanup`, `on_login`, `on_probe`.

use crate::family::{CLIENTLESS_ARGUMENTS, COMMON_ARGUMENTS, Family, Kind, RETRY, Returns};

const ACTIVITY: Family = Family {
    declaration: "Activity",
    options: "ActivityOptions",
    groups: &[RETRY],
    fields: &[],
    arguments: &[&["settings", "activity"], COMMON_ARGUMENTS],
    has_object: false,
    returns: Returns::Result,
};

static ACTIVITY_FAMILY: Family = ACTIVITY;

/// There is no client yet, since these functions provide its credentials.
static LOGIN_ACTIVITY: Family = Family {
    arguments: &[&["settings", "activity"], CLIENTLESS_ARGUMENTS],
    ..ACTIVITY
};

pub(crate) const STARTUP: Kind = kind("on_startup", "Startup");
pub(crate) const CLEANUP: Kind = kind("on_cleanup", "Cleanup");
pub(crate) const PROBE: Kind = kind("on_probe", "Probe");
pub(crate) const LOGIN: Kind = Kind {
    family: &LOGIN_ACTIVITY,
    ..kind("on_login", "Login")
};

const fn kind(attribute: &'static str, variant: &'static str) -> Kind {
    Kind {
        attribute,
        family: &ACTIVITY_FAMILY,
        variant: Some(("Activity", variant)),
        own: &[],
        required: None,
        is_nested: false,
    }
}
