//! All objects of a resource, or those in one namespace. Displays as resource and place, for log lines.

use std::fmt;
use std::sync::Arc;

use crate::object::resource::Resource;

/// All objects of a resource, or those in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collection {
    pub(crate) resource: Arc<Resource>,
    /// `None` for the whole cluster.
    pub(crate) namespace: Option<String>,
}

impl Collection {
    /// Returns the path of the collection.
    pub(crate) fn path(&self) -> String {
        self.resource.path(self.namespace.as_deref(), None, None)
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} in '{namespace}'", self.resource),
            None => write!(f, "{} cluster-wide", self.resource),
        }
    }
}
