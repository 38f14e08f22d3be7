//! `on_validate`, `on_mutate`.

use crate::family::{
    COMMON_ARGUMENTS, FIELD, FILTERS, Family, Form, Kind, OBJECT_ARGUMENTS, OBJECT_DATA, Returns,
    Setting,
};

const ARGUMENTS: &[&str] = &[
    "operation",
    "subresource",
    "dryrun",
    "userinfo",
    "headers",
    "sslpeer",
    "warnings",
    "old",
    "new",
    "diff",
];

const MUTATING: Family = Family {
    declaration: "Admission",
    options: "AdmissionOptions",
    groups: &[FILTERS],
    fields: &[
        FIELD,
        Setting("operations", Form::Operations),
        Setting("subresource", Form::Text),
        Setting("persistent", Form::Flag),
        Setting("side_effects", Form::Flag),
        Setting("ignore_failures", Form::Choice),
        Setting("timeout", Form::Seconds),
    ],
    arguments: &[OBJECT_ARGUMENTS, ARGUMENTS, COMMON_ARGUMENTS],
    has_object: true,
    returns: Returns::Result,
};

static MUTATING_FAMILY: Family = MUTATING;

/// Validating functions must not change the object, so they have no patch.
static VALIDATING_FAMILY: Family = Family {
    arguments: &[OBJECT_DATA, ARGUMENTS, COMMON_ARGUMENTS],
    ..MUTATING
};

pub(crate) const VALIDATE: Kind = Kind {
    family: &VALIDATING_FAMILY,
    own: &[Setting("deleted", Form::Flag)],
    ..kind("on_validate", "Validate")
};

pub(crate) const MUTATE: Kind = kind("on_mutate", "Mutate");

const fn kind(attribute: &'static str, variant: &'static str) -> Kind {
    Kind {
        attribute,
        family: &MUTATING_FAMILY,
        variant: Some(("AdmissionKind", variant)),
        own: &[],
        required: None,
        is_nested: false,
    }
}
