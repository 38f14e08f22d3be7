//! `validation_rule`: keeps a constant with an expression, and adds its registration as a rule.
//!
//! This module does not interpret the expression; the API server does.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Expr, ItemConst, Path};

use crate::attr::{Written, is_selector, once, split};
use crate::expand::source_location;
use crate::fallback::{Mistakes, refused};
use crate::family::{Family, Kind, Returns, SELECTOR_KEYS};
use crate::hint::did_you_mean;
use crate::operations::operations;
use crate::option::Given;
use crate::selector::Selector;

/// Describes the attribute like the others, so that selectors can be parsed: it has a selector, and options of its
/// own.
static RULE: Kind = Kind {
    attribute: "validation_rule",
    family: &RULE_FAMILY,
    variant: None,
    own: &[],
    required: None,
    is_nested: false,
};

static RULE_FAMILY: Family = Family {
    declaration: "",
    options: "",
    groups: &[],
    fields: &[],
    arguments: &[],
    has_object: true,
    returns: Returns::Result,
};

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
    let mut mistakes = Mistakes::default();
    let Ok(constant) = syn::parse2::<ItemConst>(item.clone()) else {
        let message = "#[validation_rule] belongs on a constant with the expression: `const VOLUMES_KEEP_THEIR_SIZE: &str = \"self.spec.size == \
                       oldSelf.spec.size\";`";
        mistakes.push(Error::new(Span::call_site(), message));
        return refused(item, &mistakes);
    };
    let rule = Rule::read(arguments, &mut mistakes);
    if !mistakes.is_empty() {
        return refused(item, &mistakes);
    }
    let registration = rule.registration(&constant, location(&constant.ident));
    quote! {
        #item
        #registration
    }
}

// === impl Rule ===

impl Rule {
    fn read(arguments: TokenStream, mistakes: &mut Mistakes) -> Self {
        let mut rule = Self::default();
        let (mut positional, mut keywords) = (Vec::new(), Vec::new());
        for written in split(&RULE, arguments, mistakes) {
            match written {
                Written::Positional(expr) => positional.push(expr),
                Written::Keyword(key, Given::Path(path)) if key == "crate" => {
                    rule.framework = Some(path);
                }
                Written::Keyword(key, given) if is_selector(&key) => match given {
                    Given::Expr(expr) => once(&mut keywords, key, expr, mistakes),
                    _ => mistakes.at(&key, format!("expected `{key} = \"...\"`")),
                },
                Written::Keyword(key, given) => {
                    if let Err(error) = rule.take(&key, given) {
                        mistakes.push(error);
                    }
                }
            }
        }
        // A rejected argument may have been an attempt to name the resource, so do not report a missing resource
        // then.
        let missing = mistakes.is_empty().then(Span::call_site);
        rule.selector = Selector::read(&RULE, positional, keywords, missing, mistakes);
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
                let all = operations(&expr, "[CREATE, UPDATE]")?;
                let k = kopf();
                quote!(.#key([#(#k::Operation::#all),*]))
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
        let k = kopf();
        let door = self.framework.as_ref();
        let door = door.map_or_else(|| quote!(::kopf_rs), ToTokens::to_token_stream);
        let name = &constant.ident;
        let id = self
            .id
            .as_ref()
            .map_or_else(|| id_of(name).to_token_stream(), ToTokens::to_token_stream);
        let selector = self.selector.as_ref().map(|it| it.tokens(&k));
        let location = source_location(place, &k);
        let calls = &self.calls;
        let cfgs = constant.attrs.iter();
        let cfgs = cfgs.filter(|attribute| attribute.path().is_ident("cfg"));
        quote! {
            #(#cfgs)*
            const _: () = {
                use #door::__private as #k;
                #k::submit! {
                    #k::Declared::Rule(#k::RuleDecl {
                        location: #location,
                        selector: #selector,
                        rule: || #k::ValidationRule::new(#id, #name) #(#calls)*,
                    })
                }
            };
        }
    }
}

/// Returns the alias of the framework in registrations.
fn kopf() -> TokenStream {
    quote!(__kopf)
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
    let hint = did_you_mean(name, &known);
    let advice = if hint.is_empty() {
        format!("\noptions of #[validation_rule]: {}", known.join(", "))
    } else {
        hint
    };
    Error::new_spanned(key, format!("unknown option `{name}`{advice}"))
}
