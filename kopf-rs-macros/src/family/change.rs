//! `on_create`, `on_update`, `on_delete`, `finalize`, `on_resume`, `on_field`, and `subhandler` within them.

use crate::family::{
    COMMON_ARGUMENTS, FIELD, FILTERS, Family, Form, Kind, OBJECT_ARGUMENTS, RETRY, Returns, Setting,
};

static CHANGE: Family = Family {
    declaration: "Change",
    options: "ChangeOptions",
    groups: &[RETRY, FILTERS],
    fields: &[FIELD],
    arguments: &[
        OBJECT_ARGUMENTS,
        &["reason", "old", "new", "diff"],
        COMMON_ARGUMENTS,
    ],
    has_object: true,
    returns: Returns::Result,
};

const SIDES: &[Setting] = &[
    Setting("old", Form::Criterion),
    Setting("new", Form::Criterion),
];

const OWNS: Setting = Setting("owns", Form::Kinds);
const READS: Setting = Setting("reads", Form::Kinds);
const SIDES_AND_CHILDREN: &[Setting] = &[SIDES[0], SIDES[1], OWNS, READS];

pub(crate) const CREATE: Kind = kind("on_create", "Create", &[OWNS, READS]);
pub(crate) const UPDATE: Kind = kind("on_update", "Update", SIDES_AND_CHILDREN);
pub(crate) const DELETE: Kind = kind("on_delete", "Delete", &[Setting("optional", Form::Flag)]);
pub(crate) const FINALIZE: Kind = kind("finalize", "Finalize", &[]);
pub(crate) const RESUME: Kind = kind(
    "on_resume",
    "Resume",
    &[Setting("deleted", Form::Flag), OWNS, READS],
);
pub(crate) const ON_FIELD: Kind = Kind {
    required: Some((
        "field",
        "#[on_field] needs the field it is for: `field = \"spec.size\"`",
    )),
    ..kind("on_field", "Field", SIDES_AND_CHILDREN)
};

pub(crate) const SUBHANDLER: Kind = Kind {
    attribute: "subhandler",
    family: &CHANGE,
    variant: None,
    own: SIDES,
    required: None,
    is_nested: true,
};

const fn kind(attribute: &'static str, variant: &'static str, own: &'static [Setting]) -> Kind {
    Kind {
        attribute,
        family: &CHANGE,
        variant: Some(("ChangeKind", variant)),
        own,
        required: None,
        is_nested: false,
    }
}
