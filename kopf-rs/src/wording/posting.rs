//! The log lines about Kubernetes Events.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::posting::{Posting, WhyLeftOut};

pub(super) fn level(posting: &Posting) -> Level {
    match posting {
        Posting::Vain { .. } => Level::DEBUG,
        Posting::Refused { .. } | Posting::Forbidden { .. } | Posting::LeftOut { .. } => {
            Level::WARN
        }
    }
}

pub(super) fn write(f: &mut Formatter<'_>, posting: &Posting) -> fmt::Result {
    match posting {
        Posting::Refused { error } | Posting::Vain { error } => {
            write!(
                f,
                "Failed to post an Event. Ignoring and continuing: {error}"
            )
        }
        Posting::Forbidden { error, rule } => write!(
            f,
            "Events may not be posted; what handlers do goes on without: {error}\nTo permit it, add {rule}"
        ),
        Posting::LeftOut { events, why } => {
            let (events, were) = match events {
                1 => ("1 Event".to_owned(), "was"),
                many => (format!("{many} Events"), "were"),
            };
            write!(f, "{events} {were} not posted: {}", why_left_out(*why))
        }
    }
}

fn why_left_out(why: WhyLeftOut) -> &'static str {
    match why {
        WhyLeftOut::QueueFull => "more come in than the server takes.",
        WhyLeftOut::TooMany => {
            "about one object, 25 different ones are posted at a time, and one more every five minutes."
        }
        WhyLeftOut::Stop => "the operator ends, and the server has not taken them in time.",
    }
}
