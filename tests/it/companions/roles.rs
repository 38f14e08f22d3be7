//! The daemons and timers of a history: their filters and options, in one place for the operator and for the checks.
//!
//! This module does not know how they are called.

use std::time::Duration;

use kopf_rs::{Callback, PRESENT, Registry};
use serde_json::Value;

use crate::random::dice::Dice;

/// The possible roles.
const MENU: [&str; 11] = [
    "daemon d",
    "daemon dl labelled",
    "daemon dr labelled retries=2",
    "daemon dd deaf",
    "daemon di labelled delay=7",
    "timer t interval=10",
    "timer tl interval=15 labelled",
    "timer ts interval=20 sharp",
    "timer ti interval=10 idle=30",
    "timer td interval=12 delay=5",
    "timer to",
];

/// The label that filters require.
pub(super) const LABEL: &str = "tier";

/// A daemon or timer.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one word of the menu")]
pub(super) struct Role {
    pub(super) id: &'static str,
    pub(super) is_daemon: bool,
    /// The filter accepts only objects with the label.
    pub(super) labelled: bool,
    /// The daemon ignores its stop flag, so the operator must cancel it.
    pub(super) deaf: bool,
    pub(super) interval: Option<Duration>,
    pub(super) sharp: bool,
    idle: Option<Duration>,
    delay: Option<Duration>,
    retries: Option<u32>,
}

impl Role {
    /// The cancellation timeout of deaf daemons in seconds.
    const TIMEOUT: u64 = 3;

    /// Picks random entries of the menu.
    pub(super) fn some(size: usize, dice: &mut Dice) -> Vec<Self> {
        let mut menu = MENU.to_vec();
        let count = 1 + dice.roll(size.min(4));
        let mut picked = || Self::parse(menu.remove(dice.roll(menu.len())));
        (0..count).map(|_| picked()).collect()
    }

    fn parse(text: &'static str) -> Self {
        let mut words = text.split(' ');
        let mut word = || words.next().expect("a kind and an id");
        let mut role = Self { is_daemon: word() == "daemon", id: word(), ..Self::default() };
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, "0"));
            let number: u32 = value.parse().expect("a number");
            let seconds = Some(Duration::from_secs(number.into()));
            match key {
                "labelled" => role.labelled = true,
                "deaf" => role.deaf = true,
                "sharp" => role.sharp = true,
                "interval" => role.interval = seconds,
                "idle" => role.idle = seconds,
                "delay" => role.delay = seconds,
                "retries" => role.retries = Some(number),
                other => panic!("nothing is `{other}`"),
            }
        }
        role
    }

    /// Adds the role to a registry.
    pub(super) fn add(
        &self,
        registry: Registry,
        selector: (&str, &'static str, &'static str),
        mut callback: Callback,
    ) -> Registry {
        if self.labelled {
            callback = callback.label(LABEL, PRESENT);
        }
        if let Some(retries) = self.retries {
            callback = callback.retries(retries);
        }
        if let Some(delay) = self.delay {
            callback = callback.initial_delay(delay);
        }
        if self.is_daemon {
            if self.deaf {
                callback = callback.cancellation_timeout(Self::TIMEOUT);
            }
            return registry.daemon(selector, callback);
        }
        if let Some(interval) = self.interval {
            callback = callback.interval(interval);
        }
        if self.sharp {
            callback = callback.sharp();
        }
        if let Some(idle) = self.idle {
            callback = callback.idle(idle);
        }
        registry.timer(selector, callback)
    }

    /// Returns whether the filter of the role accepts an object.
    pub(super) fn accepts(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let lives = metadata["deletionTimestamp"].is_null();
        lives && (!self.labelled || !metadata["labels"][LABEL].is_null())
    }

    /// Returns whether the role runs once for an object, as long as it does not fail.
    pub(super) fn is_called_once(&self) -> bool {
        self.is_daemon || self.interval.is_none()
    }

    /// Returns whether an attempt is the last one.
    pub(super) fn is_last(&self, retry: u32) -> bool {
        self.retries.is_some_and(|limit| retry + 1 >= limit)
    }
}
