//! Expands an annotated item, and collects its errors. A rejected item stays beside the error messages, so that the user
//! sees no follow-up errors.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::parse::Parse;

/// Collects all errors of one item.
#[derive(Default)]
pub(crate) struct Mistakes(Vec<syn::Error>);

impl Mistakes {
    /// Adds an error at `place`.
    pub(crate) fn at(&mut self, place: impl ToTokens, message: impl std::fmt::Display) {
        self.0.push(syn::Error::new_spanned(place, message));
    }
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.0.push(error);
    }
    /// Adds an error at `place` if there is one.
    pub(crate) fn if_any(&mut self, place: Option<&impl ToTokens>, message: &str) {
        if let Some(place) = place {
            self.at(place, message);
        }
    }
    /// Adds an error at the attribute.
    pub(crate) fn at_attribute(&mut self, message: impl std::fmt::Display) {
        self.push(syn::Error::new(Span::call_site(), message));
    }
    /// Returns the value, or all errors combined into one.
    pub(crate) fn or<T>(self, value: T) -> syn::Result<T> {
        let all = self.0.into_iter().reduce(|mut all, error| {
            all.combine(error);
            all
        });
        all.map_or(Ok(value), Err)
    }
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Expands an attribute: the annotated item, followed by the hidden constant that `expand` returns, or by all error
/// messages. `misplaced` is the message for any other item.
pub(crate) fn expand_item<I: Parse + ToTokens>(
    item: &TokenStream,
    misplaced: &str,
    expand: impl FnOnce(&mut I, &mut Mistakes) -> Option<TokenStream>,
) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let Ok(mut parsed) = syn::parse2::<I>(item.clone()) else {
        mistakes.at_attribute(misplaced);
        return refused(item, &mistakes);
    };
    let registration = expand(&mut parsed, &mut mistakes).filter(|_| mistakes.is_empty());
    match registration {
        Some(registration) => quote!(#parsed #registration),
        None => refused(&parsed, &mistakes),
    }
}

fn refused(item: &impl ToTokens, mistakes: &Mistakes) -> TokenStream {
    let messages = mistakes.0.iter().map(syn::Error::to_compile_error);
    quote!(#item #(#messages)*)
}
