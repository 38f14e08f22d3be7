//! Expands declarations into tokens: the unchanged function, followed by its registration.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{FnArg, ItemFn, Meta, Path, ReturnType, Type, parse_quote};

use crate::ast::{Argument, Function, Received};
use crate::attr::Attribute;
use crate::fallback::{Mistakes, expand_item};
use crate::family::{Kind, Returns};
use crate::raise::convert_raised;
use crate::registration::{K, door, hidden_const, submit};
use crate::review::check_review;
use crate::selector::Selector;
use crate::subhandler;

/// Expands the outermost attribute of a function together with those below it, so that each error is reported once.
///
/// `location` returns the line and column of the function's name.
pub(crate) fn expand(
    kind: &'static Kind,
    arguments: TokenStream,
    function: &TokenStream,
    location: impl Fn(&Ident) -> (usize, usize),
) -> TokenStream {
    let misplaced = format!("#[{}] belongs on a function", kind.attribute);
    expand_item(function, &misplaced, |item: &mut ItemFn, mistakes| {
        convert_raised(item);
        let mut attributes = vec![Attribute::parse(kind, arguments, Span::call_site(), mistakes)];
        let framework = attributes[0].framework.clone();
        attributes.extend(take_others(item, framework.as_ref(), mistakes));
        let kinds: Vec<_> = attributes.iter().map(|attribute| attribute.kind).collect();
        let function = Function::read(item, &kinds, mistakes);
        check_param(&function, &attributes, item, mistakes);
        check_returned(&attributes, item, mistakes);
        check_review(&function, &attributes, item, mistakes);
        if !mistakes.is_empty() {
            return None;
        }
        let door = door(attributes.iter().find_map(|it| it.framework.as_ref()));
        let imports = name_patch(item, &function, &door);
        let at = location(&function.name);
        Some(registration(&function, &attributes, item, at, (&door, &imports)))
    })
}

/// Removes our attributes below the outermost one; they may use a custom path to the framework.
fn take_others(item: &mut ItemFn, framework: Option<&Path>, mistakes: &mut Mistakes) -> Vec<Attribute> {
    let mut others = Vec::new();
    for attribute in std::mem::take(&mut item.attrs) {
        let Some(kind) = kind_of(attribute.path(), framework) else {
            item.attrs.push(attribute);
            continue;
        };
        let arguments = match &attribute.meta {
            Meta::List(inside) => inside.tokens.clone(),
            _ => TokenStream::new(),
        };
        others.push(Attribute::parse(kind, arguments, attribute.path().span(), mistakes));
    }
    others
}

/// Returns which of our attributes the path names. An attribute from another module, such as `#[other::timer]`, is
/// not ours.
fn kind_of(path: &Path, framework: Option<&Path>) -> Option<&'static Kind> {
    let mut segments: Vec<_> = path.segments.iter().map(|it| it.ident.to_string()).collect();
    let name = segments.pop()?;
    let framework = framework.and_then(|it| it.segments.last());
    let is_framework = |it: &String| it == "kopf_rs" || framework.is_some_and(|ours| ours.ident == it);
    let is_ours = segments.is_empty() || segments.iter().any(is_framework);
    Kind::of_attribute(&name).filter(|_| is_ours)
}

fn check_param(function: &Function, attributes: &[Attribute], item: &ItemFn, mistakes: &mut Mistakes) {
    let Some((_, false)) = function.param() else {
        return;
    };
    for Attribute { kind, .. } in
        attributes.iter().filter(|it| !it.kind.is_nested() && !it.options.has("param"))
    {
        let message = format!(
            "the function asks for `param`, but #[{}] gives none: add `param = ..` there, or take an `Option`",
            kind.attribute
        );
        mistakes.at(&item.sig.inputs, message);
    }
}

/// Rejects combinations of attributes with different uses of the return value: an index function returns the entries
/// of its index, and a reconcile function returns a requeue request.
fn check_returned(attributes: &[Attribute], item: &ItemFn, mistakes: &mut Mistakes) {
    let of = |it: &&Attribute| it.kind.family.returns;
    let (returns, meaning, own) = match special(attributes) {
        Returns::Result => return,
        Returns::Entries => (Returns::Entries, "goes into its index", "index"),
        Returns::Again => (Returns::Again, "says when it is called again", "reconcile"),
    };
    if let Some(other) = attributes.iter().find(|it| of(it) != returns) {
        let message = format!(
            "what the function returns {meaning}, so it cannot have #[{}] beside #[{own}]: write two functions",
            other.kind.attribute
        );
        mistakes.at(&item.sig.ident, message);
    }
    if returns == Returns::Entries
        && let ReturnType::Type(_, ty) = &item.sig.output
        && matches!(**ty, Type::ImplTrait(_))
    {
        mistakes.at(
            ty,
            "the types of an index are those that its function returns: write a type instead of `impl`",
        );
    }
}

/// Returns how the return value is used, if one of the attributes changes the default.
fn special(attributes: &[Attribute]) -> Returns {
    let mut all = attributes.iter().map(|it| it.kind.family.returns);
    all.find(|it| *it != Returns::Result).unwrap_or(Returns::Result)
}

/// Qualifies the type of `patch: &mut Patch`, so that it also works beside `use kube::api::Patch`. Also returns code
/// that uses the name, so that its import does not become unused.
fn name_patch(item: &mut ItemFn, function: &Function, door: &TokenStream) -> TokenStream {
    let mut imports = TokenStream::new();
    for (input, argument) in item.sig.inputs.iter_mut().zip(&function.arguments) {
        let (FnArg::Typed(typed), Argument::Patch) = (input, argument) else {
            continue;
        };
        let Type::Reference(reference) = &mut *typed.ty else {
            continue;
        };
        let Type::Path(path) = &*reference.elem else {
            continue;
        };
        if let Some(name) = path.path.get_ident().cloned()
            && name == "Patch"
        {
            let span = name.span().resolved_at(Span::mixed_site());
            let imported = Ident::new("Patch", span);
            imports.extend(quote_spanned!(span=> use #imported as _;));
            let door = at(span, door);
            *reference.elem = parse_quote!(#door::#name);
        }
    }
    imports
}

/// Returns the hidden constant beside the function.
fn registration(
    function: &Function,
    attributes: &[Attribute],
    item: &ItemFn,
    place: (usize, usize),
    (door, imports): (&TokenStream, &TokenStream),
) -> TokenStream {
    let call_name = format_ident!("__kopf_call_{}", function.name.unraw(), span = Span::mixed_site());
    let call = call(function, attributes, item, &call_name);
    // As Kopf does, registers stacked attributes from the function outwards.
    let (nested, registered): (Vec<_>, Vec<_>) =
        attributes.iter().rev().partition(|attribute| attribute.kind.is_nested());
    let handler = |it: &&Attribute| handler(it, function, (&call_name, &item.sig.output));
    let mut calls: TokenStream = registered.iter().map(|it| registering(it, &handler(it))).collect();
    // A sub-handler declares its requirements only if no other attribute of the function does.
    if let (true, true, Some(nested)) = (registered.is_empty(), function.takes_injected(), nested.first()) {
        let handler = handler(nested);
        calls = quote!(.requiring(#handler));
    }
    let submit = (!calls.is_empty()).then(|| submit("Function", &function.name, &calls));
    let nested = nested.first();
    let methods = nested.map(|attribute| subhandler::methods(attribute, function, item, &call_name));
    let named = nested.map(|_| subhandler::named(item));
    let registration = hidden_const(&item.attrs, door, place, &quote!(#imports #call #submit #methods));
    quote!(#named #registration)
}

/// Returns the call that registers a handler: that of a closure, since the methods are named like the attributes.
fn registering(attribute: &Attribute, handler: &TokenStream) -> TokenStream {
    let method = Ident::new(attribute.kind.attribute, Span::mixed_site());
    let selector = attribute.selector.as_ref().map(Selector::tokens).into_iter();
    quote!(.#method(#(#selector,)* #handler))
}

/// Returns the handler that one attribute declares.
fn handler(
    attribute: &Attribute,
    function: &Function,
    (call_name, returned): (&Ident, &ReturnType),
) -> TokenStream {
    let Attribute { kind, options, .. } = attribute;
    let (id, way) = (options.id(&function.name), function.way());
    let index = (kind.family.returns == Returns::Entries).then(|| {
        let ty = returned_type(returned);
        quote_spanned!(ty.span()=> .indexing(#K::IndexType::of_function::<#ty>()))
    });
    let param = function.param().map(|(wanted, _)| stored(wanted));
    let options = options.calls(param.as_ref());
    let required = required_state(attribute, function);
    let handler = quote! {
        #K::function(#id, __KOPF_LOCATION, #K::Function::#way(#call_name)) #index #options #(#required)*
    };
    if required.is_empty() { handler } else { quote!({ use #K::GivenToAll as _; #handler }) }
}

/// Returns the return type of a function.
fn returned_type(returned: &ReturnType) -> TokenStream {
    match returned {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => ty.to_token_stream(),
    }
}

/// Returns calls that add the required values and indices of the function's arguments.
fn required_state(attribute: &Attribute, function: &Function) -> Vec<TokenStream> {
    let family = Ident::new(attribute.kind.family.name, Span::mixed_site());
    let arguments = function.arguments.iter();
    let required = arguments.filter_map(|argument| match argument {
        Argument::Injected(ty) => {
            Some(quote!(.requiring(#K::ByType::<#ty, #K::family::#family>::required_state())))
        }
        Argument::Index(name, ty, _) => {
            let name = name_of_index(name);
            Some(quote_spanned!(ty.span()=> .reading(<#ty as #K::IndexArgument>::required(#name))))
        }
        _ => None,
    });
    required.collect()
}

/// Returns the id of the requested index: the name of the argument, without the leading underscores of unused
/// arguments.
fn name_of_index(name: &Ident) -> String {
    name.unraw().to_string().trim_start_matches('_').to_owned()
}

/// Returns the type in which a `param` is stored: text is stored as the string literal that the user wrote.
fn stored(wanted: &Type) -> TokenStream {
    let str_type: Type = parse_quote!(str);
    if *wanted == str_type { quote!(&'static str) } else { quote!(#wanted) }
}

/// Returns the function that makes the arguments and calls the user's function.
fn call(function: &Function, attributes: &[Attribute], item: &ItemFn, call_name: &Ident) -> TokenStream {
    let (cause, patch) = (hidden("cause"), hidden("patch"));
    let made: Vec<_> = (0..).zip(&function.arguments).map(|(n, argument)| made(n, argument)).collect();
    let asked = function.arguments.iter();
    let asked = asked.filter_map(|argument| asked_for(argument, attributes));
    let status = function.status();
    let status = status.map(|n| numbered(n, &function.arguments[n]));
    let passed = (0..).zip(&function.arguments).map(|(n, argument)| passed(n, argument, status.as_ref()));
    let name = &function.name;
    let output = match &item.sig.output {
        ReturnType::Default => name.span(),
        ReturnType::Type(_, ty) => ty.span(),
    };
    let called = quote_spanned!(name.span()=> #name(#(#passed),*));
    let returned = if function.is_async {
        let sendable = quote_spanned!(name.span()=> #K::handler_future_must_be_send(#called));
        quote!(#sendable.await)
    } else {
        called
    };
    // Use one span for all tokens; otherwise, compiler messages point to the attribute.
    let value = Ident::new("__kopf_returned", output);
    let convert = match special(attributes) {
        Returns::Entries => quote_spanned!(output=> #K::index_returned(#cause, #value)),
        Returns::Again => quote_spanned!(output=> #K::reconcile_returned(#cause, #value)),
        Returns::Result => quote_spanned!(output=> (&#value).__kopf_kind().convert(#value)),
    };
    let convert = match &status {
        Some(status) => quote!(#status.end(#convert)),
        None => convert,
    };
    let body = quote! {
        use #K::{AnyKind as _, GivenToAll as _, LocalBoxKind as _};
        #(#asked)*
        #(#made)*
        let #value = #returned;
        #convert
    };
    if function.is_async {
        quote! {
            fn #call_name<'a>(#cause: &'a #K::Cause, #patch: &'a mut #K::Patch) -> #K::Calling<'a> {
                #K::Box::pin(async move { #body })
            }
        }
    } else {
        quote! {
            fn #call_name(#cause: &#K::Cause, #patch: &mut #K::Patch) -> #K::Returned {
                #body
            }
        }
    }
}

/// Returns statements that compile only if each family supports an argument that is resolved by type.
fn asked_for(argument: &Argument, attributes: &[Attribute]) -> Option<TokenStream> {
    let Argument::Injected(ty) = argument else {
        return None;
    };
    let mut families: Vec<_> = attributes.iter().map(|it| it.kind.family.name).collect();
    families.sort_unstable();
    families.dedup();
    // Use the span of the type, where the compiler message belongs, for the framework's alias, too.
    let families = families.into_iter().map(|name| Ident::new(name, ty.span()));
    Some(quote_spanned! {ty.span()=>
        #(__kopf::ByType::<#ty, __kopf::family::#families>::is_given();)*
    })
}

/// Returns the statements that make one argument.
fn made(n: usize, argument: &Argument) -> TokenStream {
    let (value, cause) = (numbered(n, argument), hidden("cause"));
    match argument {
        Argument::Patch => TokenStream::new(),
        Argument::Status(ty) => {
            let (lent, patch) =
                (quote_spanned!(ty.span()=> <#ty as #K::StatusArgument>::lend), hidden("patch"));
            quote_spanned!(ty.span()=> let mut #value = #lent(#cause, #patch)?;)
        }
        Argument::Index(name, ty, _) => {
            let name = name_of_index(name);
            let made = quote_spanned!(ty.span()=> <#ty as #K::IndexArgument>::of);
            quote!(let #value = #made(#cause, #name)?;)
        }
        Argument::Injected(ty) => {
            let made = quote_spanned!(ty.span()=> <#ty as #K::FromCause<'_>>::from_cause);
            quote!(let #value = #made(#cause)?;)
        }
        Argument::Field(path, received) => {
            let ty = owned(&received.ty);
            let (stanza, names) = (path[0].unraw().to_string(), &path[1..]);
            let names = names.iter().map(|name| name.unraw().to_string());
            let method = if received.is_optional { quote!(field_if_any) } else { quote!(field) };
            let made = quote_spanned!(ty.span()=> #K::#method::<#ty>);
            quote!(let #value = #made(#cause, #stanza, &[#(#names),*])?;)
        }
        Argument::Named(name, received) => {
            let ty = &received.ty;
            let (by, method) = match (received.is_lent, received.is_optional) {
                (false, false) => (quote!(GivenAs), quote!(from_arg)),
                (false, true) => (quote!(GivenAs), quote!(from_arg_if_any)),
                (true, false) => (quote!(LentAs), quote!(hold)),
                (true, true) => (quote!(LentAs), quote!(hold_if_any)),
            };
            let made = quote_spanned!(ty.span()=> <#ty as #K::#by<'_, #K::arg::#name>>::#method);
            quote!(let #value = #made(#cause)?;)
        }
    }
}

/// Returns the expression that is passed for one argument. While the status is borrowed mutably, its guard holds the
/// patch.
fn passed(n: usize, argument: &Argument, status: Option<&Ident>) -> TokenStream {
    let value = numbered(n, argument);
    match argument {
        Argument::Patch => match status {
            Some(status) => quote!(&mut *#status.patch),
            None => hidden("patch").to_token_stream(),
        },
        Argument::Status(ty) => quote_spanned!(made_at(ty)=> &mut #value.status),
        Argument::Index(_, ty, true) => quote_spanned!(made_at(ty)=> &#value),
        Argument::Named(_, Received { ty, is_lent: true, is_optional }) => match is_optional {
            false => quote_spanned!(made_at(ty)=> &*#value),
            true => quote_spanned!(made_at(ty)=> #value.as_deref()),
        },
        Argument::Field(_, Received { ty, is_lent: true, is_optional }) => match is_optional {
            false => quote_spanned!(made_at(ty)=> &#value),
            true if *ty == parse_quote!(str) => quote_spanned!(made_at(ty)=> #value.as_deref()),
            true => quote_spanned!(made_at(ty)=> #value.as_ref()),
        },
        _ => value.to_token_stream(),
    }
}

/// Returns the type to deserialize for a field that is taken by reference.
fn owned(ty: &Type) -> TokenStream {
    match ty {
        Type::Path(path) if path.path.is_ident("str") => {
            quote_spanned!(ty.span()=> ::std::string::String)
        }
        Type::Slice(slice) => {
            let element = &slice.elem;
            quote_spanned!(ty.span()=> ::std::vec::Vec<#element>)
        }
        _ => ty.to_token_stream(),
    }
}

/// Returns the span for messages about an argument, marked as macro code so that lints ignore it.
fn made_at(ty: &Type) -> Span {
    ty.span().resolved_at(Span::mixed_site())
}

fn hidden(name: &str) -> Ident {
    Ident::new(&format!("__kopf_{name}"), Span::mixed_site())
}

/// Returns the variable of an argument with the span of its type, so that the compiler merges messages about both
/// into one.
fn numbered(n: usize, argument: &Argument) -> Ident {
    let place = match argument {
        Argument::Patch => Span::mixed_site(),
        Argument::Injected(ty) | Argument::Index(_, ty, _) | Argument::Status(ty) => ty.span(),
        Argument::Named(_, received) | Argument::Field(_, received) => received.ty.span(),
    };
    Ident::new(&format!("__kopf_argument_{n}"), place)
}

/// Returns the same tokens with another span, so that compiler messages point there.
fn at(span: Span, tokens: &TokenStream) -> TokenStream {
    let tokens = tokens.clone().into_iter().map(|mut token| {
        token.set_span(span);
        token
    });
    tokens.collect()
}
