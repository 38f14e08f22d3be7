//! The texts of `kopf-rs dev`.

use std::time::Duration;

use crate::dev::machine::{News, Phase};

/// Returns the text of the status line; `what` names the built folders and files.
pub(crate) fn status(what: &str, phase: Phase, lasts: Duration) -> String {
    let phase = match phase {
        Phase::Building => "building",
        Phase::Rebuilding => "building, while the operator runs",
        Phase::Running => "running",
        Phase::Outdated => "build failed; the operator of the last build runs",
        Phase::Restarting => "restarting",
        Phase::Refused => "build failed; waiting for a change",
        Phase::Ended => "the operator ended; waiting for a change",
        Phase::Leaving => "stopping",
    };
    format!("kopf-rs dev {what}: {phase} ({})", time(lasts))
}

/// Returns the sentence for the user.
pub(crate) fn sentence(news: News) -> String {
    match news {
        News::Keeps => "The build failed: its messages are above. The operator of the last successful build keeps running until a change \
                        compiles."
            .to_owned(),
        News::Waits => "The build failed: its messages are above. No operator runs until a change compiles.".to_owned(),
        News::Unchanged => "The program is the same as before, so the operator keeps running.".to_owned(),
        News::Ended(Some(code)) => {
            format!("The operator ended by itself with exit code {code}. It starts again at the next change.")
        }
        News::Ended(None) => {
            "The operator was ended by a signal. It starts again at the next change.".to_owned()
        }
        News::ServerEnded => "The API server ended by itself, and without it the operator cannot work. To begin again with new objects, start \
                              kopf-rs dev again; --data-dir DIR keeps the objects."
            .to_owned(),
    }
}

/// Returns the sentence about an operator that has not stopped in time.
pub(crate) fn overdue(patience: Duration) -> String {
    format!("The operator has not stopped within {} seconds, and is killed.", patience.as_secs())
}

fn time(lasts: Duration) -> String {
    match lasts.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_has_the_state_and_its_time() {
        let running = |seconds| status("op.rs", Phase::Running, Duration::from_secs(seconds));
        assert_eq!(running(59), "kopf-rs dev op.rs: running (59 s)");
        assert_eq!(running(61), "kopf-rs dev op.rs: running (1 min 1 s)");
        assert_eq!(running(7320), "kopf-rs dev op.rs: running (2 h 2 min)");
    }
}
