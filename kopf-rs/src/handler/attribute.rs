//! Lists the attributes of all families, with the options that a closure registered in place of an annotated function
//! may set.

use crate::handler::options::CallbackOptions;

/// An attribute, with the [`Callback`](crate::Callback) methods that a closure in place of an annotated function may
/// use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attribute {
    pub(crate) name: &'static str,
    pub(crate) options: &'static [&'static [&'static str]],
}

/// The methods of [`Callback`](crate::Callback) that set the options of retries.
const RETRY: &[&str] = &["errors", "timeout", "retries", "backoff"];
/// The methods that set the field and the filters.
const FILTERS: &[&str] = &["field", "value", "label", "annotation", "when"];

/// The methods that name the kinds of children.
const CHILDREN: &[&str] = &["owns", "reads"];

pub(crate) const ON_CREATE: Attribute = Attribute {
    name: "on_create",
    options: &[RETRY, FILTERS, CHILDREN],
};
pub(crate) const ON_UPDATE: Attribute = Attribute {
    name: "on_update",
    options: &[RETRY, FILTERS, &["old", "new"], CHILDREN],
};
pub(crate) const ON_DELETE: Attribute = Attribute {
    name: "on_delete",
    options: &[RETRY, FILTERS, &["optional"]],
};
pub(crate) const FINALIZE: Attribute = Attribute {
    name: "finalize",
    options: &[RETRY, FILTERS],
};
pub(crate) const ON_RESUME: Attribute = Attribute {
    name: "on_resume",
    options: &[RETRY, FILTERS, &["deleted"], CHILDREN],
};
pub(crate) const ON_FIELD: Attribute = Attribute {
    name: "on_field",
    options: &[RETRY, FILTERS, &["old", "new"], CHILDREN],
};
pub(crate) const ON_EVENT: Attribute = Attribute {
    name: "on_event",
    options: &[FILTERS],
};
pub(crate) const ON_STARTUP: Attribute = Attribute {
    name: "on_startup",
    options: &[RETRY],
};
pub(crate) const ON_CLEANUP: Attribute = Attribute {
    name: "on_cleanup",
    options: &[RETRY],
};
pub(crate) const ON_LOGIN: Attribute = Attribute {
    name: "on_login",
    options: &[RETRY],
};
pub(crate) const ON_PROBE: Attribute = Attribute {
    name: "on_probe",
    options: &[RETRY],
};

pub(crate) const DAEMON: Attribute = Attribute {
    name: "daemon",
    options: &[
        RETRY,
        FILTERS,
        &[
            "initial_delay",
            "cancellation_backoff",
            "cancellation_timeout",
            "cancellation_polling",
        ],
    ],
};
pub(crate) const TIMER: Attribute = Attribute {
    name: "timer",
    options: &[
        RETRY,
        FILTERS,
        &[
            "initial_delay",
            "interval",
            "sharp",
            "idle",
            "schedule",
            "zone",
        ],
    ],
};

pub(crate) const RECONCILE: Attribute = Attribute {
    name: "reconcile",
    options: &[
        RETRY,
        FILTERS,
        &["owns", "reads", "formerly_owns", "watches", "resync"],
    ],
};

pub(crate) const INDEX: Attribute = Attribute {
    name: "index",
    options: &[RETRY, FILTERS],
};

/// The methods that set the options of webhooks.
const WEBHOOK: &[&str] = &[
    "timeout",
    "operations",
    "subresource",
    "persistent",
    "side_effects",
    "ignore_failures",
];

pub(crate) const ON_VALIDATE: Attribute = Attribute {
    name: "on_validate",
    options: &[FILTERS, WEBHOOK, &["deleted"]],
};
pub(crate) const ON_MUTATE: Attribute = Attribute {
    name: "on_mutate",
    options: &[FILTERS, WEBHOOK],
};

const ALL: [Attribute; 17] = [
    ON_CREATE,
    ON_UPDATE,
    ON_DELETE,
    FINALIZE,
    ON_RESUME,
    ON_FIELD,
    ON_EVENT,
    ON_STARTUP,
    ON_CLEANUP,
    ON_LOGIN,
    ON_PROBE,
    DAEMON,
    TIMER,
    RECONCILE,
    INDEX,
    ON_VALIDATE,
    ON_MUTATE,
];

// === impl ===

impl Attribute {
    /// Reports the misused options of a closure registered in place of an annotated function.
    pub(crate) fn misuse(self, options: &CallbackOptions) -> Option<String> {
        let name = self.name;
        if options.index.is_some() && name != INDEX.name {
            return Some("a function made by `indexer` belongs to `Registry::index`".to_owned());
        }
        let foreign = options.given().find(|option| !self.has(option))?;
        Some(format!(
            "`{foreign}` is not an option of {name}: it belongs to {}",
            owners(foreign)
        ))
    }

    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|group| group.contains(&option))
    }
}

/// Lists the attributes that have the option: `on_update and on_field`.
fn owners(option: &str) -> String {
    let owners = ALL.iter().filter(|attribute| attribute.has(option));
    let owners: Vec<_> = owners.map(|attribute| attribute.name).collect();
    match owners.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => "none".to_owned(),
    }
}
