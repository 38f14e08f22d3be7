//! Captures the log of a test: all lines from the threads of its runtime, in the format of the program's own log.
//!
//! Tests of one process run concurrently, each on its own runtime, so the runtime identifies the test of a line. A
//! test with its own subscriber keeps it. This module does not interpret the lines.

use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::{Handle, Id};

use crate::cli::lines::without_times;
use crate::testing::lines::{Lines, Shared};

/// The captured lines of each runtime.
static TESTS: Mutex<Vec<(Id, Weak<Shared>)>> = Mutex::new(Vec::new());

/// True if our subscriber is installed as the global default.
static INSTALLED: LazyLock<bool> =
    LazyLock::new(|| tracing::subscriber::set_global_default(without_times(keep)).is_ok());

/// Returns the log lines of this runtime. Continues an existing capture, or starts one.
pub(super) fn lines_of_this_test(patience: Duration) -> Lines {
    let is_installed = *INSTALLED;
    let id = Handle::current().id();
    let mut tests = tests();
    if let Some(shared) = of_runtime(&tests, id) {
        return Lines::of(shared, patience);
    }
    let lines = Lines::new(patience);
    tests.retain(|(_, lines)| lines.strong_count() > 0);
    tests.push((id, lines.shared()));
    drop(tests);
    if !is_installed {
        lines.push("(no lines are captured, because this program has its own tracing subscriber)");
    }
    lines
}

fn keep(line: &str) {
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    let lines = of_runtime(&tests(), runtime.id());
    if let Some(lines) = lines {
        lines.push(line.trim_end_matches('\n').to_owned());
    }
}

fn of_runtime(tests: &[(Id, Weak<Shared>)], id: Id) -> Option<Arc<Shared>> {
    let found = tests.iter().find(|(runtime, _)| *runtime == id)?;
    found.1.upgrade()
}

fn tests() -> MutexGuard<'static, Vec<(Id, Weak<Shared>)>> {
    TESTS.lock()
}
