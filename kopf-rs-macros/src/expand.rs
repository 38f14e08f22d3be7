//! Declarations into tokens: the function as it was, and beside it what registers it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{ItemFn, Meta, Type, parse_quote};

use crate::ast::{Argument, Function, Received};
use crate::attr::Attribute;
use crate::fallback::{Mistakes, refused};
use crate::kind::Kind;

/// Expand the outermost attribute of a function together with those below it, so that each mistake is reported once.
///
/// `place` tells the line and column of the function's name.
pub(crate) fn expand(
    kind: Kind,
    arguments: TokenStream,
    function: TokenStream,
    place: impl Fn(&Ident) -> (usize, usize),
) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let Ok(mut item) = syn::parse2::<ItemFn>(function.clone()) else {
        let message = format!("#[{}] belongs on a function", kind.attribute());
        mistakes.push(syn::Error::new(Span::call_site(), message));
        return refused(&function, &mistakes);
    };
    let mut attributes = vec![Attribute::parse(
        kind,
        arguments,
        Span::call_site(),
        &mut mistakes,
    )];
    attributes.extend(take_others(&mut item, &mut mistakes));
    let kinds: Vec<_> = attributes.iter().map(|attribute| attribute.kind).collect();
    let function = Function::read(&mut item, &kinds, &mut mistakes);
    check_param(&function, &attributes, &item, &mut mistakes);
    if !mistakes.is_empty() {
        return refused(&item.to_token_stream(), &mistakes);
    }
    let at = place(&function.name);
    let registration = registration(&function, &attributes, &item, at);
    quote! {
        #item
        #registration
    }
}

/// The attributes of ours below the outermost one.
fn take_others(item: &mut ItemFn, mistakes: &mut Mistakes) -> Vec<Attribute> {
    let mut others = Vec::new();
    for attribute in std::mem::take(&mut item.attrs) {
        let last = attribute.path().segments.last();
        let Some(kind) = last.and_then(|last| Kind::of_attribute(&last.ident.to_string())) else {
            item.attrs.push(attribute);
            continue;
        };
        let arguments = match &attribute.meta {
            Meta::List(list) => list.tokens.clone(),
            _ => TokenStream::new(),
        };
        others.push(Attribute::parse(
            kind,
            arguments,
            attribute.path().span(),
            mistakes,
        ));
    }
    others
}

fn check_param(
    function: &Function,
    attributes: &[Attribute],
    item: &ItemFn,
    mistakes: &mut Mistakes,
) {
    let Some((_, false)) = function.param() else {
        return;
    };
    for attribute in attributes
        .iter()
        .filter(|attribute| !attribute.options.has_param())
    {
        let message = format!(
            "the function asks for `param`, but #[{}] gives none: add `param = ..` there, or take an `Option`",
            attribute.kind.attribute()
        );
        mistakes.at(&item.sig.inputs, message);
    }
}

/// The hidden constant beside the function.
fn registration(
    function: &Function,
    attributes: &[Attribute],
    item: &ItemFn,
    (line, column): (usize, usize),
) -> TokenStream {
    let framework = attributes
        .iter()
        .find_map(|attribute| attribute.framework.as_ref());
    let door = framework.map_or_else(|| quote!(::kopf_rs), ToTokens::to_token_stream);
    // Short, for those who read expansions.
    let k = quote!(__kopf);
    let id = function.name.unraw().to_string();
    let (line, column) = [line, column]
        .map(|n| u32::try_from(n).unwrap_or(u32::MAX))
        .into();
    let call_name = format_ident!(
        "__kopf_call_{}",
        function.name.unraw(),
        span = Span::mixed_site()
    );
    let call = call(function, item, &call_name, &k);
    let way = if function.is_async {
        quote!(Async)
    } else {
        quote!(Blocking)
    };
    // Kopf registers stacked decorators from the function outwards.
    let decls = attributes.iter().rev().map(|attribute| {
        let variant = attribute.kind.variant();
        let selector = attribute
            .selector
            .as_ref()
            .map(|selector| selector.tokens(&k));
        let selector = match selector {
            Some(selector) => quote!(#k::Option::Some(#selector)),
            None => quote!(#k::Option::None),
        };
        let param = function.param().map(|(wanted, _)| stored(wanted));
        let options = attribute.options.tokens(&k, param.as_ref());
        quote! {
            #k::Decl {
                name: #id,
                place: __KOPF_PLACE,
                kind: #k::HandlerKind::#variant,
                selector: #selector,
                options: || #options,
                call: #k::Call::#way(#call_name),
            }
        }
    });
    let cfgs = item
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"));
    quote! {
        #(#cfgs)*
        const _: () = {
            use #door::__private as #k;
            #call
            const __KOPF_PLACE: #k::Place = #k::Place {
                package: ::core::env!("CARGO_PKG_NAME"),
                file: ::core::file!(),
                line: #line,
                column: #column,
                module: ::core::module_path!(),
            };
            const __KOPF_DECLS: &[#k::Decl] = &[#(#decls),*];
            #k::submit! { #k::Declared(__KOPF_DECLS) }
        };
    }
}

/// In which type a `param` is kept: text is kept as the literal it is written as.
fn stored(wanted: &Type) -> TokenStream {
    let str_type: Type = parse_quote!(str);
    if *wanted == str_type {
        quote!(&'static str)
    } else {
        quote!(#wanted)
    }
}

/// The function that makes the arguments and calls the user's.
fn call(function: &Function, item: &ItemFn, call_name: &Ident, k: &TokenStream) -> TokenStream {
    let (cause, patch) = (hidden("cause"), hidden("patch"));
    let made: Vec<_> = (0..)
        .zip(&function.arguments)
        .map(|(n, argument)| made(n, argument, k))
        .collect();
    let passed = (0..)
        .zip(&function.arguments)
        .map(|(n, argument)| passed(n, argument, k));
    let name = &function.name;
    let output = item.sig.output.span();
    let called = quote_spanned!(name.span()=> #name(#(#passed),*));
    let returned = if function.is_async {
        let sendable = quote_spanned!(name.span()=> #k::handler_future_must_be_send(#called));
        quote!(#sendable.await)
    } else {
        called
    };
    let value = hidden("returned");
    let convert = quote_spanned! {output=>
        (&#value).__kopf_kind().convert(#value)
    };
    let body = quote! {
        use #k::{AnyKind as _, LocalBoxKind as _};
        #(#made)*
        let #value = #returned;
        #convert
    };
    if function.is_async {
        quote! {
            fn #call_name<'a>(#cause: &'a #k::Cause, #patch: &'a mut #k::Patch) -> #k::Calling<'a> {
                #k::Box::pin(async move { #body })
            }
        }
    } else {
        quote! {
            fn #call_name(#cause: &#k::Cause, #patch: &mut #k::Patch) -> #k::Returned {
                #body
            }
        }
    }
}

/// Statements that make one argument.
fn made(n: usize, argument: &Argument, k: &TokenStream) -> TokenStream {
    let (value, cause) = (numbered(n), hidden("cause"));
    match argument {
        Argument::Patch => TokenStream::new(),
        Argument::Injected(ty) => {
            let made = quote_spanned!(ty.span()=> <#ty as #k::FromCause<'_>>::from_cause);
            quote!(let #value = #made(#cause)?;)
        }
        Argument::Named(name, received) => {
            let (ty, by, method) = match received {
                Received::Owned(ty) => (ty, "FromArg", "from_arg"),
                Received::OwnedIfAny(ty) => (ty, "FromArg", "from_arg_if_any"),
                Received::Lent(ty) => (ty, "LendArg", "hold"),
                Received::LentIfAny(ty) => (ty, "LendArg", "hold_if_any"),
            };
            let [by, method] = [by, method].map(|name| Ident::new(name, received.span()));
            let made =
                quote_spanned!(received.span()=> <#ty as #k::#by<'_, #k::arg::#name>>::#method);
            quote!(let #value = #made(#cause)?;)
        }
    }
}

/// What is passed for one argument.
fn passed(n: usize, argument: &Argument, k: &TokenStream) -> TokenStream {
    let value = numbered(n);
    match argument {
        Argument::Patch => hidden("patch").to_token_stream(),
        Argument::Named(name, Received::Lent(ty)) => {
            quote_spanned!(ty.span()=> <#ty as #k::LendArg<'_, #k::arg::#name>>::lend(&#value))
        }
        Argument::Named(name, Received::LentIfAny(ty)) => {
            quote_spanned!(ty.span()=> #value.as_ref().map(<#ty as #k::LendArg<'_, #k::arg::#name>>::lend))
        }
        _ => value.to_token_stream(),
    }
}

fn hidden(name: &str) -> Ident {
    Ident::new(&format!("__kopf_{name}"), Span::mixed_site())
}

fn numbered(n: usize) -> Ident {
    hidden(&format!("argument_{n}"))
}
