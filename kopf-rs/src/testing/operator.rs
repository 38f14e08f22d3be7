//! An operator that runs as a task of a test: stopped as by SIGTERM, or killed as by SIGKILL.
//!
//! Must not know clusters.

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cluster::Client;
use crate::operator::run::{Operator, OperatorError, Report};
use crate::testing::deadline::within;
use crate::testing::lines::Lines;

/// A running operator. Dropping it kills it.
#[derive(Debug)]
#[must_use = "dropping it kills the operator"]
pub struct TestOperator {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<Report, OperatorError>>,
    lines: Lines,
}

impl TestOperator {
    /// Start an operator with a client of its own; [`TestCluster::start`](crate::testing::TestCluster::start) does so with an
    /// administrator's. A failure shows the lines.
    pub fn start(client: Client, operator: Operator, lines: Lines) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let running = async move { operator.run(client, stopped).await };
        Self {
            stop: Some(stop),
            task: tokio::spawn(running),
            lines,
        }
    }

    /// Stop it as SIGTERM does, and wait for its end.
    ///
    /// # Panics
    /// If it could not start, does not end well, or not in time.
    pub async fn stop(mut self) -> Report {
        drop(self.stop.take());
        let ended = self.ended().await;
        ended.unwrap_or_else(|error| panic!("{error}\n{}", self.lines.shown()))
    }

    /// Wait until it ends by itself: since it could not start, or because of [`Operator::once`](crate::Operator::once).
    ///
    /// # Errors
    /// What its run has ended with.
    ///
    /// # Panics
    /// If it does not end in time.
    pub async fn end(mut self) -> Result<Report, OperatorError> {
        self.ended().await
    }

    /// End it as SIGKILL does: nothing is finished, nothing is written.
    pub async fn kill(mut self) {
        self.task.abort();
        // It may have ended by itself before.
        let _ = (&mut self.task).await;
    }

    async fn ended(&mut self) -> Result<Report, OperatorError> {
        let Some(ended) = within(self.lines.patience(), &mut self.task).await else {
            panic!("the operator still runs\n{}", self.lines.shown());
        };
        match ended {
            Ok(ended) => ended,
            Err(error) => panic!("the operator has panicked: {error}\n{}", self.lines.shown()),
        }
    }
}

impl Drop for TestOperator {
    fn drop(&mut self) {
        self.task.abort();
    }
}
