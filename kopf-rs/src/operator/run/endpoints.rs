//! Where an operator is asked how it is.

use tokio_util::task::AbortOnDropHandle;

use crate::handler::subject::Activity;
use crate::health::listener::{Asked, Listener};
use crate::health::probes::{ProbeSetup, Prober};
use crate::health::responder::Responder;
use crate::operator::run::{CheckedOperator, OperatorError};

impl CheckedOperator {
    /// Answer those who ask how the operator is.
    pub(super) fn endpoints(
        &self,
    ) -> Result<Option<(Listener, AbortOnDropHandle<()>)>, OperatorError> {
        let (Some(address), Some(board)) = (&self.liveness, &self.board) else {
            return Ok(None);
        };
        let prober = Prober::new(ProbeSetup {
            handlers: self.handlers_of(Activity::Probe),
            invoker: self.invoker.clone(),
            clock: self.clock,
            context: self.context_of(Activity::Probe),
        });
        let (desk, responder) = Responder::new(board.clone(), prober);
        let asked = Asked {
            desk,
            board: board.clone(),
            handlers: self.handlers_on.clone(),
        };
        let listener = Listener::start(address, asked).map_err(OperatorError::Endpoint)?;
        let responding = AbortOnDropHandle::new(tokio::spawn(responder.run()));
        Ok(Some((listener, responding)))
    }
}
