//! The eight attributes: what each is called, which options it has, which arguments its functions may ask for.

use proc_macro2::{Ident, Span};

/// Which attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Create,
    Update,
    Delete,
    Resume,
    Field,
    Event,
    Startup,
    Cleanup,
}

pub(crate) const KINDS: [Kind; 8] = [
    Kind::Create,
    Kind::Update,
    Kind::Delete,
    Kind::Resume,
    Kind::Field,
    Kind::Event,
    Kind::Startup,
    Kind::Cleanup,
];

/// Keywords that select resources.
pub(crate) const SELECTOR_KEYS: [&str; 7] = [
    "group", "version", "kind", "plural", "singular", "shortcut", "category",
];

const ACTIVITY_OPTIONS: &[&str] = &["id", "param", "errors", "timeout", "retries", "backoff"];
const FILTER_OPTIONS: &[&str] = &["labels", "annotations", "when", "field", "value"];
const CHANGE_OPTIONS: &[&str] = &["old", "new"];

const COMMON_ARGUMENTS: &[&str] = &[
    "memo", "logger", "param", "retry", "started", "runtime", "client",
];
const OBJECT_ARGUMENTS: &[&str] = &[
    "body",
    "spec",
    "meta",
    "status",
    "uid",
    "name",
    "namespace",
    "labels",
    "annotations",
    "resource",
    "patch",
];
const CHANGE_ARGUMENTS: &[&str] = &["reason", "old", "new", "diff"];
const EVENT_ARGUMENTS: &[&str] = &["event_type", "event"];
const ACTIVITY_ARGUMENTS: &[&str] = &["settings", "activity"];

impl Kind {
    /// The attribute's name.
    pub(crate) fn attribute(self) -> &'static str {
        match self {
            Self::Create => "on_create",
            Self::Update => "on_update",
            Self::Delete => "on_delete",
            Self::Resume => "on_resume",
            Self::Field => "on_field",
            Self::Event => "on_event",
            Self::Startup => "on_startup",
            Self::Cleanup => "on_cleanup",
        }
    }

    /// The variant of `HandlerKind`.
    pub(crate) fn variant(self) -> Ident {
        Ident::new(&format!("{self:?}"), Span::mixed_site())
    }

    pub(crate) fn of_attribute(name: &str) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.attribute() == name)
    }

    /// Whether there is no object.
    pub(crate) fn is_activity(self) -> bool {
        matches!(self, Self::Startup | Self::Cleanup)
    }

    /// The options the attribute has, selector keywords aside.
    pub(crate) fn options(self) -> Vec<&'static str> {
        let own: &[&[&str]] = match self {
            Self::Create => &[ACTIVITY_OPTIONS, FILTER_OPTIONS],
            Self::Update | Self::Field => &[ACTIVITY_OPTIONS, FILTER_OPTIONS, CHANGE_OPTIONS],
            Self::Delete => &[ACTIVITY_OPTIONS, FILTER_OPTIONS, &["optional"]],
            Self::Resume => &[ACTIVITY_OPTIONS, FILTER_OPTIONS, &["deleted"]],
            Self::Event => &[&["id", "param"], FILTER_OPTIONS],
            Self::Startup | Self::Cleanup => &[ACTIVITY_OPTIONS],
        };
        own.concat()
    }

    /// The names of arguments that are recognised.
    pub(crate) fn arguments(self) -> Vec<&'static str> {
        let own: &[&[&str]] = match self {
            Self::Event => &[OBJECT_ARGUMENTS, EVENT_ARGUMENTS, COMMON_ARGUMENTS],
            Self::Startup | Self::Cleanup => &[ACTIVITY_ARGUMENTS, COMMON_ARGUMENTS],
            _ => &[OBJECT_ARGUMENTS, CHANGE_ARGUMENTS, COMMON_ARGUMENTS],
        };
        own.concat()
    }
}

/// All names of arguments, of whatever attribute.
pub(crate) fn all_arguments() -> Vec<&'static str> {
    [
        OBJECT_ARGUMENTS,
        CHANGE_ARGUMENTS,
        EVENT_ARGUMENTS,
        ACTIVITY_ARGUMENTS,
        COMMON_ARGUMENTS,
    ]
    .concat()
}

/// `#[on_update] and #[on_field]`
pub(crate) fn attributes_with(has: impl Fn(Kind) -> bool) -> String {
    let names: Vec<_> = KINDS
        .into_iter()
        .filter(|kind| has(*kind))
        .map(|kind| format!("#[{}]", kind.attribute()))
        .collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
