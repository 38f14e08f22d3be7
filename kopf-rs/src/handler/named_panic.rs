//! Panics of functions of users that are no handlers, named on their way up.
//!
//! Must not know who catches them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::handler::outcome::panic_text;

/// What a function has panicked with, and which one it was.
#[derive(Debug)]
pub(crate) struct NamedPanic {
    /// Such as `a filter of 'create_fn'`.
    pub(crate) function: String,
    pub(crate) text: Option<String>,
}

/// Run what may call such a function; a panic goes on with its name.
pub(crate) fn named<T>(function: impl FnOnce() -> String, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        // One that has a name already keeps it.
        if payload.is::<NamedPanic>() {
            resume_unwind(payload);
        }
        let text = panic_text(payload.as_ref()).map(str::to_owned);
        let function = function();
        resume_unwind(Box::new(NamedPanic { function, text }))
    })
}
