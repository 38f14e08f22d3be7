//! The log lines about logins: Kopf's words, and why there is another one.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::login::{Login, WhyLogin};

pub(super) fn level(login: &Login) -> Level {
    match login {
        Login::Initiated(_) | Login::Finished(_) => Level::INFO,
        Login::Empty(_) => Level::WARN,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, login: &Login) -> fmt::Result {
    match login {
        Login::Initiated(why) => {
            write!(f, "{} has been initiated", title(why))?;
            match why {
                WhyLogin::First => f.write_str("."),
                WhyLogin::Expired(id) => write!(f, ": the credentials of '{id}' have expired."),
                WhyLogin::Refused(id) => {
                    write!(f, ": the server has refused the credentials of '{id}'.")
                }
            }
        }
        Login::Finished(why) => write!(f, "{} has finished.", title(why)),
        Login::Empty(why) => write!(
            f,
            "{} has failed: no credentials were retrieved from the login handlers.",
            title(why)
        ),
    }
}

fn title(why: &WhyLogin) -> &'static str {
    match why {
        WhyLogin::First => "Initial authentication",
        WhyLogin::Expired(_) | WhyLogin::Refused(_) => "Re-authentication",
    }
}
