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
mod option;
mod raise;
mod registration;
mod review;
mod rule;
mod selector;
mod subhandler;
mod syntax;

#[cfg(test)]
mod closures;
#[cfg(test)]
mod golden;

use crate::family::Kind;

/// Defines one macro per attribute.
macro_rules! attributes {
    ($($kind:ident $name:ident $family:ident [$($options:expr),*];)*) => {
    $(
        #[doc = concat!("See `kopf_rs::", stringify!($name), "`.")]
        #[proc_macro_attribute]
        pub fn $name(arguments: TokenStream, function: TokenStream) -> TokenStream {
            declare(stringify!($name), arguments, function)
        }
    )*

    /// All attributes.
    static KINDS: [&Kind; [$(stringify!($name)),*].len()] = [
        $(&Kind { attribute: stringify!($name), family: &family::$family }),*
    ];
    };
}
kopf_rs_schedule::kinds!(attributes);

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

fn declare(attribute: &str, arguments: TokenStream, function: TokenStream) -> TokenStream {
    let kind = Kind::of_attribute(attribute).expect("all attributes are in the table");
    expand::expand(kind, arguments.into(), &function.into(), location).into()
}

/// Returns the line and the column of a name.
fn location(name: &proc_macro2::Ident) -> (usize, usize) {
    let start = name.span().unwrap().start();
    (start.line(), start.column())
}
