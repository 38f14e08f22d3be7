//! `#[subhandler]`: beside the function stands a type of its name, whose functions make what the parent registers.
//!
//! A function and an empty type may have the same name: the function stays what it is, and `handle::id("a")` is a function of the type.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::{ItemFn, Type, parse_quote};

use crate::ast::Function;
use crate::attr::Attribute;

/// The type.
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

/// The functions of the type.
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

/// What a parent must give before the sub-handler can be registered.
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

/// The name of the function, in code that lints do not look into.
fn name(item: &ItemFn) -> Ident {
    let mut name = item.sig.ident.clone();
    name.set_span(name.span().resolved_at(Span::mixed_site()));
    name
}
