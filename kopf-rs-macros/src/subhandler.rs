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
use crate::registration::{K, cfgs};

/// Returns the type.
pub(crate) fn named(item: &ItemFn) -> TokenStream {
    let (name, visibility) = (name(item), &item.vis);
    let cfgs = cfgs(&item.attrs);
    let text = item.sig.ident.unraw();
    let doc = format!("Makes sub-handlers of the function [`{text}()`]: `{text}::id(\"a\")`.");
    quote! {
        #cfgs
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
) -> TokenStream {
    let (name, way) = (name(item), function.way());
    let (id, options) = (attribute.options.id(&function.name), attribute.options.calls(None));
    let callback = quote!(#K::function(id, __KOPF_LOCATION, #K::Function::#way(#call_name)) #options);
    let (made, callback) = match wanted(attribute, function) {
        None => (quote!(#K::Callback), callback),
        Some(Wanted::Text) => (quote!(#K::NeedsText), quote!(#K::NeedsText::of(#callback))),
        Some(Wanted::Value(ty)) => (quote!(#K::NeedsParam<#ty>), quote!(#K::NeedsParam::of(#callback))),
    };
    quote! {
        impl #name {
            /// The sub-handler, with this id.
            pub fn id(id: impl #K::ToString) -> #made {
                Self::__kopf_made(#K::ToString::to_string(&id))
            }
            /// The sub-handler, with the id that its attribute says, or the name of the function.
            pub fn handler() -> #made {
                Self::__kopf_made(#K::String::from(#id))
            }
            fn __kopf_made(id: #K::String) -> #made {
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
    if is_optional || attribute.options.has("param") {
        return None;
    }
    let texts: [Type; 2] = [parse_quote!(str), parse_quote!(String)];
    Some(if texts.contains(ty) { Wanted::Text } else { Wanted::Value(ty) })
}

/// Returns the name of the function, marked as macro code so that lints ignore it.
fn name(item: &ItemFn) -> Ident {
    let mut name = item.sig.ident.clone();
    name.set_span(name.span().resolved_at(Span::mixed_site()));
    name
}
