//! The name of this operator among its peers, in Kopf's form.
//!
//! Must not know how the name is used.

use std::time::Duration;

use jiff::Timestamp;

use crate::operator::settings::host_name;
use crate::rt::rng::Rng;

/// The environment variable with the identity; usually a Pod's name by the downward API.
const VARIABLE: &str = "POD_ID";

/// Returns `$POD_ID`, or else `user@host/start time/three characters`.
pub(super) fn identity(started: Timestamp, rng: &Rng) -> String {
    from_environment().unwrap_or_else(|| {
        let time = started.strftime("%Y%m%d%H%M%S");
        let tail: String = (0..3).map(|_| character(rng)).collect();
        format!("{}/{time}/{tail}", user_at_host())
    })
}

/// Returns the recognisable name of a user who runs a command: `$POD_ID`, or else `user@host`.
#[cfg(feature = "cli")]
pub(crate) fn person() -> String {
    from_environment().unwrap_or_else(user_at_host)
}

fn from_environment() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|it| !it.is_empty())
}

fn user_at_host() -> String {
    let user = ["LOGNAME", "USER", "LNAME", "USERNAME"]
        .iter()
        .find_map(|it| std::env::var(it).ok().filter(|it| !it.is_empty()));
    let user = user.unwrap_or_else(|| "operator".to_owned());
    let host = host_name().unwrap_or_else(|| "localhost".to_owned());
    let host = host.trim_end_matches(".localdomain").trim_end_matches(".local");
    format!("{user}@{host}")
}

/// Returns a random letter or digit.
pub(super) fn character(rng: &Rng) -> char {
    const CHARACTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let at = rng.jitter(Duration::from_secs(36)).as_secs();
    let found = usize::try_from(at).ok().and_then(|at| CHARACTERS.get(at));
    char::from(*found.unwrap_or(&b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_name_user_host_and_time_and_are_distinct() {
        let started: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let rng = Rng::seeded(1);
        let identities = [(); 3].map(|()| identity(started, &rng));
        for it in &identities {
            let parts: Vec<&str> = it.split('/').collect();
            assert!(parts[0].contains('@'), "{it}");
            assert_eq!((parts[1], parts[2].len()), ("20260102030405", 3), "{it}");
        }
        assert_ne!(identities[0], identities[1]);
    }
}
