//! `index`.

use crate::family::{COMMON_ARGUMENTS, FIELD, FILTERS, Family, Kind, OBJECT_DATA, RETRY, Returns};

static INDICES: Family = Family {
    declaration: "Index",
    options: "IndexOptions",
    groups: &[RETRY, FILTERS],
    fields: &[FIELD],
    arguments: &[OBJECT_DATA, COMMON_ARGUMENTS],
    has_object: true,
    returns: Returns::Entries,
};

pub(crate) const INDEX: Kind = Kind {
    attribute: "index",
    family: &INDICES,
    variant: None,
    own: &[],
    required: None,
    is_nested: false,
};
