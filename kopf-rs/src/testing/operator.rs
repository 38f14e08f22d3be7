//! An operator that runs as a task of a test, which can stop it like SIGTERM or kill it like SIGKILL.
//!
//! This module does not depend on clusters.

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cluster::Client;
use crate::operator::run::{Operator, OperatorError, Report};
use crate::testing::deadline::within;
use crate::testing::lines::Lines;
use crate::testing::recording::recording;

/// A running operator. Dropping it kills it.
#[derive(Debug)]
#[must_use = "dropping it kills the operator"]
pub struct TestOperator {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<Report, OperatorError>>,
    lines: Lines,
    number: u64,
}

impl TestOperator {
    /// Starts an operator with your own client; [`TestCluster::start`](crate::testing::TestCluster::start) uses an
    /// administrator's client. Failures show `lines`. If the operator cannot start and no other operator runs, all
    /// waits of the test fail immediately, with the reason.
    pub fn start(client: Client, operator: Operator, lines: Lines) -> Self {
        let client = recording(client);
        let (stop, stopped) = oneshot::channel::<()>();
        let (running, number) = lines.operator_starts();
        let running = async move {
            let ended = operator.run(client, stopped).await;
            if let Err(error) = &ended {
                running.failed(error.to_string());
            }
            ended
        };
        Self { stop: Some(stop), task: tokio::spawn(running), lines, number }
    }

    /// Stops the operator as SIGTERM does, and waits for its end.
    ///
    /// # Panics
    /// Panics if the operator cannot start, ends with an error, or does not end in time.
    pub async fn stop(mut self) -> Report {
        drop(self.stop.take());
        let ended = self.ended().await;
        ended.unwrap_or_else(|error| panic!("{error}\n{}", self.lines.shown()))
    }

    /// Waits until the operator ends by itself, because it cannot start or because of
    /// [`Operator::once`](crate::Operator::once).
    ///
    /// # Errors
    /// Returns the error that the operator ended with.
    ///
    /// # Panics
    /// Panics if the operator does not end in time.
    pub async fn end(mut self) -> Result<Report, OperatorError> {
        self.ended().await
    }

    /// Ends the operator as SIGKILL does: without cleanup, and without further writes.
    pub async fn kill(mut self) {
        self.task.abort();
        // The task may have ended by itself.
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
        self.lines.forget_operator(self.number);
    }
}
