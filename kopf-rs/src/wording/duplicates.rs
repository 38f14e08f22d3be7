//! The log lines about other operators of the same name.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::duplicates::{DuplicateOperator, Severity};

const REMEDY: &str = "give each operator a name of its own (`--name`, or `Operator::name`; in Kopf's mode a prefix and a finalizer of its own)";

pub(super) fn level(duplicate: &DuplicateOperator) -> Level {
    match duplicate.severity {
        Severity::Possible => Level::INFO,
        Severity::Lasting(_) | Severity::Certain => Level::WARN,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, duplicate: &DuplicateOperator) -> fmt::Result {
    let DuplicateOperator {
        found,
        prefix,
        resource: kind,
        object,
        ..
    } = duplicate;
    match duplicate.severity {
        Severity::Certain => write!(
            f,
            "Another operator keeps its state under this one's name, {prefix}, on {kind}: this operator has not written {found} of {object}, \
             and keeps only records of {}. Two operators with one name take each other's objects for handled: {REMEDY}. This line is expected \
             while this operator replaces another version of itself.",
            duplicate.handlers.join(", ")
        ),
        Severity::Lasting(lasted) => write!(
            f,
            "Another instance of this operator has been working on {kind} for {} seconds: it has written {found} of {object}. \
             Each instance calls its handlers: run only one, or {REMEDY}.",
            lasted.as_secs()
        ),
        Severity::Possible => write!(
            f,
            "Another instance of this operator may be working on {kind}: this one has not written {found} of {object}. That is \
             expected while one instance replaces another."
        ),
    }
}
