//! `validation_rule`: keeps a constant with an expression, and adds its registration as a rule.
//!
//! This module does not interpret the expression; the API server does.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Expr, ItemConst, Path};

use crate::attr::Arguments;
use crate::fallback::{Mistakes, expand_item};
use crate::family::{Kind, NO_FAMILY, SELECTOR_KEYS};
use crate::hint::did_you_mean_or;
use crate::option::{Given, operation_array};
use crate::registration::{K, door, hidden_const, submit};
use crate::selector::Selector;

/// Describes the attribute like the others, so that selectors can be parsed: it has a selector, and options of its
/// own.
static RULE: Kind = Kind { attribute: "validation_rule", family: &NO_FAMILY };

/// Options with a text value.
const TEXTS: [&str; 4] = ["id", "message", "message_expression", "field"];

/// Options without a value.
const FLAGS: [&str; 3] = ["warn", "ignore_failures", "policy"];

const OPERATIONS: &str = "operations";

/// The parsed arguments.
#[derive(Default)]
struct Rule {
    selector: Option<Selector>,
    framework: Option<Path>,
    id: Option<Expr>,
    /// Calls of the framework's builder.
    calls: Vec<TokenStream>,
    known: Vec<String>,
}

/// Expands the attribute of a constant. `location` returns the line and column of its name.
pub(crate) fn expand(
    arguments: TokenStream,
    item: &TokenStream,
    location: impl Fn(&Ident) -> (usize, usize),
) -> TokenStream {
    let misplaced = "#[validation_rule] belongs on a constant with the expression: `const VOLUMES_KEEP_THEIR_SIZE: &str = \"self.spec.size == \
                     oldSelf.spec.size\";`";
    expand_item(item, misplaced, |constant: &mut ItemConst, mistakes| {
        Some(Rule::read(arguments, mistakes).registration(constant, location(&constant.ident)))
    })
}

// === impl Rule ===

impl Rule {
    fn read(arguments: TokenStream, mistakes: &mut Mistakes) -> Self {
        let mut rule = Self::default();
        let take = |key: &Ident, given, mistakes: &mut Mistakes| {
            if let Err(error) = rule.take(key, given) {
                mistakes.push(error);
            }
        };
        let Arguments { named, framework } = Arguments::read(&RULE, arguments, mistakes, take);
        rule.framework = framework;
        // A rejected argument may have been an attempt to name the resource, so do not report a missing resource
        // then.
        let missing = mistakes.is_empty().then(Span::call_site);
        rule.selector = Selector::read(&RULE, named, missing, mistakes);
        rule
    }

    /// Stores one option.
    fn take(&mut self, key: &Ident, given: Given) -> syn::Result<()> {
        let key = key.unraw();
        let name = key.to_string();
        if self.known.contains(&name) {
            return Err(Error::new_spanned(&key, format!("`{key}` is given twice")));
        }
        let call = match given {
            Given::Expr(expr) if name == "id" => {
                self.id = Some(expr);
                TokenStream::new()
            }
            Given::Expr(expr) if TEXTS.contains(&name.as_str()) => {
                quote_spanned!(expr.span()=> .#key(#expr))
            }
            Given::Expr(expr) if name == OPERATIONS => {
                let all = operation_array(&expr)?;
                quote!(.#key(#all))
            }
            Given::Flag if FLAGS.contains(&name.as_str()) => quote!(.#key()),
            Given::Flag if TEXTS.contains(&name.as_str()) => {
                let message = format!("`{name}` needs a value: `{name} = \"..\"`");
                return Err(Error::new_spanned(&key, message));
            }
            _ if FLAGS.contains(&name.as_str()) => {
                let message = format!("`{name}` stands alone, without a value");
                return Err(Error::new_spanned(&key, message));
            }
            _ => return Err(unknown(&key, &name)),
        };
        self.calls.push(call);
        self.known.push(name);
        Ok(())
    }

    /// Returns the hidden constant beside the user's constant.
    fn registration(&self, constant: &ItemConst, place: (usize, usize)) -> TokenStream {
        let name = &constant.ident;
        let id = self.id.as_ref().map_or_else(|| id_of(name).to_token_stream(), ToTokens::to_token_stream);
        let selector = self.selector.as_ref().map(Selector::tokens);
        let calls = &self.calls;
        let rule = quote!(#K::ValidationRule::new(#id, #name) #(#calls)* .at(__KOPF_LOCATION));
        let registration = submit("Rule", name, &quote!(.validation_rule(#selector, #rule)));
        hidden_const(&constant.attrs, &door(self.framework.as_ref()), place, &registration)
    }
}

/// Converts a constant's name into an id: `VOLUMES_KEEP_THEIR_SIZE` is the rule `volumes-keep-their-size`.
fn id_of(name: &Ident) -> String {
    let words = name.unraw().to_string().to_lowercase();
    words.trim_matches('_').replace('_', "-")
}

fn unknown(key: &Ident, name: &str) -> Error {
    let known = TEXTS.iter().chain(&FLAGS).chain([&OPERATIONS]);
    let mut known: Vec<&str> = known.chain(&SELECTOR_KEYS).copied().collect();
    known.push("crate");
    let options = format!("\noptions of #[validation_rule]: {}", known.join(", "));
    let advice = did_you_mean_or(&options, name, &known);
    Error::new_spanned(key, format!("unknown option `{name}`{advice}"))
}
