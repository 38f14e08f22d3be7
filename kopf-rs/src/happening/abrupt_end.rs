//! Abrupt ends of the operator: the calls that ran then, and the handlers that are suspended for it.
//!
//! Must not know how these are found.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::handler::definition::Handler;
use crate::happening::user_code::UserCode;

/// A happening of an object after an abrupt end.
#[derive(Clone, Debug)]
pub(crate) enum AbruptEnd {
    /// This was being called for the object when the operator ended abruptly, so many times; so many other calls were being made.
    Accused {
        called: Called,
        crashes: u32,
        others: usize,
    },
    /// The same of a former life of the operator: since then this is not called for the object as it was.
    LeftAloneSince {
        called: Called,
        crashes: u32,
        since: Timestamp,
    },
    /// A handler is not called for the object, since the operator has ended abruptly so many times when it was. The finalizer, where a
    /// deletion waits for it.
    HandlerSuspended {
        handler: Arc<Handler>,
        crashes: u32,
        finalizer: Option<Arc<str>>,
    },
    /// Nothing is called for the object, since the operator has ended abruptly so many times when it ran such functions. The finalizer,
    /// where the deletion of the object waits for the operator.
    ObjectLeftAlone {
        code: Vec<UserCode>,
        crashes: u32,
        finalizer: Option<Arc<str>>,
    },
}

/// Code of users that is called for an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Called {
    Handler(Arc<str>),
    /// Some of these.
    Functions {
        stage: Stage,
        code: Vec<UserCode>,
    },
}

/// The part of an object's turn that runs user code on the operator's own thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    Plan,
    Settlement,
    Patch,
}

impl Called {
    /// Whether the other is the same, whatever else it runs.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Handler(this), Self::Handler(that)) => this == that,
            (Self::Functions { stage: this, .. }, Self::Functions { stage: that, .. }) => {
                this == that
            }
            _ => false,
        }
    }
}
