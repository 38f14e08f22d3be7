//! `#[subhandler]`: adds a type with the function's name, whose associated functions build the callback that the
//! parent registers.
//!
//! A function and an empty type may share a name: the function stays unchanged, and `handle::id("a")` is an
//! associated function of the type.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::{ItemFn, Type, parse_quote};

use crate::ast::Function;
use crate::attr::Attribute;

/// Returns the type.
pub(crate) fn named(item: &ItemFn) -> TokenStream {
    let (name, visibility) = (name(item), &item.vis);
    let cfgs = item.attrs.iter().filter(|it| it.path().is_ident("cfg"));
    let text = item.sig.ident.unraw();
    let doc = format!("Makes sub-handlers of the function [`{text}()`]: `{text}::id(\"a\")`.");
    quote! {
        #(#cfgs)*
        #[doc = #doc]
        #visibility enum #name {}
    }
}

/// Returns the functions of the type.
pub(crate) fn methods(
    attribute: &Attribute,
    function: &Function,
    item: &ItemFn,
    call_name: &Ident,
    k: &TokenStream,
) -> TokenStream {
    let (name, way) = (name(item), function.way());
    let text = function.name.unraw().to_string();
    let options = attribute.options.tokens(attribute.kind, k);
    let common = attribute.options.common(k, None);
    let callback = quote! {
        #k::subhandler((#text, id), __KOPF_LOCATION, #common, #options, #k::Function::#way(#call_name))
    };
    let (made, callback) = match wanted(attribute, function) {
        None => (quote!(#k::Callback), callback),
        Some(Wanted::Text) => (quote!(#k::NeedsText), quote!(#k::NeedsText::of(#callback))),
        Some(Wanted::Value(ty)) => (
            quote!(#k::NeedsParam<#ty>),
            quote!(#k::NeedsParam::of(#callback)),
        ),
    };
    quote! {
        impl #name {
            /// The sub-handler, with this id.
            pub fn id(id: impl #k::ToString) -> #made {
                Self::__kopf_made(#k::Option::Some(#k::ToString::to_string(&id)))
            }
            /// The sub-handler, with the id that its attribute says, or the name of the function.
            pub fn handler() -> #made {
                Self::__kopf_made(#k::Option::None)
            }
            fn __kopf_made(id: #k::Option<#k::String>) -> #made {
                #callback
            }
        }
    }
}

/// The value that a parent must pass before the sub-handler can be registered.
enum Wanted<'a> {
    Text,
    Value(&'a Type),
}

fn wanted<'a>(attribute: &Attribute, function: &'a Function) -> Option<Wanted<'a>> {
    let (ty, is_optional) = function.param()?;
    if is_optional || attribute.options.has_param() {
        return None;
    }
    let texts: [Type; 2] = [parse_quote!(str), parse_quote!(String)];
    Some(if texts.contains(ty) {
        Wanted::Text
    } else {
        Wanted::Value(ty)
    })
}

/// Returns the name of the function, marked as macro code so that lints ignore it.
fn name(item: &ItemFn) -> Ident {
    let mut name = item.sig.ident.clone();
    name.set_span(name.span().resolved_at(Span::mixed_site()));
    name
}
