//! Converts `Err(TemporaryError::new(..))` into the error type of the function wherever a handler returns it.
//!
//! Rust converts errors only at `?`, so `return Err(TemporaryError::new(..))` would be a type error in a function
//! that returns a `HandlerResult`. The rest of the body stays unchanged, and compiler messages still point to the
//! user's code.

use proc_macro2::Span;
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprAsync, ExprClosure, ExprReturn, Item, ItemFn, ReturnType, Stmt, parse_quote};

/// The errors, recognised by their names.
const ERRORS: [&str; 3] = ["TemporaryError", "PermanentError", "AdmissionError"];

/// Converts these errors wherever the function returns one of them.
pub(crate) fn convert_raised(function: &mut ItemFn) {
    // Without a return type, the compiler's own advice is better.
    if let ReturnType::Type(..) = function.sig.output {
        Returns.visit_block_mut(&mut function.block);
        convert_last(&mut function.block);
    }
}

/// Visits the `return` expressions of the function itself.
struct Returns;

impl VisitMut for Returns {
    fn visit_expr_return_mut(&mut self, it: &mut ExprReturn) {
        visit_mut::visit_expr_return_mut(self, it);
        if let Some(value) = &mut it.expr {
            convert(value);
        }
    }

    // A `return` inside of these does not return from the function.
    fn visit_expr_closure_mut(&mut self, _: &mut ExprClosure) {}

    fn visit_expr_async_mut(&mut self, _: &mut ExprAsync) {}

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

/// Converts the last expression of a block, which is its value.
fn convert_last(block: &mut Block) {
    if let Some(Stmt::Expr(last, None)) = block.stmts.last_mut() {
        convert(last);
    }
}

/// Converts a returned value in all branches that produce it.
fn convert(value: &mut Expr) {
    match value {
        Expr::Block(it) => convert_last(&mut it.block),
        Expr::Unsafe(it) => convert_last(&mut it.block),
        Expr::Group(it) => convert(&mut it.expr),
        Expr::Paren(it) => convert(&mut it.expr),
        Expr::If(it) => {
            convert_last(&mut it.then_branch);
            if let Some((_, otherwise)) = &mut it.else_branch {
                convert(otherwise);
            }
        }
        Expr::Match(it) => it.arms.iter_mut().for_each(|arm| convert(&mut arm.body)),
        Expr::Call(it) if is_path(&it.func, &["Err"]) && it.args.len() == 1 => {
            let error = &mut it.args[0];
            if is_raised(error) {
                // Keeps the user's location but marks the code as generated, so that lints ignore it.
                let span = error.span().resolved_at(Span::mixed_site());
                let into = quote_spanned!(span=> ::core::convert::Into::into);
                *error = parse_quote!(#into(#error));
            }
        }
        _ => {}
    }
}

/// Returns whether this is `TemporaryError::new(..)`, optionally with a delay, or `AdmissionError::new(..)`,
/// optionally with a code.
fn is_raised(error: &Expr) -> bool {
    match error {
        Expr::Group(it) => is_raised(&it.expr),
        Expr::Paren(it) => is_raised(&it.expr),
        Expr::MethodCall(it) if it.method == "delay" || it.method == "code" => is_raised(&it.receiver),
        Expr::Call(it) => ERRORS.iter().any(|error| is_path(&it.func, &[error, "new"])),
        _ => false,
    }
}

/// Returns whether the expression is a path with this end.
fn is_path(expr: &Expr, end: &[&str]) -> bool {
    let Expr::Path(path) = expr else { return false };
    let segments = path.path.segments.iter();
    let mut names = segments.rev().map(|segment| &segment.ident);
    end.iter().rev().all(|name| names.next().is_some_and(|it| it == name))
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::*;

    fn converted(mut function: ItemFn) -> String {
        convert_raised(&mut function);
        text(&function)
    }

    fn text(function: &ItemFn) -> String {
        function.to_token_stream().to_string()
    }

    #[test]
    fn only_returned_errors_are_converted() {
        let written: ItemFn = parse_quote! {
            async fn create_fn() -> HandlerResult {
                let kept: Result<(), TemporaryError> = Err(TemporaryError::new("x"));
                let closure = || return Err(TemporaryError::new("x"));
                let future = async { return Err(TemporaryError::new("x")) };
                fn inner() -> Result<(), TemporaryError> { return Err(TemporaryError::new("x")); }
                if early {
                    return Err(kopf_rs::TemporaryError::new("x").delay(5));
                }
                match it {
                    1 => Err(PermanentError::new("x")),
                    2 => Err(PermanentError::new("x").into()),
                    3 => Err(other("x")),
                    4 => Err(TemporaryError::new("x"))?,
                    _ => {
                        if it { Ok(()) } else { Err(TemporaryError::new("x")) }
                    }
                }
            }
        };
        let expected: ItemFn = parse_quote! {
            async fn create_fn() -> HandlerResult {
                let kept: Result<(), TemporaryError> = Err(TemporaryError::new("x"));
                let closure = || return Err(TemporaryError::new("x"));
                let future = async { return Err(TemporaryError::new("x")) };
                fn inner() -> Result<(), TemporaryError> { return Err(TemporaryError::new("x")); }
                if early {
                    return Err(::core::convert::Into::into(kopf_rs::TemporaryError::new("x").delay(5)));
                }
                match it {
                    1 => Err(::core::convert::Into::into(PermanentError::new("x"))),
                    2 => Err(PermanentError::new("x").into()),
                    3 => Err(other("x")),
                    4 => Err(TemporaryError::new("x"))?,
                    _ => {
                        if it { Ok(()) } else { Err(::core::convert::Into::into(TemporaryError::new("x"))) }
                    }
                }
            }
        };
        assert_eq!(converted(written), text(&expected));
    }

    #[test]
    fn a_function_without_a_return_type_is_left_alone() {
        let written: ItemFn = parse_quote! {
            async fn create_fn() { return Err(TemporaryError::new("x")); }
        };
        assert_eq!(converted(written.clone()), text(&written));
    }
}
