//! The attributes of kopf-rs. Documented where users meet them: at the re-exports of `kopf-rs`.
//!
//! Syntax in, declarations out, messages worded as fixes. Must not know any meaning that the framework can check by type.

#![forbid(unsafe_code)]

use proc_macro::TokenStream;

mod ast;
mod attr;
mod expand;
mod fallback;
mod hint;
mod kind;
mod option;
mod selector;

#[cfg(test)]
mod golden;

use crate::kind::Kind;

/// See `kopf_rs::on_create`.
#[proc_macro_attribute]
pub fn on_create(arguments: TokenStream, function: TokenStream) -> TokenStream {
    declare(Kind::Create, arguments, function)
}

/// See `kopf_rs::on_update`.
#[proc_macro_attribute]
pub fn on_update(arguments: TokenStream, function: TokenStream) -> TokenStream {
    declare(Kind::Update, arguments, function)
}

/// See `kopf_rs::on_delete`.
#[proc_macro_attribute]
pub fn on_delete(arguments: TokenStream, function: TokenStream) -> TokenStream {
    declare(Kind::Delete, arguments, function)
}

/// See `kopf_rs::on_resume`.
#[proc_macro_attribute]
pub fn on_resume(arguments: TokenStream, function: TokenStream) -> TokenStream {
    declare(Kind::Resume, arguments, function)
}

/// See `kopf_rs::on_field`.
#[proc_macro_attribute]
pub fn on_field(arguments: TokenStream, function: TokenStream) -> TokenStream {
    declare(Kind::Field, arguments, function)
}

/// See `kopf_rs::on_event`.
#[proc_macro_attribute]
pub fn on_event(arguments: TokenStream, function: TokenStream) -> TokenStream {
    declare(Kind::Event, arguments, function)
}

/// See `kopf_rs::on_startup`.
#[proc_macro_attribute]
pub fn on_startup(arguments: TokenStream, function: TokenStream) -> TokenStream {
    declare(Kind::Startup, arguments, function)
}

/// See `kopf_rs::on_cleanup`.
#[proc_macro_attribute]
pub fn on_cleanup(arguments: TokenStream, function: TokenStream) -> TokenStream {
    declare(Kind::Cleanup, arguments, function)
}

fn declare(kind: Kind, arguments: TokenStream, function: TokenStream) -> TokenStream {
    let place = |name: &proc_macro2::Ident| {
        let start = name.span().unwrap().start();
        (start.line(), start.column())
    };
    expand::expand(kind, arguments.into(), &function.into(), place).into()
}
