//! Parses the syntax of attribute arguments: expressions, words, text.
//!
//! This module does not know which argument is parsed.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Expr, LitStr, Token, token};

/// Skips all tokens up to and including the next comma.
pub(crate) fn skip_to_comma(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<proc_macro2::TokenTree>()?;
    }
    input.parse::<Option<Token![,]>>().map(drop)
}

/// Parses an expression, and removes the invisible group that `macro_rules!` puts around it.
pub(crate) fn expression(input: ParseStream<'_>) -> syn::Result<Expr> {
    let mut expr: Expr = input.parse()?;
    while let Expr::Group(group) = expr {
        expr = *group.expr;
    }
    Ok(expr)
}

/// Returns whether `expr` is the single word `word`.
pub(crate) fn is_word(expr: &Expr, word: &str) -> bool {
    matches!(expr, Expr::Path(path) if path.path.is_ident(word))
}

/// Returns the text of a string literal.
pub(crate) fn text(expr: &impl ToTokens) -> Option<String> {
    let literal: Option<LitStr> = syn::parse2(expr.to_token_stream()).ok();
    literal.map(|literal| literal.value())
}

/// Returns the last word of a path, or the text of a string literal; an empty text for other expressions.
pub(crate) fn word(expr: &Expr) -> String {
    let word = match expr {
        Expr::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => text(expr),
    };
    word.unwrap_or_default()
}

/// Returns the variant of one of the framework's enums: `Create` for `create` or `CREATE`.
pub(crate) fn variant(word: &str) -> Ident {
    let variant = word[..1].to_uppercase() + &word[1..].to_lowercase();
    Ident::new(&variant, Span::mixed_site())
}

/// Returns whether a brace comes next.
pub(crate) fn brace_ahead(input: ParseStream<'_>) -> bool {
    input.peek(token::Brace)
}

/// Returns the text that the user forgot to quote, such as `spec.size` or `app.kubernetes.io/name`; `None` for other
/// expressions and for constants, which are in capitals.
pub(crate) fn unquoted(expr: &Expr) -> Option<String> {
    let is_word = match expr {
        Expr::Path(path) => path.path.get_ident().is_some_and(|ident| {
            let text = ident.unraw().to_string();
            text.starts_with(|first: char| first.is_ascii_lowercase())
        }),
        Expr::Field(field) => unquoted(&field.base).is_some(),
        Expr::Binary(binary) => unquoted(&binary.left).is_some() && unquoted(&binary.right).is_some(),
        _ => false,
    };
    let text = || expr.to_token_stream().to_string().replace(' ', "");
    is_word.then(text)
}
