//! Runs operators that log in by handlers instead of being given a client.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Client;
use crate::cluster::login::Vault;
use crate::cluster::login::task::LoginTask;
use crate::engine::report::report;
use crate::handler::logger::Logger;
use crate::handler::subject::Activity;
use crate::happening::operating::Login;
use crate::operator::login::LoginHandlers;
use crate::operator::run::{CheckedOperator, Operator, OperatorError, Report};
use crate::rt::clock::Clock;
use crate::rt::task;

/// The longest wait of a request for a login while the operator stops.
const LAST_LOGIN: Duration = Duration::from_secs(30);

impl Operator {
    /// Runs an operator with login handlers ([`on_login`](macro@crate::on_login)), which give it its credentials, and otherwise like
    /// [`Operator::run`].
    ///
    /// The handlers are called before the first request, which follows the startup handlers unless one of these makes it, when the credentials
    /// expire, and when the server refuses them. Each request that is refused with 401 is sent again with the next credentials.
    ///
    /// # Errors
    /// Returns an error if the operator cannot start or its cleanup fails, and [`OperatorError::Login`] if there are no credentials.
    pub async fn run_logged_in(self, until: impl Future) -> Result<Report, OperatorError> {
        self.run_prepared(async |_| Ok(()), until).await
    }

    /// Runs like [`Operator::run_logged_in`], and calls `prepare` with the client before anything else.
    pub(crate) async fn run_prepared<E: From<OperatorError>>(
        self,
        prepare: impl AsyncFnOnce(&Client) -> Result<(), E>,
        until: impl Future,
    ) -> Result<Report, E> {
        let name = self.check()?;
        self.check_state()?;
        let vault = Vault::new(Clock::start());
        let client = vault.client();
        let mut operator = CheckedOperator::new(self, name, client.clone())?;
        let handlers = operator.login_handlers();
        let logging_in = LoginTask::new(vault.clone(), handlers, operator.rng.clone());
        let _logging_in = AbortOnDropHandle::new(task::spawn(logging_in.run()));
        operator.vault = Some(vault.clone());
        let mut until = pin!(until);
        tokio::select! {
            biased;
            prepared = prepare(&client) => prepared?,
            failed = vault.failed() => return Err(OperatorError::Login(failed).into()),
            _ = &mut until => return Ok(Report::default()),
        }
        Ok(operator.run_noted(until).await?)
    }

    /// Returns whether handlers provide the credentials.
    pub(crate) fn has_login_handlers(&self) -> bool {
        let mut handlers = self.registry.handlers().iter();
        handlers.any(|handler| handler.activity() == Some(Activity::Login))
    }
}

impl CheckedOperator {
    fn login_handlers(&self) -> LoginHandlers {
        let mut group = self.group_of(Activity::Login);
        group.context.extensions = Arc::clone(&self.without_client);
        LoginHandlers { group, rng: self.rng.clone(), settings: self.settings.clone() }
    }

    /// Cleans up, with requests that fail if they can get no credentials.
    pub(super) async fn with_hope<T>(&self, vault: &Vault, cleanup: impl Future<Output = T>) -> T {
        if vault.has_failed() && !self.group_of(Activity::Cleanup).handlers.is_empty() {
            let logger = Logger::of_activity(Activity::Login);
            report(&logger, &Login::CleanupWithout);
        }
        tokio::select! {
            biased;
            cleaned = cleanup => cleaned,
            never = vault.hope_for(LAST_LOGIN) => match never {},
        }
    }

    /// Waits until no credentials can be had any more. Returns the reason.
    pub(super) async fn login_failed(&self) -> OperatorError {
        match &self.vault {
            Some(vault) => OperatorError::Login(vault.failed().await),
            None => std::future::pending().await,
        }
    }
}
