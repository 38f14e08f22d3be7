//! All handlers of an operator: collected from annotated functions, or built by hand.

use std::sync::Arc;

use crate::handler::decl::Handler;

/// Handlers in the order of their declaration.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    handlers: Vec<Arc<Handler>>,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    pub(crate) fn handlers(&self) -> &[Arc<Handler>] {
        &self.handlers
    }
}
