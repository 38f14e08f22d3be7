//! `daemon`, `timer`.

use crate::family::{
    COMMON_ARGUMENTS, FIELD, FILTERS, Family, Form, Kind, OBJECT_ARGUMENTS, RETRY, Returns, Setting,
};

static BACKGROUND: Family = Family {
    declaration: "Background",
    options: "BackgroundOptions",
    groups: &[RETRY, FILTERS],
    fields: &[FIELD, Setting("initial_delay", Form::Pause)],
    arguments: &[OBJECT_ARGUMENTS, &["stopped"], COMMON_ARGUMENTS],
    has_object: true,
    returns: Returns::Result,
};

const CANCELLATION: &[Setting] = &[
    Setting("cancellation_backoff", Form::Seconds),
    Setting("cancellation_timeout", Form::Seconds),
    Setting("cancellation_polling", Form::Seconds),
];

const SCHEDULE: &[Setting] = &[
    Setting("interval", Form::Pause),
    Setting("sharp", Form::Flag),
    Setting("idle", Form::Seconds),
    Setting("schedule", Form::Schedule),
    Setting("zone", Form::Zone),
];

pub(crate) const DAEMON: Kind = kind("daemon", "Daemon", CANCELLATION);
pub(crate) const TIMER: Kind = kind("timer", "Timer", SCHEDULE);

const fn kind(attribute: &'static str, variant: &'static str, own: &'static [Setting]) -> Kind {
    Kind {
        attribute,
        family: &BACKGROUND,
        variant: Some(("BackgroundKind", variant)),
        own,
        required: None,
        is_nested: false,
    }
}
