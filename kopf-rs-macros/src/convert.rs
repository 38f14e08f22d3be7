//! `on_convert`: keeps a plain function between two versions of a resource, and adds its registration.
//!
//! The attribute is separate from the families, since it declares no handler: there is no cause, and the single
//! argument selects the part of an object to convert.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, FnArg, ItemFn, Pat, Path, ReturnType, Signature, Type};

use crate::ast::check_signature;
use crate::attr::Arguments;
use crate::fallback::{Mistakes, expand_item};
use crate::family::{Kind, NO_FAMILY};
use crate::hint::{did_you_mean, did_you_mean_or};
use crate::option::Given;
use crate::raise::convert_raised;
use crate::registration::{K, door, hidden_const, submit};
use crate::selector::definition;
use crate::syntax::text;

const EXAMPLE: &str = "`#[on_convert(\"myapps.example.com\", from = \"v1alpha1\", to = \"v1\")]`, or `#[on_convert(from = v1alpha1::MyApp, to = v1::MyApp)]`";

/// The argument names, with the parts that they select.
const PARTS: [(&str, &str); 3] = [("spec", "Spec"), ("status", "Status"), ("object", "Object")];

/// Describes the attribute like the others, so that its arguments can be parsed.
static CONVERT: Kind = Kind { attribute: "on_convert", family: &NO_FAMILY };

/// The arguments of the attribute.
struct Versions {
    words: Vec<Expr>,
    from: Option<Expr>,
    to: Option<Expr>,
    framework: Option<Path>,
}

/// The single argument of the function.
struct Argument {
    part: Ident,
    ty: Type,
    is_lent: bool,
}

/// Expands the attribute.
pub(crate) fn expand(
    arguments: TokenStream,
    function: &TokenStream,
    location: impl Fn(&Ident) -> (usize, usize),
) -> TokenStream {
    expand_item(function, "#[on_convert] belongs on a function", |item: &mut ItemFn, mistakes| {
        convert_raised(item);
        let versions = Versions::read(arguments, mistakes);
        let selectors = versions.selectors(mistakes);
        let argument = argument(&item.sig, mistakes);
        check(item, mistakes);
        let at = location(&item.sig.ident);
        Some(registration(item, &argument?, selectors?, at, versions.framework.as_ref()))
    })
}

impl Versions {
    fn read(arguments: TokenStream, mistakes: &mut Mistakes) -> Self {
        let (mut from, mut to) = (None, None);
        let take = |key: &Ident, given, mistakes: &mut Mistakes| {
            let slot = match (key.to_string().as_str(), given) {
                ("from", Given::Expr(expr)) => (&mut from, expr),
                ("to", Given::Expr(expr)) => (&mut to, expr),
                ("from" | "to", _) => {
                    return mistakes.at(key, format!("`{key}` needs a value, such as {EXAMPLE}"));
                }
                (other, _) => return mistakes.at(key, no_option(other)),
            };
            if slot.0.replace(slot.1).is_some() {
                mistakes.at(key, format!("`{key}` is given twice"));
            }
        };
        let Arguments { named, framework } = Arguments::read(&CONVERT, arguments, mistakes, take);
        for (key, _) in named.keywords {
            mistakes.at(&key, no_option(&key.to_string()));
        }
        Self { words: named.words, from, to, framework }
    }

    /// Returns the selectors of both versions.
    fn selectors(&self, mistakes: &mut Mistakes) -> Option<[TokenStream; 2]> {
        let before = mistakes.len();
        let (Some(from), Some(to)) = (&self.from, &self.to) else {
            let message = format!("say from which version to which other one: {EXAMPLE}");
            mistakes.at_attribute(message);
            return None;
        };
        if self.words.len() > 2 {
            let message = format!(
                "two words name a resource at most, the group and the plural name: `from` and `to` are its versions, such as {EXAMPLE}"
            );
            mistakes.at(&self.words[2], message);
        }
        for side in [from, to] {
            let message = match (text(side), self.words.first()) {
                (Some(_), Some(_)) | (None, None) if is_type(side) || text(side).is_some() => {
                    continue;
                }
                (Some(_), None) => format!("say of which resource this is a version: {EXAMPLE}"),
                (None, Some(_)) if is_type(side) => format!(
                    "a type names its resource: leave out the words in front, or write a version in quotes: {EXAMPLE}"
                ),
                _ => format!("expected a version in quotes, or a type: {EXAMPLE}"),
            };
            mistakes.at(side, message);
        }
        if text(from).is_some() && text(from) == text(to) {
            mistakes.at(to, "`from` and `to` are the same version");
        }
        (mistakes.len() == before).then(|| [self.selector(from), self.selector(to)])
    }

    fn selector(&self, version: &Expr) -> TokenStream {
        let k = quote_spanned!(version.span().resolved_at(Span::mixed_site())=> __kopf);
        if text(version).is_none() {
            let definition = definition(version);
            return quote_spanned!(version.span()=> #k::Selector::of::<#version>().defined_by(#definition));
        }
        let words = &self.words;
        quote! {
            #k::Selector::positional(&[#(#words),*])
                .map(|mut selector| { selector.version = #k::Option::Some(#k::String::from(#version)); selector })
        }
    }
}

fn no_option(name: &str) -> String {
    let example = format!("; it is written so: {EXAMPLE}");
    let advice = did_you_mean_or(&example, name, &["from", "to"]);
    format!("#[on_convert] has no option `{name}`{advice}")
}

fn is_type(expr: &Expr) -> bool {
    let Expr::Path(path) = expr else { return false };
    let last = path.path.segments.last();
    last.is_some_and(|it| {
        let name = it.ident.unraw().to_string();
        name.starts_with(|first: char| first.is_uppercase())
    })
}

/// Reports errors of the function, except those of its argument.
fn check(item: &ItemFn, mistakes: &mut Mistakes) {
    mistakes.if_any(
        item.sig.asyncness.as_ref(),
        "a conversion is a plain `fn`: the API server waits for it, so it must not wait for anything",
    );
    check_signature(&item.sig, mistakes);
    if matches!(item.sig.output, ReturnType::Default) {
        mistakes.at(
            &item.sig,
            "a conversion returns what the part is in the other version: a value, or a `Result` of one",
        );
    }
    for attribute in &item.attrs {
        let last = attribute.path().segments.last();
        let kind = last.and_then(|it| Kind::of_attribute(&it.ident.to_string()));
        if let Some(kind) = kind {
            let message = format!(
                "a conversion is no handler: it cannot have #[{}] beside #[on_convert]",
                kind.attribute
            );
            mistakes.at(attribute, message);
        }
    }
}

fn argument(signature: &Signature, mistakes: &mut Mistakes) -> Option<Argument> {
    let one =
        "a conversion has one argument, whose name says what is converted: `spec`, `status` or `object`";
    let mut inputs = signature.inputs.iter();
    let (Some(input), None) = (inputs.next(), inputs.next()) else {
        match signature.inputs.iter().nth(1) {
            Some(second) => mistakes.at(second, one),
            None => mistakes.at(signature, one),
        }
        return None;
    };
    let FnArg::Typed(typed) = input else {
        mistakes.at(input, one);
        return None;
    };
    let Pat::Ident(name) = &*typed.pat else {
        mistakes.at(&typed.pat, one);
        return None;
    };
    let written = name.ident.unraw().to_string();
    let known = PARTS.iter().find(|(name, _)| *name == written.trim_start_matches('_'));
    let Some((_, part)) = known else {
        let hint = did_you_mean(&written, &PARTS.map(|(name, _)| name));
        let message = format!("unknown argument `{written}`{hint}\n{one}");
        mistakes.at(&name.ident, message);
        return None;
    };
    let (ty, is_lent) = match &*typed.ty {
        Type::Reference(lent) if lent.mutability.is_some() => {
            let message = "what is converted cannot be changed in place: take it by value, and return it";
            mistakes.at(&typed.ty, message);
            return None;
        }
        Type::Reference(lent) => ((*lent.elem).clone(), true),
        ty => (ty.clone(), false),
    };
    Some(Argument { part: Ident::new(part, Span::mixed_site()), ty, is_lent })
}

/// Returns the hidden constant beside the function.
fn registration(
    item: &ItemFn,
    argument: &Argument,
    [from, to]: [TokenStream; 2],
    place: (usize, usize),
    framework: Option<&Path>,
) -> TokenStream {
    let name = &item.sig.ident;
    let text = name.unraw().to_string();
    let call_name = format_ident!("__kopf_convert_{}", name.unraw(), span = Span::mixed_site());
    let Argument { part, ty, is_lent } = argument;
    let [given, read, returned] =
        ["given", "read", "returned"].map(|it| format_ident!("__kopf_{it}", span = Span::mixed_site()));
    let made = quote_spanned!(ty.span()=> #given.read::<#ty>()?);
    let passed = if *is_lent { quote!(&#read) } else { quote!(#read) };
    let output = match &item.sig.output {
        ReturnType::Default => name.span(),
        ReturnType::Type(_, ty) => ty.span(),
    };
    let returned = Ident::new(&returned.to_string(), output);
    let convert = quote_spanned!(output=> (&#returned).__kopf_converted().convert(#returned));
    let conversion = quote! {
        #K::conversion_function(#text, __KOPF_LOCATION, #K::ConvertedPart::#part, #call_name)
    };
    let calls = quote!(.on_convert(#from, #to, #conversion));
    let submit = submit("Conversion", name, &calls);
    let registration = quote! {
        fn #call_name(#given: &#K::ConversionInput<'_>) -> #K::Returned {
            use #K::{ConvertedResult as _, ConvertedValue as _};
            let #read = #made;
            let #returned = #name(#passed);
            #convert
        }
        #submit
    };
    hidden_const(&item.attrs, &door(framework), place, &registration)
}
