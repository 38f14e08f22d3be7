//! Expands a rejected function: the function itself beside the error messages, so that the user sees no follow-up
//! errors.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

/// Collects all errors of one function.
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
    /// Combines all errors into one.
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

/// Returns the function and the error messages.
pub(crate) fn refused(function: &TokenStream, mistakes: &Mistakes) -> TokenStream {
    let messages = mistakes.0.iter().map(syn::Error::to_compile_error);
    quote! {
        #function
        #(#messages)*
    }
}
