//! The handlers of a history: their filters and options, in one place for the operator and for the checks.
//!
//! This module must not depend on their behaviour or the checks.

use kopf_rs::{Callback, Registry};
use serde_json::Value;

use super::cluster::{GROUP, PLURAL};
use crate::random::dice::Dice;

/// The possible handlers of an operator.
const MENU: [&str; 13] = [
    "create c",
    "create c2 retries=2",
    "create ct timeout=60",
    "update u",
    "update u2 retries=2",
    "update ut timeout=60",
    "field f field=spec.f",
    "field f2 field=spec.f",
    "delete d",
    "delete d2",
    "delete o optional",
    "event e",
    "event ep patches",
];

/// One handler.
#[derive(Clone, Debug, Default)]
pub(super) struct Role {
    /// `create`, `update`, `field`, `delete` or `event`.
    pub(super) on: &'static str,
    pub(super) id: String,
    name: &'static str,
    field: Option<&'static str>,
    pub(super) retries: Option<u32>,
    /// A handler with a timeout never fails, and the timeout is long enough for all handlers of its object.
    pub(super) timeout: Option<u32>,
    pub(super) optional: bool,
    /// True if it patches the status.
    pub(super) patches: bool,
}

/// How handlers name the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// By its plural, which is ambiguous while another group has the same plural.
    Plural,
    /// Deletion handlers by the plural, all others by plural and group, so that the others are served while deletion handlers are not.
    Mixed,
    /// By group, in the preferred version.
    Group,
    /// By group and first version.
    Version,
    /// Some by the first version, some by the second, which is served.
    Versions,
}

/// The handlers of one operator.
#[derive(Clone, Debug)]
pub(super) struct Roles {
    all: Vec<Role>,
    pub(super) naming: Naming,
    words: Vec<&'static str>,
}

// === impl Naming ===

impl Naming {
    /// Returns whether the handler at index `place` of `count` is served.
    fn serves(self, place: usize, count: usize) -> bool {
        let one_of_two = self == Self::Versions && count > 1;
        !one_of_two || !place.is_multiple_of(2)
    }
}

// === impl Roles ===

impl Roles {
    pub(super) fn roll(size: usize, naming: Naming, dice: &mut Dice) -> Self {
        let mut menu = MENU.to_vec();
        let count = 1 + dice.roll(size.min(6) + 1);
        let words: Vec<_> = (0..count).map(|_| menu.remove(dice.roll(menu.len()))).collect();
        let roles = words.iter().map(|words| Role::parse(words)).enumerate();
        let all = roles.map(|(place, role)| {
            // A deletion waits for a handler of another version until that version is served, and the operator logs it. In these histories
            // the versions do not change, so the object would never go.
            let never_ends = role.on == "delete" && !naming.serves(place, count);
            Role { optional: role.optional || never_ends, ..role }
        });
        Self { all: all.collect(), naming, words }
    }

    /// Returns the handlers that are served.
    pub(super) fn served(&self) -> impl Iterator<Item = &Role> {
        let (naming, count) = (self.naming, self.all.len());
        let roles = self.all.iter().enumerate();
        roles.filter_map(move |(place, role)| naming.serves(place, count).then_some(role))
    }

    /// Returns a registry of all handlers, each with the callback that `call` returns.
    pub(super) fn registry(&self, call: impl Fn(&Role) -> Callback) -> Registry {
        let mut registry = Registry::new();
        for (place, role) in self.all.iter().enumerate() {
            let callback = role.dressed(call(role));
            let by_group = format!("{PLURAL}.{GROUP}");
            registry = match self.naming {
                Naming::Plural => role.add(registry, PLURAL, callback),
                Naming::Mixed if role.on == "delete" => role.add(registry, PLURAL, callback),
                Naming::Group | Naming::Mixed => role.add(registry, by_group.as_str(), callback),
                Naming::Version => role.add(registry, (GROUP, "v1", PLURAL), callback),
                Naming::Versions => {
                    let version = if place.is_multiple_of(2) { "v1" } else { "v2" };
                    role.add(registry, (GROUP, version, PLURAL), callback)
                }
            };
        }
        registry
    }

    /// Returns whether some handler requires a finalizer on objects.
    pub(super) fn demand_finalizer(&self) -> bool {
        let mandatory = |role: &Role| role.on == "delete" && !role.optional;
        self.served().any(mandatory)
    }

    /// Returns whether some handler stores progress on objects.
    pub(super) fn handle_changes(&self) -> bool {
        let changing = |role: &Role| ["create", "update", "field"].contains(&role.on);
        self.served().any(changing)
    }
}

impl std::fmt::Display for Roles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (by {:?})", self.words.join("; "), self.naming)
    }
}

// === impl Role ===

impl Role {
    fn parse(text: &'static str) -> Self {
        let mut words = text.split(' ');
        let mut word = || words.next().expect("a kind and a name");
        let mut role = Self { on: word(), name: word(), ..Self::default() };
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || value.parse::<u32>().expect("a number");
            match key {
                "field" => role.field = Some(value),
                "retries" => role.retries = Some(number()),
                "timeout" => role.timeout = Some(number()),
                "optional" => role.optional = true,
                "patches" => role.patches = true,
                other => panic!("no handler is `{other}`"),
            }
        }
        role.id = match role.field {
            Some(field) => format!("{}/{field}", role.name),
            None => role.name.to_owned(),
        };
        role
    }

    fn add(&self, registry: Registry, resources: impl kopf_rs::IntoSelector, callback: Callback) -> Registry {
        match self.on {
            "create" => registry.on_create(resources, callback),
            "update" => registry.on_update(resources, callback),
            "field" => registry.on_field(resources, callback),
            "delete" => registry.on_delete(resources, callback),
            "event" => registry.on_event(resources, callback),
            other => panic!("nothing is declared by `{other}`"),
        }
    }

    fn dressed(&self, mut callback: Callback) -> Callback {
        if let Some(field) = self.field {
            callback = callback.field(field);
        }
        if let Some(retries) = self.retries {
            callback = callback.retries(retries);
        }
        if let Some(timeout) = self.timeout {
            callback = callback.timeout(timeout);
        }
        if self.optional {
            callback = callback.optional();
        }
        callback
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether it follows changes for as long as the object lives.
    pub(super) fn follows(&self) -> bool {
        matches!(self.on, "update" | "field")
    }

    /// Returns the part of a spec that it watches: a number that is unique to each edit.
    pub(super) fn scope(&self, spec: &Value) -> Value {
        match self.field {
            Some(_) => spec["f"].clone(),
            None => spec["n"].clone(),
        }
    }
}
