//! Happenings after an abrupt end of the operator: the calls that were running, and the handlers that are suspended
//! because of it.
//!
//! This module does not detect such ends.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::handler::definition::Handler;
use crate::happening::user_code::UserCode;

/// A happening of an object after an abrupt end.
#[derive(Clone, Debug)]
pub(crate) enum AbruptEnd {
    /// This code was running for the object each time when the operator ended abruptly. Carries the number of such
    /// ends, and of other calls that were running.
    Accused {
        called: Called,
        crashes: u32,
        others: usize,
    },
    /// The same, recorded by a former run of the operator. Since then, the code is not called for this state of the
    /// object.
    LeftAloneSince {
        called: Called,
        crashes: u32,
        since: Timestamp,
    },
    /// The handler is suspended for the object, since the operator has ended abruptly this many times while the
    /// handler ran. Carries the finalizer if a deletion waits for it.
    HandlerSuspended {
        handler: Arc<Handler>,
        crashes: u32,
        finalizer: Option<Arc<str>>,
    },
    /// All handling of the object is suspended, since the operator has ended abruptly this many times while such user
    /// functions ran. Carries the finalizer if the deletion of the object waits for the operator.
    ObjectLeftAlone {
        code: Vec<UserCode>,
        crashes: u32,
        finalizer: Option<Arc<str>>,
    },
}

/// User code that is called for an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Called {
    Handler(Arc<str>),
    /// One or more of these functions.
    Functions {
        stage: Stage,
        code: Vec<UserCode>,
    },
}

/// The part of an object's cycle that runs user code on the operator's own thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    Plan,
    Settlement,
    Patch,
}

impl Called {
    /// Returns whether both name the same handler or stage, regardless of the functions involved.
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
