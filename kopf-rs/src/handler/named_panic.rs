//! Attaches the name of a user function to its panic, for functions that are not handlers.
//!
//! This module does not know where the panic is caught.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::handler::outcome::panic_text;

/// The payload of a panic, with the name of the function that panicked.
#[derive(Debug)]
pub(crate) struct NamedPanic {
    /// Such as `a filter of 'create_fn'`.
    pub(crate) function: String,
    pub(crate) text: Option<String>,
}

/// Runs code that may call such a function, and adds the function's name to a panic.
pub(crate) fn named<T>(function: impl FnOnce() -> String, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        // An inner call may have added a name already.
        if payload.is::<NamedPanic>() {
            resume_unwind(payload);
        }
        let text = panic_text(payload.as_ref()).map(str::to_owned);
        let function = function();
        resume_unwind(Box::new(NamedPanic { function, text }))
    })
}
