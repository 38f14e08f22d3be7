//! The attributes of kopf-rs, documented at their re-exports in `kopf-rs`.
//!
//! Turns syntax into declarations, with error messages worded as fixes. This crate must not check anything that the
//! framework can check by type.

#![forbid(unsafe_code)]

use proc_macro::TokenStream;

mod ast;
mod attr;
mod convert;
mod expand;
mod fallback;
mod family;
mod hint;
mod operations;
mod option;
mod raise;
mod review;
mod rule;
mod selector;
mod subhandler;
mod syntax;

#[cfg(test)]
mod closures;
#[cfg(test)]
mod golden;

use crate::family::{Kind, activity, admission, background, change, event, index, reconcile};

/// Defines one macro per attribute.
macro_rules! attributes {
    ($($name:ident: $kind:path;)*) => {
    $(
        #[doc = concat!("See `kopf_rs::", stringify!($name), "`.")]
        #[proc_macro_attribute]
        pub fn $name(arguments: TokenStream, function: TokenStream) -> TokenStream {
            declare(&$kind, arguments, function)
        }
    )*

    /// All attributes.
    static KINDS: [&Kind; [$(stringify!($name)),*].len()] = [$(&$kind),*];
    };
}

attributes! {
    on_create: change::CREATE;
    on_update: change::UPDATE;
    on_delete: change::DELETE;
    finalize: change::FINALIZE;
    on_resume: change::RESUME;
    on_field: change::ON_FIELD;
    on_event: event::ON_EVENT;
    on_startup: activity::STARTUP;
    on_cleanup: activity::CLEANUP;
    on_login: activity::LOGIN;
    on_probe: activity::PROBE;
    daemon: background::DAEMON;
    timer: background::TIMER;
    reconcile: reconcile::RECONCILE;
    index: index::INDEX;
    on_validate: admission::VALIDATE;
    on_mutate: admission::MUTATE;
    subhandler: change::SUBHANDLER;
}

/// See `kopf_rs::on_convert`.
#[proc_macro_attribute]
pub fn on_convert(arguments: TokenStream, function: TokenStream) -> TokenStream {
    convert::expand(arguments.into(), &function.into(), location).into()
}

/// See `kopf_rs::validation_rule`.
#[proc_macro_attribute]
pub fn validation_rule(arguments: TokenStream, constant: TokenStream) -> TokenStream {
    rule::expand(arguments.into(), &constant.into(), location).into()
}

fn declare(kind: &'static Kind, arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand::expand(kind, arguments.into(), &function.into(), location).into()
}

/// Returns the line and the column of a name.
fn location(name: &proc_macro2::Ident) -> (usize, usize) {
    let start = name.span().unwrap().start();
    (start.line(), start.column())
}
