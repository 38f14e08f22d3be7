//! The options of an attribute: what each may be, and how it reads in the expansion.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Ident, Lit, Token, UnOp, braced};

use crate::attr::{Given, brace_ahead, expression, is_word, skip_to_comma, text};
use crate::fallback::Mistakes;
use crate::hint::did_you_mean;
use crate::kind::Kind;

/// The options given, in the order of writing.
#[derive(Default)]
pub(crate) struct Options(Vec<(Ident, Value)>);

/// What an option was set to.
enum Value {
    Flag(bool),
    /// Any expression, used as it is.
    Expr(Expr),
    Text(Expr),
    Seconds(Expr),
    Errors(Ident),
    Field(Expr),
    FieldNames(Vec<Expr>),
    Criterion(Criterion),
    Map(Vec<Entry>),
}

/// `"key": criterion` within `labels = {..}`.
pub(crate) struct Entry {
    key: Expr,
    criterion: Criterion,
}

/// What a label, annotation or field must be.
enum Criterion {
    Present,
    Absent,
    Closure(Expr),
    Given(Expr),
}

const ERRORS: [&str; 3] = ["ignored", "temporary", "permanent"];

// === impl Options ===

impl Options {
    /// Keep one option, or say what is wrong with it.
    pub(crate) fn take(&mut self, key: &Ident, given: Given, mistakes: &mut Mistakes) {
        let key = key.unraw();
        if self.has(&key.to_string()) {
            mistakes.at(&key, format!("`{key}` is given twice"));
            return;
        }
        match Value::read(&key, given) {
            Ok(value) => self.0.push((key, value)),
            Err(error) => mistakes.push(error),
        }
    }

    /// What does not go together, or is missing.
    pub(crate) fn check(&self, kind: Kind, place: Span, mistakes: &mut Mistakes) {
        if kind == Kind::Field && !self.has("field") {
            let message = "#[on_field] needs the field it is for: `field = \"spec.size\"`";
            mistakes.push(syn::Error::new(place, message));
            return;
        }
        for (key, _) in &self.0 {
            let is = |name: &str| key == name;
            if (is("value") || is("old") || is("new")) && !self.has("field") {
                mistakes.at(
                    key,
                    format!("`{key}` is that of a field: add `field = \"spec.size\"`"),
                );
            } else if is("value") && (self.has("old") || self.has("new")) {
                let message = "`value` looks at both sides of a change, `old` and `new` at one: use either `value`, or `old` and `new`";
                mistakes.at(key, message);
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// Whether there is a `param`.
    pub(crate) fn has_param(&self) -> bool {
        self.has("param")
    }

    /// The `Options` of the framework. `param` is the type the function wants, if it wants it.
    pub(crate) fn tokens(&self, k: &TokenStream, param: Option<&TokenStream>) -> TokenStream {
        if self.0.is_empty() {
            return quote!(#k::Options::default());
        }
        let filters = self.0.iter().filter(|(key, _)| is_filter(key));
        let filters: Vec<_> = filters.map(|(key, value)| value.filter(key, k)).collect();
        let fields = self.0.iter().filter(|(key, _)| !is_filter(key));
        let fields = fields.map(|(key, value)| value.field(key, k, param));
        let filters = (!filters.is_empty())
            .then(|| quote!(filters: #k::Filters { #(#filters,)* ..#k::Filters::default() },));
        quote! {
            #k::Options { #(#fields,)* #filters ..#k::Options::default() }
        }
    }
}

fn is_filter(key: &Ident) -> bool {
    ["labels", "annotations", "value", "old", "new", "when"]
        .iter()
        .any(|name| key == name)
}

// === impl Value ===

impl Value {
    fn read(key: &Ident, given: Given) -> syn::Result<Self> {
        let name = key.to_string();
        let flag = matches!(name.as_str(), "optional" | "deleted");
        let expr = match given {
            Given::Map(entries) => return Ok(Self::Map(entries)),
            Given::Flag if flag => return Ok(Self::Flag(true)),
            Given::Expr(expr) => expr,
            Given::Flag | Given::Path(_) => {
                return Err(error(
                    key,
                    format!("`{name}` needs a value: `{name} = {}`", sample(&name)),
                ));
            }
        };
        match name.as_str() {
            "optional" | "deleted" => flag_of(&name, &expr),
            "id" => id(expr),
            "errors" => errors(&expr),
            "timeout" | "backoff" => seconds(&name, expr),
            "retries" => retries(expr),
            "field" => field(expr),
            "value" | "old" | "new" => Ok(Self::Criterion(Criterion::read(expr)?)),
            _ => Ok(Self::Expr(expr)),
        }
    }

    /// One field of the framework's `Options`.
    fn field(&self, key: &Ident, k: &TokenStream, param: Option<&TokenStream>) -> TokenStream {
        match self {
            Self::Flag(on) => quote!(#key: #on),
            Self::Text(expr) => {
                quote_spanned!(expr.span()=> #key: #k::Option::Some(#k::String::from(#expr)))
            }
            Self::Seconds(expr) => {
                let seconds = seconds_tokens(expr, k);
                quote!(#key: #k::Option::Some(#seconds))
            }
            Self::Errors(mode) => quote!(#key: #k::Option::Some(#k::ErrorsMode::#mode)),
            Self::Field(text) => quote!(#key: #k::Option::Some(#k::FieldPath::parse(#text))),
            Self::FieldNames(names) => {
                quote!(#key: #k::Option::Some(#k::FieldPath::from_parts([#(#names),*])))
            }
            Self::Expr(expr) if key == "param" => {
                let wanted = param.map(|wanted| quote!(: #wanted));
                quote!(#key: #k::Option::Some(#k::Arc::new({ let __kopf_param #wanted = #expr; __kopf_param })))
            }
            Self::Expr(expr) => quote!(#key: #k::Option::Some(#expr)),
            Self::Criterion(_) | Self::Map(_) => TokenStream::new(),
        }
    }

    /// One field of the framework's `Filters`.
    fn filter(&self, key: &Ident, k: &TokenStream) -> TokenStream {
        match self {
            Self::Criterion(criterion) => {
                let criterion = criterion.tokens(k);
                quote!(#key: #k::Option::Some(#criterion))
            }
            Self::Map(entries) => {
                let entries = entries.iter().map(|Entry { key, criterion }| {
                    let criterion = criterion.tokens(k);
                    quote!((#k::String::from(#key), #criterion))
                });
                quote!(#key: #k::Vec::from([#(#entries),*]))
            }
            Self::Expr(expr) => quote!(#key: #k::Option::Some(#k::when(#expr))),
            _ => TokenStream::new(),
        }
    }
}

fn error(place: impl ToTokens, message: impl std::fmt::Display) -> syn::Error {
    syn::Error::new_spanned(place, message)
}

fn sample(option: &str) -> &'static str {
    match option {
        "id" => "\"another-name\"",
        "errors" => "permanent",
        "field" => "\"spec.size\"",
        "when" => "|cause| ...",
        "value" | "old" | "new" => "PRESENT",
        "labels" | "annotations" => "{\"app\": \"x\"}",
        _ => "3",
    }
}

fn flag_of(name: &str, expr: &Expr) -> syn::Result<Value> {
    match expr {
        Expr::Lit(ExprLit {
            lit: Lit::Bool(on), ..
        }) => Ok(Value::Flag(on.value)),
        _ => Err(error(
            expr,
            format!("`{name}` is either there or not: write `{name}`, without a value"),
        )),
    }
}

fn id(expr: Expr) -> syn::Result<Value> {
    match (&expr, text(&expr)) {
        (_, Some(text)) if text.is_empty() => Err(error(expr, "an id cannot be empty")),
        (Expr::Lit(_), None) => Err(error(expr, "an id is text: `id = \"another-name\"`")),
        _ => Ok(Value::Text(expr)),
    }
}

fn errors(expr: &Expr) -> syn::Result<Value> {
    let word = match expr {
        Expr::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => text(expr),
    };
    let word = word.unwrap_or_default().to_lowercase();
    let Some(mode) = ERRORS.into_iter().find(|mode| *mode == word) else {
        let hint = did_you_mean(&word, &ERRORS);
        return Err(error(
            expr,
            format!("expected `ignored`, `temporary` or `permanent`{hint}"),
        ));
    };
    let capital = mode[..1].to_uppercase() + &mode[1..];
    Ok(Value::Errors(Ident::new(&capital, Span::mixed_site())))
}

fn seconds(name: &str, expr: Expr) -> syn::Result<Value> {
    match &expr {
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            Err(error(&expr, format!("`{name}` cannot be negative")))
        }
        Expr::Lit(ExprLit {
            lit: Lit::Int(_) | Lit::Float(_),
            ..
        }) => Ok(Value::Seconds(expr)),
        Expr::Lit(_) => Err(error(
            &expr,
            format!("`{name}` is a number of seconds, such as `30` or `1.5`, or a `Duration`"),
        )),
        _ => Ok(Value::Seconds(expr)),
    }
}

fn seconds_tokens(expr: &Expr, k: &TokenStream) -> TokenStream {
    if let Expr::Lit(ExprLit {
        lit: Lit::Int(_), ..
    }) = expr
    {
        quote!(#k::Duration::from_secs(#expr))
    } else {
        quote!(#k::duration(#expr))
    }
}

fn retries(expr: Expr) -> syn::Result<Value> {
    match &expr {
        Expr::Lit(ExprLit {
            lit: Lit::Int(_), ..
        }) => Ok(Value::Expr(expr)),
        Expr::Lit(_) | Expr::Unary(_) => Err(error(
            expr,
            "`retries` is the whole number of attempts, such as `3`",
        )),
        _ => Ok(Value::Expr(expr)),
    }
}

fn field(expr: Expr) -> syn::Result<Value> {
    const FORMS: &str = "a field is a path of names joined by dots, such as `\"spec.size\"`, or a list of names: `[\"metadata\", \"labels\", \"example.com/app\"]`";
    let names: Vec<Expr> = match &expr {
        Expr::Array(array) => array.elems.iter().cloned().collect(),
        Expr::Tuple(tuple) => tuple.elems.iter().cloned().collect(),
        Expr::Lit(_) => {
            let valid =
                text(&expr).is_some_and(|text| text.split('.').all(|part| !part.is_empty()));
            return if valid {
                Ok(Value::Field(expr))
            } else {
                Err(error(expr, FORMS))
            };
        }
        _ => return Ok(Value::Field(expr)),
    };
    if names.is_empty() {
        return Err(error(expr, FORMS));
    }
    Ok(Value::FieldNames(names))
}

// === impl Entry ===

impl Entry {
    /// `{"app": "x", "tier": PRESENT}`
    pub(crate) fn map(option: &Ident, input: ParseStream<'_>) -> syn::Result<Vec<Self>> {
        if !brace_ahead(input) {
            let message = format!(
                "expected `{option} = {{\"app\": \"x\", \"tier\": PRESENT, \"old\": ABSENT}}`"
            );
            return Err(input.error(message));
        }
        let inside;
        braced!(inside in input);
        let mut entries: Vec<Self> = Vec::new();
        let mut mistakes: Option<syn::Error> = None;
        while !inside.is_empty() {
            match Self::read(option, &inside, &entries) {
                Ok(entry) => entries.push(entry),
                Err(error) => match &mut mistakes {
                    Some(mistakes) => mistakes.combine(error),
                    None => mistakes = Some(error),
                },
            }
            skip_to_comma(&inside)?;
        }
        mistakes.map_or(Ok(entries), Err)
    }

    fn read(option: &Ident, inside: ParseStream<'_>, known: &[Self]) -> syn::Result<Self> {
        let key = expression(inside)?;
        inside.parse::<Token![:]>()?;
        let value = expression(inside)?;
        if text(&key).is_some() && known.iter().any(|known| text(&known.key) == text(&key)) {
            return Err(error(key, "this key is given twice"));
        }
        if matches!(&value, Expr::Lit(_)) && text(&value).is_none() {
            let quoted = value.to_token_stream();
            return Err(error(
                &value,
                format!("{option} are text: write `\"{quoted}\"`"),
            ));
        }
        if !inside.is_empty() && !inside.peek(Token![,]) {
            return Err(inside.error("expected a comma between entries"));
        }
        let criterion = Criterion::read(value)?;
        Ok(Self { key, criterion })
    }
}

// === impl Criterion ===

impl Criterion {
    fn read(expr: Expr) -> syn::Result<Self> {
        if is_word(&expr, "None") {
            return Err(error(
                expr,
                "`None` does not say what is wanted: use `PRESENT` or `ABSENT`",
            ));
        }
        let last = match &expr {
            Expr::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        Ok(match (last.as_deref(), &expr) {
            (Some("PRESENT"), _) => Self::Present,
            (Some("ABSENT"), _) => Self::Absent,
            (_, Expr::Closure(_)) => Self::Closure(expr),
            _ => Self::Given(expr),
        })
    }

    fn tokens(&self, k: &TokenStream) -> TokenStream {
        match self {
            Self::Present => quote!(#k::Criterion::Present),
            Self::Absent => quote!(#k::Criterion::Absent),
            Self::Closure(closure) => quote!(#k::matches(#closure)),
            Self::Given(expr) => quote!(#k::criterion(#expr)),
        }
    }
}
