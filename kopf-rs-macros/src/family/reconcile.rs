//! `reconcile`.

use crate::family::{
    COMMON_ARGUMENTS, FIELD, FILTERS, Family, Form, Kind, OBJECT_ARGUMENTS, RETRY, Returns, Setting,
};

static RECONCILE_FAMILY: Family = Family {
    declaration: "Reconcile",
    options: "ReconcileOptions",
    groups: &[RETRY, FILTERS],
    fields: &[
        FIELD,
        Setting("owns", Form::Kinds),
        Setting("reads", Form::Kinds),
        Setting("formerly_owns", Form::Kinds),
        Setting("watches", Form::Targets),
        Setting("resync", Form::Seconds),
    ],
    arguments: &[OBJECT_ARGUMENTS, &["stopped"], COMMON_ARGUMENTS],
    has_object: true,
    returns: Returns::Again,
};

pub(crate) const RECONCILE: Kind = Kind {
    attribute: "reconcile",
    family: &RECONCILE_FAMILY,
    variant: None,
    own: &[],
    required: None,
    is_nested: false,
};
