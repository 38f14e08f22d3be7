//! The option `operations` of admission handlers.
//!
//! This module does not know how operations are used.

use proc_macro2::Ident;
use syn::{Error, Expr};

use crate::hint::did_you_mean;
use crate::syntax::{variant, word};

const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

/// Parses a list of operations: words, texts, or variants of `Operation`.
pub(crate) fn operations(expr: &Expr, sample: &str) -> syn::Result<Vec<Ident>> {
    let Expr::Array(list) = expr else {
        let message = format!("`operations` is a list: `operations = {sample}`");
        return Err(Error::new_spanned(expr, message));
    };
    if list.elems.is_empty() {
        let message = "`operations` is empty: leave it out for all of them";
        return Err(Error::new_spanned(expr, message));
    }
    list.elems.iter().map(operation).collect()
}

fn operation(expr: &Expr) -> syn::Result<Ident> {
    let word = word(expr).to_uppercase();
    if !OPERATIONS.contains(&word.as_str()) {
        let hint = did_you_mean(&word, &OPERATIONS);
        let message = format!("expected `CREATE`, `UPDATE`, `DELETE` or `CONNECT`{hint}");
        return Err(Error::new_spanned(expr, message));
    }
    Ok(variant(&word))
}
