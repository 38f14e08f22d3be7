//! The parameter `timeout`: the time that a client waits for an answer.
//!
//! Guarantees Go's messages for invalid durations. Must not depend on the request's purpose.

use super::{Call, Verb};
use crate::schema::go::duration;
use crate::status::Refusal;

/// Subresources whose requests have no time limit.
const LASTING: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

/// A timeout of at most this many nanoseconds has expired before any answer.
const TOO_SHORT: i64 = 1_000;

/// Refuses an invalid or expired timeout; long-running requests are exempt.
pub(crate) fn check(call: &Call) -> Result<(), Refusal> {
    let text = call.param("timeout");
    if text.is_empty() || lasts(call) {
        return Ok(());
    }
    match duration::nanos(text) {
        Ok(1..=TOO_SHORT) => Err(Refusal::out_of_time()),
        Ok(_) => Ok(()),
        Err(why) => {
            let text = duration::quoted(text);
            Err(Refusal::bad_request(format!(
                "invalid timeout specified in the request URL - time: {why} {text}"
            )))
        }
    }
}

fn lasts(call: &Call) -> bool {
    let subresource = call
        .path
        .as_ref()
        .and_then(|path| path.subresource.as_deref());
    call.verb == Verb::Watch || subresource.is_some_and(|word| LASTING.contains(&word))
}
