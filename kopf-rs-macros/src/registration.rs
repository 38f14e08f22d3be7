//! The common parts of the hidden constants beside annotated items.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
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

/// Returns the hidden constant beside an item with these attributes, whose name is at `place`. `content` can use the
/// constant `__KOPF_LOCATION`.
pub(crate) fn hidden_const(
    attributes: &[Attribute],
    door: &TokenStream,
    (line, column): (usize, usize),
    content: &TokenStream,
) -> TokenStream {
    let cfgs = cfgs(attributes);
    let [line, column] = [line, column].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    quote! {
        #cfgs
        const _: () = {
            use #door::__private as #K;
            const __KOPF_LOCATION: #K::SourceLocation = #K::SourceLocation {
                package: ::core::env!("CARGO_PKG_NAME"),
                file: ::core::file!(),
                line: #line,
                column: #column,
                module: ::core::module_path!(),
            };
            #content
        };
    }
}

/// Returns the registration of an item within the hidden constant: calls of methods of the framework's `Registry`.
pub(crate) fn submit(item: &str, name: &Ident, calls: &TokenStream) -> TokenStream {
    let item = Ident::new(item, Span::mixed_site());
    let name = name.unraw().to_string();
    quote! {
        fn __kopf_register(__kopf_registry: #K::Registry) -> #K::Registry {
            __kopf_registry #calls
        }
        #K::submit! {
            #K::Declared {
                item: #K::Item::#item,
                name: #name,
                location: __KOPF_LOCATION,
                register: __kopf_register,
            }
        }
    }
}
