//! The log lines about the children of an object.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::children::ChildHappening;
use crate::object::child::taken::TakenFields;

pub(super) fn level(child: &ChildHappening) -> Level {
    match child {
        ChildHappening::Created(_)
        | ChildHappening::Changed(_)
        | ChildHappening::TakenBack { .. }
        | ChildHappening::Orphaned(_)
        | ChildHappening::Deleted(_) => Level::INFO,
        ChildHappening::Unchanged(_) => Level::DEBUG,
        ChildHappening::NotDeleted { .. }
        | ChildHappening::Unstable { .. }
        | ChildHappening::Contested { .. } => Level::WARN,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, child: &ChildHappening) -> fmt::Result {
    match child {
        ChildHappening::Created(child) => write!(f, "{child} is created."),
        ChildHappening::Changed(child) => write!(f, "{child} is changed."),
        ChildHappening::Unchanged(child) => write!(f, "{child} is applied and was so already."),
        ChildHappening::TakenBack { child, taken } => {
            let by_scale = taken.iter().any(|it| it.by_scale);
            let taken: Vec<String> = taken.iter().map(ToString::to_string).collect();
            write!(
                f,
                "{child} was changed by others: {} is put right.",
                taken.join(", ")
            )?;
            if by_scale {
                f.write_str(
                    " It was set by the subresource `scale`, as autoscalers do: to leave it to them, do not apply that field.",
                )?;
            }
            Ok(())
        }
        ChildHappening::Contested {
            child,
            times,
            taken: TakenFields {
                manager, fields, ..
            },
        } => write!(
            f,
            "{child} was put right {times} times within minutes, because \"{manager}\" changes {} each time. From now on it is put right ever later, \
             up to five minutes. One of the two should leave that field to the other.",
            fields.join(", ")
        ),
        ChildHappening::Orphaned(child) => write!(f, "{child} is let go: it is no child any more."),
        ChildHappening::Deleted(child) => write!(f, "{child} is deleted."),
        ChildHappening::Unstable {
            child,
            times,
            place,
        } => write!(
            f,
            "{child} is wanted to be different in each of {times} calls in a row, though this object has not changed: the last two differ at \
             `{place}`. From now on it is applied once a minute at most, until two calls want the same."
        ),
        ChildHappening::NotDeleted { child, why } => write!(
            f,
            "{child} is not deleted, because it is no child of this object: it is {why}."
        ),
    }
}
