//! The log lines about validation rules.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::rules::RuleServing;

pub(super) fn level(happening: &RuleServing) -> Level {
    match happening {
        RuleServing::Written { .. } | RuleServing::Deleted { .. } => Level::INFO,
        RuleServing::Taken { .. } | RuleServing::Missing { .. } | RuleServing::Failed { .. } => {
            Level::WARN
        }
    }
}

pub(super) fn write(f: &mut Formatter<'_>, happening: &RuleServing) -> fmt::Result {
    match happening {
        RuleServing::Written { policy, is_new } => {
            let word = if *is_new { "created" } else { "changed" };
            write!(f, "{policy} is {word}.")
        }
        RuleServing::Deleted { policy } => {
            write!(f, "{policy} is deleted: its rule is no more.")
        }
        RuleServing::Taken { rule, policy } => write!(
            f,
            "The validation rule `{rule}` is not enforced: {policy} is there already, and was not made by this operator. Give the rule \
             another `id`, or delete that one."
        ),
        RuleServing::Missing { rule, definition } => write!(
            f,
            "The validation rule `{rule}` is not enforced: the definition {definition} lacks it. Register it by `register_crd`, or apply \
             what `--manifests` prints."
        ),
        RuleServing::Failed { error, pause } => {
            let seconds = pause.as_secs_f64();
            write!(
                f,
                "The policies of validation rules cannot be written; will retry in {seconds:.1} seconds: {error}"
            )
        }
    }
}
