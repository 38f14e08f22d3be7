//! What the operator itself gives handlers: its client and its settings.
//!
//! Must not know what handlers do with them.

use crate::cluster::Client;
use crate::handler::cause::Cause;
use crate::handler::error::HandlerError;
use crate::operator::settings::StartupSettings;

impl Cause {
    /// The operator's Kubernetes client.
    ///
    /// # Errors
    /// Where there is no operator, as in unit tests: give one by [`TestCause::with`](crate::TestCause::with).
    pub fn client(&self) -> Result<Client, HandlerError> {
        Ok(Client::clone(&*self.state()?))
    }

    /// The operator's settings, which startup handlers may change.
    ///
    /// # Errors
    /// Where there is no operator, as in unit tests: give some by [`TestCause::with`](crate::TestCause::with).
    pub fn settings(&self) -> Result<StartupSettings, HandlerError> {
        Ok(StartupSettings::clone(&*self.state()?))
    }
}
