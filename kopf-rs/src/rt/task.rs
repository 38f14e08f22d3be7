//! Starts tasks.
//!
//! This module does not know what a task does.

use futures_util::FutureExt as _;
use tokio::task::JoinHandle;

/// Starts a task, as `tokio::spawn` does. Boxes the future, because programs contain tokio's code for tasks once for each type of future and
/// each kind of runtime.
pub(crate) fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(task.boxed())
}
