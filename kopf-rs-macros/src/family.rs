//! Tables of the attributes: the arguments that their functions can take, and the use of what they return.
//!
//! `kopf_rs_schedule` lists the attributes, with the options of each, for the framework too; `option.rs` has the notations of options.

use kopf_rs_schedule::{HandlerKind, enumerated};
use proc_macro2::Ident;
use syn::ext::IdentExt;

use crate::KINDS;

/// An attribute.
pub(crate) struct Kind {
    /// The attribute's name.
    pub(crate) attribute: &'static str,
    pub(crate) family: &'static Family,
}

/// The common properties of a family's attributes.
pub(crate) struct Family {
    /// The framework's type for conditions on arguments.
    pub(crate) name: &'static str,
    /// The names of arguments with a special meaning.
    pub(crate) arguments: &'static [&'static [&'static str]],
    /// True if the handlers handle objects, which a selector names.
    pub(crate) has_object: bool,
    /// The use of the return value.
    pub(crate) returns: Returns,
}

/// The use of a function's return value, apart from errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    /// A result, which is stored in the status.
    Result,
    /// Keys and values, which are stored in an index.
    Entries,
    /// A requeue request.
    Again,
}

/// Keywords that select resources.
pub(crate) const SELECTOR_KEYS: [&str; 7] =
    ["group", "version", "kind", "plural", "singular", "shortcut", "category"];

const COMMON_ARGUMENTS: &[&str] = &["memo", "logger", "param", "retry", "started", "runtime", "client"];

/// The common arguments before a client exists.
const CLIENTLESS_ARGUMENTS: &[&str] = COMMON_ARGUMENTS.split_last().expect("the client").1;

const OBJECT_ARGUMENTS: &[&str] = &[
    "body",
    "object",
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

/// The arguments of objects without the patch, for functions that must not change the object.
const OBJECT_DATA: &[&str] = OBJECT_ARGUMENTS.split_last().expect("the patch").1;

const CHANGE_ARGUMENTS: &[&str] = &["reason", "old", "new", "diff"];

const REVIEW_ARGUMENTS: &[&str] = &[
    "operation",
    "subresource",
    "dryrun",
    "userinfo",
    "headers",
    "sslpeer",
    "warnings",
    "old",
    "new",
    "diff",
];

const ACTIVITY_ARGUMENTS: &[&str] = &["settings", "activity"];

pub(crate) static ACTIVITY: Family =
    Family { has_object: false, ..family("Activity", &[ACTIVITY_ARGUMENTS, COMMON_ARGUMENTS]) };
/// There is no client yet, since these functions provide its credentials.
pub(crate) static LOGIN: Family =
    Family { has_object: false, ..family("Activity", &[ACTIVITY_ARGUMENTS, CLIENTLESS_ARGUMENTS]) };
pub(crate) static CHANGE: Family = family("Change", &[OBJECT_ARGUMENTS, CHANGE_ARGUMENTS, COMMON_ARGUMENTS]);
pub(crate) static EVENT: Family =
    family("Event", &[OBJECT_ARGUMENTS, &["event_type", "event"], COMMON_ARGUMENTS]);
pub(crate) static BACKGROUND: Family =
    family("Background", &[OBJECT_ARGUMENTS, &["stopped"], COMMON_ARGUMENTS]);
pub(crate) static RECONCILE: Family = Family {
    returns: Returns::Again,
    ..family("Background", &[OBJECT_ARGUMENTS, &["stopped"], COMMON_ARGUMENTS])
};
pub(crate) static INDEX: Family =
    Family { returns: Returns::Entries, ..family("Index", &[OBJECT_DATA, COMMON_ARGUMENTS]) };
/// Validating functions must not change the object, so they have no patch.
pub(crate) static VALIDATING: Family =
    family("Admission", &[OBJECT_DATA, REVIEW_ARGUMENTS, COMMON_ARGUMENTS]);
pub(crate) static MUTATING: Family =
    family("Admission", &[OBJECT_ARGUMENTS, REVIEW_ARGUMENTS, COMMON_ARGUMENTS]);

/// For attributes that declare no handler.
pub(crate) static NO_FAMILY: Family = family("", &[]);

/// Returns a family of handlers of objects, whose results are stored in the status.
pub(crate) const fn family(name: &'static str, arguments: &'static [&'static [&'static str]]) -> Family {
    Family { name, arguments, has_object: true, returns: Returns::Result }
}

impl Kind {
    pub(crate) fn of_attribute(name: &str) -> Option<&'static Self> {
        KINDS.into_iter().find(|kind| kind.attribute == name)
    }

    /// Returns whether these are sub-handlers, which their parents register for their own object.
    pub(crate) fn is_nested(&self) -> bool {
        self.attribute == "subhandler"
    }

    /// Returns whether the attribute names the resource.
    pub(crate) fn has_selector(&self) -> bool {
        self.family.has_object && !self.is_nested()
    }

    /// Returns the names of the options of handlers, except the selector's keywords.
    pub(crate) fn options(&self) -> Vec<&'static str> {
        let kind = HandlerKind::of_attribute(self.attribute);
        kind.into_iter().flat_map(HandlerKind::options).collect()
    }

    /// Returns whether handlers of the attribute have this option.
    pub(crate) fn has(&self, option: &Ident) -> bool {
        self.options().iter().any(|it| option.unraw() == it)
    }

    /// Returns the names of arguments with a special meaning.
    pub(crate) fn arguments(&self) -> Vec<&'static str> {
        self.family.arguments.concat()
    }
}

/// Returns the names of all arguments of all attributes.
pub(crate) fn all_arguments() -> Vec<&'static str> {
    let mut all = Vec::new();
    for name in KINDS.into_iter().flat_map(Kind::arguments) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// `#[on_update] and #[on_field]`
pub(crate) fn attributes_with(has: impl Fn(&Kind) -> bool) -> String {
    let names: Vec<_> =
        KINDS.into_iter().filter(|kind| has(kind)).map(|kind| format!("#[{}]", kind.attribute)).collect();
    enumerated(&names)
}
