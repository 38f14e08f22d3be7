//! The kinds of handlers, with the options of each: one table for the attributes, which reject foreign options at
//! compile time, and for closures, whose options the framework checks at startup.

/// The options that all kinds have.
const COMMON: &[&str] = &["id", "param"];
/// Of all handlers that are known before the operator starts.
const KNOWN: &[&str] = &["requires"];
const RETRY: &[&str] = &["errors", "timeout", "retries", "backoff"];
const FILTERS: &[&str] = &["labels", "annotations", "when", "value", "field"];
const SIDES: &[&str] = &["old", "new"];
const CHILDREN: &[&str] = &["owns", "reads"];
const CANCELLATION: &[&str] = &["cancellation_backoff", "cancellation_timeout", "cancellation_polling"];
const SCHEDULE: &[&str] = &["interval", "sharp", "idle", "schedule", "zone"];
const WEBHOOK: &[&str] =
    &["operations", "subresource", "persistent", "side_effects", "ignore_failures", "timeout"];

/// Calls a macro with the table of all kinds: the attribute of each, the family of its arguments, and its options.
#[macro_export]
macro_rules! kinds {
    ($callback:ident) => {
        $callback! {
            OnCreate on_create CHANGE [KNOWN, RETRY, FILTERS, CHILDREN];
            OnUpdate on_update CHANGE [KNOWN, RETRY, FILTERS, SIDES, CHILDREN];
            OnDelete on_delete CHANGE [KNOWN, RETRY, FILTERS, &["optional"]];
            Finalize finalize CHANGE [KNOWN, RETRY, FILTERS];
            OnResume on_resume CHANGE [KNOWN, RETRY, FILTERS, &["deleted"], CHILDREN];
            OnField on_field CHANGE [KNOWN, RETRY, FILTERS, SIDES, CHILDREN];
            OnEvent on_event EVENT [KNOWN, FILTERS];
            OnStartup on_startup ACTIVITY [KNOWN, RETRY];
            OnCleanup on_cleanup ACTIVITY [KNOWN, RETRY];
            OnLogin on_login LOGIN [KNOWN, RETRY];
            OnProbe on_probe ACTIVITY [KNOWN, RETRY];
            Daemon daemon BACKGROUND [KNOWN, RETRY, FILTERS, &["initial_delay"], CANCELLATION];
            Timer timer BACKGROUND [KNOWN, RETRY, FILTERS, &["initial_delay"], SCHEDULE];
            Reconcile reconcile RECONCILE [KNOWN, RETRY, FILTERS, CHILDREN, &["formerly_owns", "watches", "resync"]];
            Index index INDEX [KNOWN, RETRY, FILTERS];
            OnValidate on_validate VALIDATING [KNOWN, FILTERS, WEBHOOK, &["deleted"]];
            OnMutate on_mutate MUTATING [KNOWN, FILTERS, WEBHOOK];
            Subhandler subhandler CHANGE [RETRY, FILTERS, SIDES];
        }
    };
}

macro_rules! declare {
    ($($kind:ident $attribute:ident $family:ident [$($options:expr),*];)*) => {
        /// The kind of a handler: the attribute that declares it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum HandlerKind {
            $(
                #[doc = concat!("`#[", stringify!($attribute), "]`")]
                $kind,
            )*
        }

        impl HandlerKind {
            /// All kinds, in the order in which messages list them.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Returns the name of the attribute.
            #[must_use]
            pub const fn attribute(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($attribute),)*
                }
            }

            const fn groups(self) -> &'static [&'static [&'static str]] {
                match self {
                    $(Self::$kind => &[COMMON, $($options),*],)*
                }
            }
        }
    };
}
kinds!(declare);

impl HandlerKind {
    /// Returns the kind that an attribute declares.
    #[must_use]
    pub fn of_attribute(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|kind| kind.attribute() == name)
    }

    /// Returns the names of its options.
    pub fn options(self) -> impl Iterator<Item = &'static str> {
        self.groups().iter().flat_map(|group| *group).copied()
    }

    /// Returns whether it has the option.
    #[must_use]
    pub fn has(self, option: &str) -> bool {
        self.options().any(|known| known == option)
    }
}

/// Joins words for a message: `a, b and c`.
#[must_use]
pub fn enumerated(words: &[String]) -> String {
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
