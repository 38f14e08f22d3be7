//! The values that the operator itself provides to handlers: its client and its settings.
//!
//! Must not know how handlers use them.

use crate::cluster::Client;
use crate::handler::cause::Cause;
use crate::handler::error::HandlerError;
use crate::operator::clock::Clock;
use crate::operator::settings::StartupSettings;

impl Cause {
    /// Returns the operator's Kubernetes client.
    ///
    /// # Errors
    /// If there is no operator, as in unit tests: provide a client by [`TestCause::with`](crate::TestCause::with).
    pub fn client(&self) -> Result<Client, HandlerError> {
        Ok(Client::clone(&*self.state()?))
    }

    /// Returns the clock, which follows virtual time in tests. Without an operator, it shows the system's time, unless
    /// [`TestCause::with`](crate::TestCause::with) provides another one.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.context.extensions.get().map_or_else(Clock::new, |given| *given)
    }

    /// Returns the operator's settings, which startup handlers may change.
    ///
    /// # Errors
    /// If there is no operator, as in unit tests: provide settings by [`TestCause::with`](crate::TestCause::with).
    pub fn settings(&self) -> Result<StartupSettings, HandlerError> {
        Ok(StartupSettings::clone(&*self.state()?))
    }
}
