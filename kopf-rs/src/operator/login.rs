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
use crate::engine::invoke::HandlerGroup;
use crate::engine::report::report;
use crate::handler::subject::Activity;
use crate::happening::operating::Login;
use crate::object::login::{LoginReason, LoginSetback};
use crate::operator::activity::Activities;
use crate::operator::settings::StartupSettings;
use crate::rt::rng::Rng;

/// The login handlers of an operator.
pub(crate) struct LoginHandlers {
    /// Their context has the logger of logins, and no client, because that client waits for the login.
    pub(crate) group: HandlerGroup,
    pub(crate) rng: Arc<Rng>,
    pub(crate) settings: StartupSettings,
}

/// The time limit for a call without a timeout of its own, after which it is cancelled and repeated, because all requests wait for the login.
const PATIENCE: Duration = Duration::from_secs(60);

impl LoginSource for LoginHandlers {
    fn login(&mut self, why: LoginReason) -> BoxFuture<'_, Result<Vec<Candidate>, String>> {
        self.log_in(why).boxed()
    }

    fn will_be_asked_again(&mut self, setback: LoginSetback, pause: Duration) {
        self.report(&Login::Setback { setback, pause });
    }
}

impl LoginHandlers {
    async fn log_in(&self, why: LoginReason) -> Result<Vec<Candidate>, String> {
        self.report(&Login::Initiated { why: why.clone() });
        let activities = Activities {
            activity: Activity::Login,
            group: &self.group,
            rng: &self.rng,
            backoff: self.settings.get().execution.backoff(),
            patience: Some(PATIENCE),
            vault: None,
        };
        let ended = activities.run().await;
        let mut found = Vec::new();
        for (id, result) in ended.results {
            found.push(candidate(id, result)?);
        }
        if !found.is_empty() {
            self.report(&Login::Finished { why });
        } else if ended.failed.is_empty() {
            self.report(&Login::Empty { why });
        } else {
            let failed: Vec<_> = ended.failed.iter().map(|id| format!("'{id}'")).collect();
            return Err(format!(
                "login handler {} has failed for good, as the log says, and there are no other credentials: fix the handler, or the source \
                 of its credentials",
                failed.join(", ")
            ));
        }
        Ok(found)
    }

    fn report(&self, login: &Login) {
        report(&self.group.context.logger, login);
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
