//! Login handlers as a source of credentials.
//!
//! Must not know when a login is required, or how the credentials are used.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::cluster::credentials::ConnectionInfo;
use crate::cluster::login::{Candidate, LoginSource};
use crate::engine::invoke::Invoker;
use crate::engine::report::report;
use crate::handler::cause::CauseContext;
use crate::handler::definition::Handler;
use crate::handler::subject::Activity;
use crate::happening::Happening;
use crate::happening::login::Login;
use crate::object::login::{LoginReason, LoginSetback};
use crate::operator::activity::Activities;
use crate::operator::settings::StartupSettings;
use crate::rt::clock::Clock;
use crate::rt::rng::Rng;

/// The login handlers of an operator.
pub(crate) struct LoginHandlers {
    pub(crate) handlers: Vec<Arc<Handler>>,
    pub(crate) invoker: Arc<Invoker>,
    pub(crate) clock: Clock,
    pub(crate) rng: Arc<Rng>,
    /// The context with the logger of logins and without a client, because that client waits for the login.
    pub(crate) context: CauseContext,
    pub(crate) settings: StartupSettings,
}

/// The time limit for a call without a timeout of its own, after which it is cancelled and repeated, because all requests wait for the login.
const PATIENCE: Duration = Duration::from_secs(60);

impl LoginSource for LoginHandlers {
    fn login(&mut self, why: LoginReason) -> BoxFuture<'_, Result<Vec<Candidate>, String>> {
        self.log_in(why).boxed()
    }

    fn will_be_asked_again(&mut self, setback: LoginSetback, pause: Duration) {
        self.tell(Login::Setback { setback, pause });
    }
}

impl LoginHandlers {
    async fn log_in(&self, why: LoginReason) -> Result<Vec<Candidate>, String> {
        self.tell(Login::Initiated(why.clone()));
        let activities = Activities {
            activity: Activity::Login,
            invoker: &self.invoker,
            clock: self.clock,
            rng: &self.rng,
            context: self.context.clone(),
            backoff: self.settings.get().execution.backoff(),
            patience: Some(PATIENCE),
            vault: None,
        };
        let ended = activities.results(self.handlers.clone()).await;
        let mut found = Vec::new();
        for (id, result) in ended.results {
            found.push(candidate(id, result)?);
        }
        if !found.is_empty() {
            self.tell(Login::Finished(why));
        } else if ended.failed.is_empty() {
            self.tell(Login::Empty(why));
        } else {
            let failed: Vec<_> = ended.failed.iter().map(|id| format!("'{id}'")).collect();
            return Err(format!(
                "login handler {} has failed for good, as the log says, and there are no other credentials: mend the handler, or where it \
                 has the credentials from",
                failed.join(", ")
            ));
        }
        Ok(found)
    }

    fn tell(&self, login: Login) {
        report(&self.context.logger, &Happening::Login(login));
    }
}

/// Parses the result of a handler. The error does not quote it, because it may be secret.
fn candidate(id: Arc<str>, result: Value) -> Result<Candidate, String> {
    match serde_json::from_value::<ConnectionInfo>(result) {
        Ok(info) => Ok(Candidate { id, info }),
        Err(_) => Err(format!(
            "login handler '{id}' has returned something else than credentials: it must return `Option<ConnectionInfo>` or `ConnectionInfo`"
        )),
    }
}

#[cfg(test)]
mod tests;
