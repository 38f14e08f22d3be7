//! What the hidden constants beside annotated items have in common.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Attribute, Path};

/// The framework, within a hidden constant. A short alias keeps expansions readable.
pub(crate) struct K;

impl ToTokens for K {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        Ident::new("__kopf", Span::call_site()).to_tokens(tokens);
    }
}

/// Returns the path to the framework.
pub(crate) fn door(framework: Option<&Path>) -> TokenStream {
    framework.map_or_else(|| quote!(::kopf_rs), ToTokens::to_token_stream)
}

/// Returns `Some(value)`.
pub(crate) fn some(value: &TokenStream) -> TokenStream {
    quote!(#K::Option::Some(#value))
}

/// Returns the attributes of an item that can remove it, and must remove its registration, too.
pub(crate) fn cfgs(attributes: &[Attribute]) -> TokenStream {
    let cfgs = attributes.iter().filter(|it| it.path().is_ident("cfg"));
    quote!(#(#cfgs)*)
}

/// Returns the hidden constant beside an item with these attributes.
pub(crate) fn hidden_const(
    attributes: &[Attribute],
    door: &TokenStream,
    content: &TokenStream,
) -> TokenStream {
    let cfgs = cfgs(attributes);
    quote! {
        #cfgs
        const _: () = {
            use #door::__private as #K;
            #content
        };
    }
}

/// Returns the source location of an item's name.
pub(crate) fn source_location((line, column): (usize, usize)) -> TokenStream {
    let [line, column] = [line, column].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    quote! {
        #K::SourceLocation {
            package: ::core::env!("CARGO_PKG_NAME"),
            file: ::core::file!(),
            line: #line,
            column: #column,
            module: ::core::module_path!(),
        }
    }
}
