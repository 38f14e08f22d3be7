//! The parameter `timeout`: how long a client would wait for an answer.
//!
//! Promise: what is no duration is told in Go's words. Must not know what the request is for.

use super::{Call, Verb};
use crate::schema::go::duration;
use crate::status::Refusal;

/// Subresources whose answers take as long as they take.
const LASTING: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

/// In so many nanoseconds no server answers.
const TOO_SHORT: i64 = 1_000;

/// Refuse a time that is none, or over already; of what goes on for as long as the client wants, it is not asked.
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
