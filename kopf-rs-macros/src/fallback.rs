//! A refused function: compiled as itself, beside the messages, so that the user sees only what is to be fixed.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

/// Gathers everything wrong with one function.
#[derive(Default)]
pub(crate) struct Mistakes(Vec<syn::Error>);

impl Mistakes {
    /// A mistake at `place`.
    pub(crate) fn at(&mut self, place: impl ToTokens, message: impl std::fmt::Display) {
        self.0.push(syn::Error::new_spanned(place, message));
    }
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.0.push(error);
    }
    /// All of them as one.
    pub(crate) fn into_error(self) -> Option<syn::Error> {
        self.0.into_iter().reduce(|mut all, error| {
            all.combine(error);
            all
        })
    }
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The function and the messages.
pub(crate) fn refused(function: &TokenStream, mistakes: &Mistakes) -> TokenStream {
    let messages = mistakes.0.iter().map(syn::Error::to_compile_error);
    quote! {
        #function
        #(#messages)*
    }
}
