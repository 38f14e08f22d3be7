//! Parses the arguments of an attribute into a selector and typed options, and collects all errors.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, LitStr, Path, Token};

use crate::fallback::Mistakes;
use crate::family::{Kind, SELECTOR_KEYS, attributes_with};
use crate::hint::{did_you_mean, did_you_mean_or, nearest};
use crate::option::{Given, Options, form_of, is_map, map};
use crate::selector::{Named, Selector};
use crate::syntax::{brace_ahead, expression, skip_to_comma};

/// A parsed attribute.
pub(crate) struct Attribute {
    pub(crate) kind: &'static Kind,
    /// `None` for activities.
    pub(crate) selector: Option<Selector>,
    pub(crate) options: Options,
    /// A custom path to `kopf_rs`.
    pub(crate) framework: Option<Path>,
}

/// The arguments that all attributes have.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) named: Named,
    /// A custom path to `kopf_rs`.
    pub(crate) framework: Option<Path>,
}

/// One argument as written.
enum Written {
    Positional(Expr),
    Keyword(Ident, Given),
}

impl Attribute {
    /// `place` is the location for errors about missing arguments.
    pub(crate) fn parse(
        kind: &'static Kind,
        arguments: TokenStream,
        place: Span,
        mistakes: &mut Mistakes,
    ) -> Self {
        let mut options = Options::default();
        let mut refused = false;
        let take = |key: &Ident, given, mistakes: &mut Mistakes| match refusal(kind, key, &given) {
            Some(refusal) => {
                mistakes.at(key, refusal);
                refused = true;
            }
            None => options.take(key, given, mistakes),
        };
        let Arguments { named, framework } = Arguments::read(kind, arguments, mistakes, take);
        options.check(kind, place, mistakes);
        // A rejected argument may have been an attempt to name the resource, so do not report a missing resource
        // then.
        let missing = (!refused).then_some(place);
        Self { kind, selector: Selector::read(kind, named, missing, mistakes), options, framework }
    }
}

impl Arguments {
    /// Parses the arguments, and passes each option to `take`.
    pub(crate) fn read(
        kind: &Kind,
        arguments: TokenStream,
        mistakes: &mut Mistakes,
        mut take: impl FnMut(&Ident, Given, &mut Mistakes),
    ) -> Self {
        let mut read = Self::default();
        for written in split(kind, arguments, mistakes) {
            match written {
                Written::Positional(expr) => read.named.words.push(expr),
                Written::Keyword(key, Given::Path(path)) if key == "crate" => {
                    read.framework = Some(path);
                }
                Written::Keyword(key, Given::Expr(expr)) if is_selector(&key) => {
                    if read.named.keywords.iter().any(|(known, _)| *known == key) {
                        mistakes.at(&key, format!("`{key}` is given twice"));
                    } else {
                        read.named.keywords.push((key, expr));
                    }
                }
                Written::Keyword(key, _) if is_selector(&key) => {
                    mistakes.at(&key, format!("expected `{key} = \"...\"`"));
                }
                Written::Keyword(key, given) => take(&key, given, mistakes),
            }
        }
        read
    }
}

/// Returns whether a keyword names the resource.
fn is_selector(key: &Ident) -> bool {
    SELECTOR_KEYS.iter().any(|known| key == known)
}

/// Returns the error message if `kind` does not have the option `key`.
fn refusal(kind: &Kind, key: &Ident, given: &Given) -> Option<String> {
    let options = kind.options();
    let name = key.unraw().to_string();
    if options.contains(&name.as_str()) {
        return None;
    }
    let owners = attributes_with(|kind| kind.options().contains(&name.as_str()));
    if !owners.is_empty() {
        return Some(format!("#[{}] has no option `{name}`: it belongs to {owners}", kind.attribute));
    }
    let mut known = options;
    if kind.has_selector() {
        known.extend(SELECTOR_KEYS);
    }
    let is_alone = matches!(given, Given::Flag) && kind.has_selector();
    if is_alone && did_you_mean(&name, &known).is_empty() {
        return Some(format!(
            "`{name}` is not an option; write the name of a resource in quotes: `\"{name}\"`"
        ));
    }
    let options = format!("\noptions of #[{}]: {}", kind.attribute, known.join(", "));
    let advice = did_you_mean_or(&options, &name, &known);
    Some(format!("unknown option `{name}`{advice}"))
}

/// Splits the arguments at their commas. Reports and skips an argument that cannot be parsed, and continues with the
/// next.
fn split(kind: &Kind, arguments: TokenStream, mistakes: &mut Mistakes) -> Vec<Written> {
    let mut all = Vec::new();
    let parser = |input: ParseStream<'_>| {
        while !input.is_empty() {
            match argument(kind, input) {
                Ok(written) if input.is_empty() || input.peek(Token![,]) => all.push(written),
                Ok(_) => mistakes.push(input.error("expected a comma between arguments")),
                Err(error) => mistakes.push(error),
            }
            skip_to_comma(input)?;
        }
        Ok(())
    };
    let parsed = parser.parse2(arguments);
    // Leftover tokens inside of brackets were already reported by the parser of that argument.
    drop(parsed);
    all
}

fn argument(kind: &Kind, input: ParseStream<'_>) -> syn::Result<Written> {
    if !(input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==])) {
        let expr = expression(input)?;
        return Ok(match flag(kind, &expr) {
            Some(flag) => Written::Keyword(flag, Given::Flag),
            None => Written::Positional(expr),
        });
    }
    let key = Ident::parse_any(input)?;
    input.parse::<Token![=]>()?;
    let given = if key == "crate" {
        Given::Path(path(input)?)
    } else if is_map(&key) && kind.has(&key) {
        Given::Map(map(&key, input)?)
    } else if brace_ahead(input) && !(kind.has(&key) && form_of(&key.to_string()).is_some()) {
        // An option that the attribute does not have, perhaps misspelt, whose value is not an expression.
        let braced: TokenTree = input.parse()?;
        Given::Expr(Expr::Verbatim(braced.into()))
    } else {
        Given::Expr(expression(input)?)
    };
    Ok(Written::Keyword(key, given))
}

fn path(input: ParseStream<'_>) -> syn::Result<Path> {
    if input.peek(LitStr) {
        input.parse::<LitStr>()?.parse_with(Path::parse_mod_style)
    } else {
        input.call(Path::parse_mod_style)
    }
}

/// Returns the keyword if the expression is a single lower-case word. Types start with a capital letter, so such a
/// word is meant as a flag, even if it is misspelt.
fn flag(kind: &Kind, expr: &Expr) -> Option<Ident> {
    let Expr::Path(path) = expr else {
        return None;
    };
    let ident = path.path.get_ident()?;
    let text = ident.to_string();
    let lower = text.starts_with(|first: char| first.is_ascii_lowercase());
    let selects = kind.has_selector() && nearest(&text, &["everything"]).is_some();
    (lower && !selects).then(|| ident.clone())
}
