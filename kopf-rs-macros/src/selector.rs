//! Parses the selector of an attribute: positional words, keywords, `everything`, or a Rust type.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprClosure, ExprPath, Ident, PathSegment};

use crate::fallback::Mistakes;
use crate::family::Kind;
use crate::hint::did_you_mean;
use crate::registration::{K, some};
use crate::syntax::{is_word, text, variant};

/// A parsed selector.
pub(crate) struct Selector {
    name: Name,
    group: Option<Expr>,
    version: Option<Expr>,
}

enum Name {
    /// Up to three words, as in Kopf.
    Positional(Vec<Expr>),
    /// All resources, of a group and version if these words are given.
    Everything(Vec<Expr>),
    /// `kind = ".."` and its siblings.
    Keyword(Ident, Expr),
    Type(ExprPath),
    /// A name in capitals: a constant, or a type with such a name.
    Constant(ExprPath),
    /// A function of the resource.
    Function(ExprClosure),
}

const FORMS: &str = "such as `\"example.com\", \"v1\", \"myapps\"`, `\"myapps.example.com\"`, `\"myapps\"`, `kind = \"MyApp\"`, `everything`, a Rust type, or a constant of such words";

/// The arguments of an attribute that name a resource.
#[derive(Default)]
pub(crate) struct Named {
    pub(crate) words: Vec<Expr>,
    pub(crate) keywords: Vec<(Ident, Expr)>,
}

impl Selector {
    /// Returns `None` for activities, and after errors. `place` is the location for an error if the resource is not
    /// named.
    pub(crate) fn read(
        kind: &Kind,
        Named { words, keywords }: Named,
        place: Option<Span>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        if !kind.has_selector() {
            let misplaced = words.first().map(Spanned::span);
            let misplaced = misplaced.or_else(|| keywords.first().map(|(key, _)| key.span()));
            if let Some(misplaced) = misplaced {
                let whose = if kind.is_nested() { "the object of its parent" } else { "no resource" };
                let message = format!("#[{}] is for {whose}: remove the selector", kind.attribute);
                mistakes.push(syn::Error::new(misplaced, message));
            }
            return None;
        }
        let before = mistakes.len();
        let (mut group, mut version, mut names) = (None, None, Vec::new());
        for (key, expr) in keywords {
            check_word(&key.to_string(), &expr, mistakes);
            match key.to_string().as_str() {
                "group" => group = Some((key, expr)),
                "version" => version = Some((key, expr)),
                _ => names.push((key, expr)),
            }
        }
        let scope = group.as_ref().or(version.as_ref()).map(|(key, _)| key.clone());
        let name = Name::read(words, names, scope, place, mistakes);
        (mistakes.len() == before).then_some(())?;
        Some(Self { name: name?, group: group.map(|(_, expr)| expr), version: version.map(|(_, expr)| expr) })
    }

    /// Parses one kind in a list: a type, a text, a constant, or a tuple of words.
    pub(crate) fn of_kind(kind: &Expr, mistakes: &mut Mistakes) -> Option<Self> {
        let before = mistakes.len();
        let words = match kind {
            Expr::Tuple(words) => words.elems.iter().cloned().collect(),
            one => vec![one.clone()],
        };
        let name = Name::read(words, Vec::new(), None, Some(kind.span()), mistakes);
        if let Some(Name::Everything(_) | Name::Function(_)) = name {
            mistakes.at(kind, "children are of one kind each: name it");
        }
        (mistakes.len() == before).then_some(())?;
        Some(Self { name: name?, group: None, version: None })
    }

    /// Returns an expression for the framework's `Selector`, or a result of one.
    pub(crate) fn tokens(&self) -> TokenStream {
        let [group, version] = [&self.group, &self.version].map(|expr| {
            let text = expr.as_ref().map(|expr| some(&quote!(#K::String::from(#expr))));
            text.unwrap_or_else(|| quote!(#K::Option::None))
        });
        let scope = [("group", &self.group, &group), ("version", &self.version, &version)]
            .into_iter()
            .filter(|(_, expr, _)| expr.is_some())
            .map(|(name, _, text)| {
                let name = Ident::new(name, Span::mixed_site());
                quote!(selector.#name = #text;)
            });
        let scope = quote!(#(#scope)*);
        match &self.name {
            Name::Positional(words) if scope.is_empty() => {
                quote!(#K::Selector::positional(&[#(#words),*]))
            }
            Name::Positional(words) => quote! {
                #K::Selector::positional(&[#(#words),*]).map(|mut selector| { #scope selector })
            },
            Name::Everything(words) => quote! {
                #K::Selector::positional(&[#(#words,)* "everything"])
                    .map(|mut selector| { #scope selector.name = #K::SelectorName::Everything; selector })
            },
            Name::Keyword(key, expr) => {
                let variant = variant(&key.to_string());
                quote! {
                    #K::Selector::named(
                        #group,
                        #version,
                        #K::SelectorName::#variant(#K::String::from(#expr)),
                    )
                }
            }
            Name::Type(path) => {
                let definition = definition(path);
                quote_spanned!(path.span()=> #K::Selector::of::<#path>().defined_by(#definition))
            }
            Name::Function(closure) => {
                quote_spanned!(closure.span()=> #K::Selector::matching(#closure))
            }
            // A name in capitals can be a constant (in the value namespace) or a type. `either` provides a fallback
            // for the namespace in which it is not defined.
            Name::Constant(path) => {
                let span = path.span().resolved_at(Span::mixed_site());
                let definition = definition(&quote!(__KopfResource));
                quote_spanned! {span=>
                    {
                        use __kopf::either::*;
                        use #path as __KopfResource;
                        let selector = __kopf::NamesResource::<__KopfResource>::selector(__KopfResource);
                        selector.map(|selector| selector.defined_by(#definition))
                    }
                }
            }
        }
    }
}

/// Returns an expression for the definition of a type's kind, which a type may lack.
pub(crate) fn definition(ty: &impl ToTokens) -> TokenStream {
    quote!({
        #[allow(unused_imports)]
        use #K::Undefined as _;
        #K::DefinedBy::<#ty>::ask().definition()
    })
}

impl Name {
    fn read(
        mut positional: Vec<Expr>,
        mut names: Vec<(Ident, Expr)>,
        scope: Option<Ident>,
        place: Option<Span>,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        if let Some((key, _)) = names.get(1) {
            let message = format!("`{}` already names the resource: remove `{key}`", names[0].0);
            mistakes.at(key, message);
        }
        if let (Some((key, _)), false) = (names.first(), positional.is_empty()) {
            let message = format!(
                "the resource is named twice: use either words without a keyword, or `{key}` with `group` and `version`"
            );
            mistakes.at(key, message);
        }
        if let Some((key, expr)) = names.pop() {
            return Some(Self::Keyword(key, expr));
        }
        if positional.len() > 3 {
            mistakes.at(
                &positional[3],
                "at most three words name a resource: \"group\", \"version\", \"plural\"",
            );
        }
        if positional.len() > 1 && scope.is_some() {
            let message = "the group is given twice: use either words without a keyword, or keywords";
            mistakes.at(&scope, message);
        }
        let Some(last) = positional.last() else {
            let message = match scope {
                Some(_) => {
                    format!("a group or version alone names no resource: add a name, {FORMS}")
                }
                None => format!("say which resources the handler is for, {FORMS}"),
            };
            if let Some(place) = scope.map(|key| key.span()).or(place) {
                mistakes.push(syn::Error::new(place, message));
            }
            return None;
        };
        if is_word(last, "everything") {
            positional.pop();
            check_words(&positional, mistakes);
            return Some(Self::Everything(positional));
        }
        if let (Expr::Closure(closure), 1) = (last, positional.len()) {
            if let Some(key) = scope {
                let message = format!("the function looks at `resource.{key}` itself: remove `{key}`");
                mistakes.at(&key, message);
            }
            return Some(Self::Function(closure.clone()));
        }
        if let (Expr::Path(path), 1) = (last, positional.len()) {
            return Self::of_type(path, scope, mistakes);
        }
        check_words(&positional, mistakes);
        if text(last).as_deref() == Some("") {
            mistakes.at(last, "the name of a resource cannot be empty");
        }
        Some(Self::Positional(positional))
    }

    fn of_type(path: &ExprPath, scope: Option<Ident>, mistakes: &mut Mistakes) -> Option<Self> {
        if let Some(word) = path.path.get_ident().map(Ident::to_string)
            && word.starts_with(|first: char| first.is_ascii_lowercase())
        {
            let hint = did_you_mean(&word, &["everything"]);
            mistakes.at(path, format!("`{word}` names no resource{hint}"));
            return None;
        }
        let is_constant = is_constant(path);
        if let Some(key) = scope {
            let named = if is_constant { "constant" } else { "type" };
            mistakes.at(&key, format!("the {named} has its own `{key}`: remove it"));
        }
        Some(if is_constant { Self::Constant(path.clone()) } else { Self::Type(path.clone()) })
    }
}

/// Returns whether the name is written in capitals like a constant. Some types are, too.
fn is_constant(path: &ExprPath) -> bool {
    let is_plain = |segment: &PathSegment| segment.arguments.is_none();
    let last = path.path.segments.last().map(|last| last.ident.to_string());
    path.qself.is_none()
        && path.path.segments.iter().all(is_plain)
        && last.is_some_and(|last| !last.contains(|letter: char| letter.is_lowercase()))
}

fn check_words(words: &[Expr], mistakes: &mut Mistakes) {
    for word in words {
        if !matches!(word, Expr::Path(_)) && text(word).is_none() {
            mistakes.at(word, format!("expected the name of a resource, {FORMS}"));
        }
    }
}

fn check_word(key: &str, expr: &Expr, mistakes: &mut Mistakes) {
    match (expr, text(expr)) {
        (Expr::Lit(_), None) => mistakes.at(expr, format!("`{key}` is text: `{key} = \"...\"`")),
        (_, Some(text)) if text.is_empty() && key != "group" => {
            mistakes.at(expr, format!("`{key}` cannot be empty"));
        }
        _ => {}
    }
}
