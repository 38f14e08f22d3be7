//! The log lines about logins: Kopf's wording, plus the reason of a repeated login.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::login::Login;
use crate::object::login::{LoginReason, LoginSetback};

/// The number of repetitions in a row from which on the level is raised.
const MANY: u32 = 5;

pub(super) fn level(login: &Login) -> Level {
    match login {
        Login::Initiated(_) | Login::Finished(_) => Level::INFO,
        Login::Setback {
            setback: LoginSetback::Refused { times, .. } | LoginSetback::ShortLived { times, .. },
            ..
        } if *times >= MANY => Level::ERROR,
        Login::Empty(_) | Login::Setback { .. } | Login::CleanupWithout => Level::WARN,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, login: &Login) -> fmt::Result {
    match login {
        Login::Initiated(why) => {
            write!(f, "{} has been initiated", title(why))?;
            match why {
                LoginReason::First => f.write_str("."),
                LoginReason::Expired(id) => write!(f, ": the credentials of '{id}' have expired."),
                LoginReason::Refused(id) => {
                    write!(f, ": the server has refused the credentials of '{id}'.")
                }
                LoginReason::Distrusted(id) => write!(
                    f,
                    ": the certificate of the server is signed by none of the authorities that '{id}' has given."
                ),
            }
        }
        Login::Finished(why) => write!(f, "{} has finished.", title(why)),
        Login::Empty(why) => write!(
            f,
            "{} has failed: no credentials were retrieved from the login handlers.",
            title(why)
        ),
        Login::Setback { setback, pause } => {
            write_setback(f, setback)?;
            let seconds = pause.as_secs_f64();
            write!(f, "; the next login is in {seconds:.1} seconds")
        }
        Login::CleanupWithout => f.write_str(
            "There are no credentials, and the login handlers give no others: cleanup handlers that fail are not called again.",
        ),
    }
}

fn write_setback(f: &mut Formatter<'_>, setback: &LoginSetback) -> fmt::Result {
    match setback {
        LoginSetback::Refused { id, times } => write!(
            f,
            "The server has refused the credentials of login handler '{id}' {times} times in a row (401), others each time: check whether \
             they are for this cluster (its issuer, audience and user), whether they are valid already, and the clock of this machine"
        ),
        LoginSetback::ShortLived { id, times, lived } => write!(
            f,
            "The credentials of login handler '{id}' have expired {times} times in a row as soon as they were there, the last ones after \
             {:.3} seconds: check their expiration, and the clock of this machine",
            lived.as_secs_f64()
        ),
        LoginSetback::Unusable(reason) => f.write_str(reason),
    }
}

fn title(why: &LoginReason) -> &'static str {
    match why {
        LoginReason::First => "Initial authentication",
        _ => "Re-authentication",
    }
}
