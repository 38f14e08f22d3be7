//! The options of an attribute: their allowed values, and their expansion.

use kopf_rs_schedule::{Schedule, ScheduleError};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Expr, ExprArray, ExprLit, Ident, Lit, Pat, Path, Token, UnOp, braced};

use crate::fallback::Mistakes;
use crate::family::{Form, Kind, all_arguments, form_of};
use crate::hint::did_you_mean;
use crate::operations::operations;
use crate::registration::{K, some};
use crate::selector::Selector;
use crate::syntax::{brace_ahead, expression, is_word, skip_to_comma, text, unquoted, variant, word};

/// The given options, in the order of writing.
#[derive(Default)]
pub(crate) struct Options(Vec<(Ident, Value)>);

/// The text after `keyword =`.
pub(crate) enum Given {
    /// No value: the keyword alone, as in `optional`.
    Flag,
    Expr(Expr),
    Map(Vec<Entry>),
    Path(Path),
}

/// The parsed value of an option.
enum Value {
    Flag(bool),
    /// `param`, whose type depends on the function.
    Any(Expr),
    /// Variants of the framework's `Operation`.
    Operations(Vec<Ident>),
    /// The expansion of any other option.
    Expanded(TokenStream),
}

/// `"key": criterion` within `labels = {..}`.
pub(crate) struct Entry {
    key: Expr,
    /// The expansion of the criterion.
    criterion: TokenStream,
}

/// Options that also determine when a timer is called, and therefore exclude a schedule.
const BESIDE_NO_SCHEDULE: [&str; 3] = ["interval", "sharp", "initial_delay"];

const ERRORS: [&str; 3] = ["ignored", "temporary", "permanent"];

// === impl Options ===

impl Options {
    /// Stores one option, or reports its error.
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

    /// Reports options that are missing or contradict each other.
    pub(crate) fn check(&self, kind: &Kind, place: Span, mistakes: &mut Mistakes) {
        if kind.attribute == "on_field" && !self.has("field") {
            let message = "#[on_field] needs the field it is for: `field = \"spec.size\"`";
            mistakes.push(syn::Error::new(place, message));
            return;
        }
        for (key, _) in &self.0 {
            let is = |name: &str| key == name;
            if (is("value") || is("old") || is("new")) && !self.has("field") {
                mistakes.at(key, format!("`{key}` needs a field: add `field = \"spec.size\"`"));
            } else if is("value") && (self.has("old") || self.has("new")) {
                let message = "`value` looks at both sides of a change, `old` and `new` at one: use either `value`, or `old` and `new`";
                mistakes.at(key, message);
            } else if is("zone") && !self.has("schedule") {
                mistakes.at(key, "`zone` is that of a `schedule`: add `schedule = \"0 3 * * *\"`");
            } else if self.has("schedule") && BESIDE_NO_SCHEDULE.iter().any(|name| is(name)) {
                let message = format!(
                    "a `schedule` says by itself when the timer is called: leave out either it or `{key}`"
                );
                mistakes.at(key, message);
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// Returns whether a flag is given and on.
    pub(crate) fn is_on(&self, flag: &str) -> bool {
        let mut all = self.0.iter();
        all.any(|(key, value)| key == flag && matches!(value, Value::Flag(true)))
    }

    /// Returns whether the handler handles only deletions.
    pub(crate) fn are_only_deletions(&self) -> bool {
        let mut all = self.0.iter();
        all.any(|(_, value)| match value {
            Value::Operations(operations) => operations.iter().all(|it| it == "Delete"),
            _ => false,
        })
    }

    /// Returns whether there is a `param`.
    pub(crate) fn has_param(&self) -> bool {
        self.has("param")
    }

    /// Returns the expansion of the options. `param` is the type that the function takes, if any; `index` is the value
    /// of the framework's option for the types of an index.
    pub(crate) fn tokens(&self, param: Option<&TokenStream>, index: Option<&TokenStream>) -> TokenStream {
        if self.0.is_empty() && index.is_none() {
            return quote!(#K::Options::default());
        }
        let given = self.0.iter().map(|(key, value)| {
            let value = value.tokens(param);
            quote!(#key: #value)
        });
        quote!(#K::Options { #(#given,)* #index ..#K::Options::default() })
    }
}

// === impl Value ===

impl Value {
    fn read(key: &Ident, given: Given) -> syn::Result<Self> {
        let name = key.to_string();
        let form = form_of(&name).unwrap_or(Form::Any);
        let expr = match given {
            Given::Map(entries) => return Ok(Self::Expanded(map(&entries))),
            Given::Flag if form == Form::Flag => return Ok(Self::Flag(true)),
            Given::Flag if form == Form::Choice => {
                return Ok(Self::Expanded(some(&quote!(true))));
            }
            Given::Expr(expr) => expr,
            Given::Flag | Given::Path(_) => {
                return Err(error(key, format!("`{name}` needs a value: `{name} = {}`", sample(form))));
            }
        };
        Ok(Self::Expanded(match form {
            Form::Flag => {
                let message = format!("`{name}` is either there or not: write `{name}`, without a value");
                return boolean(&expr, &message).map(Self::Flag);
            }
            Form::Any | Form::Map => return Ok(Self::Any(expr)),
            Form::Operations => return operations(&expr, sample(form)).map(Self::Operations),
            Form::Id => string(&expr, "an id is text: `id = \"another-name\"`", |text| {
                let is_empty = text.is_empty();
                is_empty.then(|| "an id cannot be empty".to_owned())
            })?,
            Form::Text | Form::Schedule | Form::Zone => {
                let message = format!("this is text: `{name} = {}`", sample(form));
                string(&expr, &message, |text| match form {
                    Form::Schedule => invalid(Schedule::parse(text, None)),
                    Form::Zone => invalid(Schedule::parse("@daily", Some(text))),
                    _ if text.is_empty() => Some(format!("`{name}` is empty: leave it out")),
                    _ => None,
                })?
            }
            Form::Errors => errors(&expr)?,
            Form::Seconds => seconds(&name, &expr)?,
            Form::Pause => pause(&name, expr)?,
            Form::Count => retries(&expr)?,
            Form::Field => field(&expr)?,
            Form::Criterion => some(&criterion(&expr)?),
            Form::Predicate => {
                let predicate = of_the_cause(&name, expr)?;
                some(&quote!(#K::when(#predicate)))
            }
            Form::Kinds => kinds(&name, &expr)?,
            Form::Choice => {
                let message = format!("`{name}` is either `true` or `false`");
                let on = boolean(&expr, &message)?;
                some(&quote!(#on))
            }
            Form::Targets => targets(&name, &expr)?,
        }))
    }

    /// Returns the value of the framework's field. `param` is the type that the function takes, if any.
    fn tokens(&self, param: Option<&TokenStream>) -> TokenStream {
        match self {
            Self::Flag(on) => on.to_token_stream(),
            Self::Any(expr) => {
                let wanted = param.map(|param| quote!(: #param));
                some(&quote!(#K::Arc::new({ let __kopf_param #wanted = #expr; __kopf_param })))
            }
            Self::Operations(operations) => {
                let operations = operations.iter().map(|it| quote!(#K::Operation::#it));
                quote!(#K::Vec::from([#(#operations),*]))
            }
            Self::Expanded(tokens) => tokens.clone(),
        }
    }
}

fn error(place: impl ToTokens, message: impl std::fmt::Display) -> syn::Error {
    syn::Error::new_spanned(place, message)
}

fn sample(form: Form) -> &'static str {
    match form {
        Form::Id => "\"another-name\"",
        Form::Errors => "permanent",
        Form::Field => "\"spec.size\"",
        Form::Predicate => "|cause| ...",
        Form::Schedule => "\"0 3 * * *\"",
        Form::Zone => "\"Europe/Kyiv\"",
        Form::Criterion => "PRESENT",
        Form::Map => "{\"app\": \"x\"}",
        Form::Kinds => "[Deployment, \"services\"]",
        Form::Operations => "[CREATE, UPDATE]",
        Form::Text => "\"status\"",
        Form::Choice => "true",
        Form::Targets => "[(Secret, |it| ..)]",
        Form::Flag | Form::Any | Form::Seconds | Form::Pause | Form::Count => "3",
    }
}

fn boolean(expr: &Expr, message: &str) -> syn::Result<bool> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Bool(on), .. }) => Ok(on.value),
        _ => Err(error(expr, message)),
    }
}

/// Parses a text. `wrong` is the error for other literals, and `refusal` returns the error of an invalid text. The
/// operator checks constants at its start.
fn string(
    expr: &Expr,
    wrong: &str,
    refusal: impl FnOnce(&str) -> Option<String>,
) -> syn::Result<TokenStream> {
    let refusal = match (expr, text(expr)) {
        (_, Some(text)) => refusal(&text),
        (Expr::Lit(_), None) => Some(wrong.to_owned()),
        _ => None,
    };
    match refusal {
        Some(refusal) => Err(error(expr, refusal)),
        None => Ok(quote_spanned!(expr.span()=> #K::Option::Some(#K::String::from(#expr)))),
    }
}

fn invalid(schedule: Result<Schedule, ScheduleError>) -> Option<String> {
    schedule.err().map(|error| error.to_string())
}

fn errors(expr: &Expr) -> syn::Result<TokenStream> {
    let word = word(expr).to_lowercase();
    if !ERRORS.contains(&word.as_str()) {
        let hint = did_you_mean(&word, &ERRORS);
        return Err(error(expr, format!("expected `ignored`, `temporary` or `permanent`{hint}")));
    }
    let mode = variant(&word);
    Ok(some(&quote!(#K::ErrorsMode::#mode)))
}

fn seconds(name: &str, expr: &Expr) -> syn::Result<TokenStream> {
    check_seconds(name, expr)?;
    Ok(some(&seconds_tokens(expr)))
}

fn check_seconds(name: &str, expr: &Expr) -> syn::Result<()> {
    let message = match expr {
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            Some(format!("`{name}` cannot be negative"))
        }
        Expr::Lit(ExprLit { lit: lit @ (Lit::Int(_) | Lit::Float(_)), .. }) => zero(name, lit),
        Expr::Lit(_) => {
            Some(format!("`{name}` is a number of seconds, such as `30` or `1.5`, or a `Duration`"))
        }
        _ => None,
    };
    message.map_or(Ok(()), |message| Err(error(expr, message)))
}

/// Returns the error message for a time of zero, if zero would mean a loop without a pause.
fn zero(name: &str, literal: &Lit) -> Option<String> {
    let number: f64 = match literal {
        Lit::Int(number) => number.base10_parse().ok()?,
        Lit::Float(number) => number.base10_parse().ok()?,
        _ => return None,
    };
    let message = match name {
        "interval" => "an `interval` of zero would call the timer again and again without a pause",
        "resync" => "a `resync` of zero would call the function again and again without a pause",
        "idle" => "an `idle` of zero is none: leave it out",
        "cancellation_polling" => "a `cancellation_polling` of zero would look without a pause",
        _ => return None,
    };
    (number == 0.0).then(|| message.to_owned())
}

/// Parses a list of kinds, each in the notation of an attribute's selector.
fn kinds(name: &str, expr: &Expr) -> syn::Result<TokenStream> {
    let Expr::Array(list) = expr else {
        return Err(error(expr, format!("`{name}` is a list of kinds: `{name} = {}`", sample(Form::Kinds))));
    };
    let mut mistakes = Mistakes::default();
    let kinds = list.elems.iter();
    let kinds = kinds.filter_map(|kind| Selector::of_kind(kind, &mut mistakes));
    let kinds = kinds.map(|kind| {
        let kind = kind.tokens();
        quote!(#K::kind(#kind))
    });
    let kinds = quote!(#K::Vec::from([#(#kinds),*]));
    mistakes.into_error().map_or(Ok(kinds), Err)
}

/// Parses a list of pairs: a kind in the notation of an attribute's selector, and a closure or function that maps a
/// changed object of that kind to the owners to reconcile.
fn targets(name: &str, expr: &Expr) -> syn::Result<TokenStream> {
    let sample = sample(Form::Targets);
    let message = format!(
        "`{name}` is a list of kinds, each with a function that says whom a change concerns: `{name} = {sample}`"
    );
    let Expr::Array(list) = expr else {
        return Err(error(expr, message));
    };
    let mut mistakes = Mistakes::default();
    let mut targets = Vec::new();
    for pair in &list.elems {
        match pair {
            Expr::Tuple(pair) if pair.elems.len() == 2 => {
                let kind = Selector::of_kind(&pair.elems[0], &mut mistakes);
                match of_the_cause(name, pair.elems[1].clone()) {
                    Ok(owners) => targets.extend(kind.map(|kind| {
                        let kind = kind.tokens();
                        quote_spanned!(owners.span()=> #K::target(#K::kind(#kind), #owners))
                    })),
                    Err(error) => mistakes.push(error),
                }
            }
            _ => mistakes.at(pair, &message),
        }
    }
    let targets = quote!(#K::Vec::from([#(#targets),*]));
    mistakes.into_error().map_or(Ok(targets), Err)
}

/// Parses a span of time, or a closure or function of the cause that returns one.
fn pause(name: &str, expr: Expr) -> syn::Result<TokenStream> {
    if matches!(expr, Expr::Closure(_)) {
        let closure = of_the_cause(name, expr)?;
        return Ok(some(&quote!(#K::Pause::of(#closure))));
    }
    check_seconds(name, &expr)?;
    let pause = match &expr {
        Expr::Lit(_) => seconds_tokens(&expr),
        _ => expr.to_token_stream(),
    };
    Ok(quote_spanned!(expr.span()=> #K::Option::Some(#K::pause(#pause))))
}

fn seconds_tokens(expr: &Expr) -> TokenStream {
    if let Expr::Lit(ExprLit { lit: Lit::Int(_), .. }) = expr {
        quote!(#K::Duration::from_secs(#expr))
    } else {
        quote!(#K::duration(#expr))
    }
}

fn retries(expr: &Expr) -> syn::Result<TokenStream> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(_), .. }) => {}
        Expr::Lit(_) | Expr::Unary(_) => {
            let message = "`retries` is the whole number of attempts, such as `3`";
            return Err(error(expr, message));
        }
        _ => {}
    }
    Ok(some(&expr.to_token_stream()))
}

fn field(expr: &Expr) -> syn::Result<TokenStream> {
    const FORMS: &str = "a field is a path of names joined by dots, such as `\"spec.size\"`, or a list of names: `[\"metadata\", \"labels\", \"example.com/app\"]`";
    let names = match expr {
        Expr::Array(array) => &array.elems,
        Expr::Tuple(tuple) => &tuple.elems,
        _ => {
            let is_path = |text: String| text.split('.').all(|part| !part.is_empty());
            if matches!(expr, Expr::Lit(_)) && !text(expr).is_some_and(is_path) {
                return Err(error(expr, FORMS));
            }
            if let Some(text) = unquoted(expr) {
                let message = format!("a field is text: write `field = \"{text}\"`");
                return Err(error(expr, message));
            }
            return Ok(some(&quote!(#K::FieldPath::parse(#expr))));
        }
    };
    if names.is_empty() {
        return Err(error(expr, FORMS));
    }
    let names = names.iter();
    Ok(some(&quote!(#K::FieldPath::from_parts([#(#names),*]))))
}

/// Parses a closure or function of the cause. Rejects a parameter named like a handler's argument: it would be the cause.
fn of_the_cause(option: &str, expr: Expr) -> syn::Result<Expr> {
    let Expr::Closure(closure) = &expr else {
        return Ok(expr);
    };
    let mut inputs = closure.inputs.iter();
    let (Some(input), None) = (inputs.next(), inputs.next()) else {
        let message = format!(
            "`{option}` is called with the cause alone, which has all arguments of handlers: `{option} = |cause| ..`"
        );
        return Err(error(&closure.inputs, message));
    };
    let named = match input {
        Pat::Type(typed) => &*typed.pat,
        pattern => pattern,
    };
    let Pat::Ident(named) = named else {
        return Ok(expr);
    };
    let name = named.ident.unraw().to_string();
    if !all_arguments().contains(&name.as_str()) {
        return Ok(expr);
    }
    let get = match name.as_str() {
        "spec" | "status" => format!("cause.body().{name}()"),
        "event" | "patch" | "settings" | "client" | "param" => "cause".to_owned(),
        _ => format!("cause.{name}()"),
    };
    let message = format!(
        "`{option}` is called with the cause, and not with `{name}`: write `|cause|`, and `{get}` inside"
    );
    Err(error(input, message))
}

// === impl Entry ===

impl Entry {
    /// `{"app": "x", "tier": PRESENT}`
    pub(crate) fn map(option: &Ident, input: ParseStream<'_>) -> syn::Result<Vec<Self>> {
        if !brace_ahead(input) {
            let message =
                format!("expected `{option} = {{\"app\": \"x\", \"tier\": PRESENT, \"old\": ABSENT}}`");
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
        if let Some(text) = unquoted(&key) {
            return Err(error(key, format!("the names of {option} are text: write `\"{text}\"`")));
        }
        if let Expr::Array(several) = &value {
            return Err(error(&value, one_of(option, several)));
        }
        if text(&key).is_some() && known.iter().any(|known| text(&known.key) == text(&key)) {
            return Err(error(key, "this key is given twice"));
        }
        if matches!(&value, Expr::Lit(_)) && text(&value).is_none() {
            let quoted = value.to_token_stream();
            return Err(error(&value, format!("{option} are text: write `\"{quoted}\"`")));
        }
        if !inside.is_empty() && !inside.peek(Token![,]) {
            return Err(inside.error("expected a comma between entries"));
        }
        let criterion = criterion(&value)?;
        Ok(Self { key, criterion })
    }
}

/// Returns the advice for a list of values: a label has one value, so use a predicate.
fn one_of(option: &Ident, several: &ExprArray) -> String {
    let values: Vec<_> = several.elems.iter().map(|value| value.to_token_stream().to_string()).collect();
    format!(
        "{option} are text, not lists; to match one of several, write `|value| value.is_some_and(|value| [{}].contains(&value.as_str().unwrap_or_default()))`",
        values.join(", ")
    )
}

/// Returns the expansion of `labels = {..}`.
fn map(entries: &[Entry]) -> TokenStream {
    let entries = entries.iter();
    let entries = entries.map(|Entry { key, criterion }| quote!((#K::String::from(#key), #criterion)));
    quote!(#K::Vec::from([#(#entries),*]))
}

/// Parses the criterion on a label, annotation or field.
fn criterion(expr: &Expr) -> syn::Result<TokenStream> {
    if is_word(expr, "None") {
        return Err(error(expr, "`None` is ambiguous: use `PRESENT` or `ABSENT`"));
    }
    let last = match expr {
        Expr::Path(_) => word(expr),
        _ => String::new(),
    };
    Ok(match last.as_str() {
        "PRESENT" => quote!(#K::Criterion::Present),
        "ABSENT" => quote!(#K::Criterion::Absent),
        _ if matches!(expr, Expr::Closure(_)) => quote!(#K::matches(#expr)),
        _ => quote!(#K::criterion(#expr)),
    })
}
