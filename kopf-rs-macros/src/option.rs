//! The options of an attribute: their allowed values, and their expansion.

use kopf_rs_schedule::{Schedule, ScheduleError};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Expr, ExprArray, ExprLit, Ident, Lit, Pat, Path, Token, UnOp, braced};

use crate::fallback::Mistakes;
use crate::family::{COMMON, Form, Group, Kind, Setting, all_arguments, form_of, hidden};
use crate::hint::did_you_mean;
use crate::operations::operations;
use crate::selector::Selector;
use crate::syntax::{brace_ahead, expression, is_word, skip_to_comma, text, unquoted};

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
    /// Any expression, which is used unchanged.
    Any(Expr),
    Text(Expr),
    Count(Expr),
    Predicate(Expr),
    Seconds(Expr),
    Pause(Expr),
    Errors(Ident),
    Field(Expr),
    FieldNames(Vec<Expr>),
    Criterion(Criterion),
    Map(Vec<Entry>),
    Kinds(Vec<Selector>),
    /// Variants of the framework's `Operation`.
    Operations(Vec<Ident>),
    Choice(bool),
    Targets(Vec<(Selector, Expr)>),
}

/// `"key": criterion` within `labels = {..}`.
pub(crate) struct Entry {
    key: Expr,
    criterion: Criterion,
}

/// The criterion on a label, annotation or field.
enum Criterion {
    Present,
    Absent,
    Closure(Expr),
    Given(Expr),
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
        if let Some((required, message)) = kind.required
            && !self.has(required)
        {
            mistakes.push(syn::Error::new(place, message));
            return;
        }
        for (key, _) in &self.0 {
            let is = |name: &str| key == name;
            if (is("value") || is("old") || is("new")) && !self.has("field") {
                mistakes.at(
                    key,
                    format!("`{key}` needs a field: add `field = \"spec.size\"`"),
                );
            } else if is("value") && (self.has("old") || self.has("new")) {
                let message = "`value` looks at both sides of a change, `old` and `new` at one: use either `value`, or `old` and `new`";
                mistakes.at(key, message);
            } else if is("zone") && !self.has("schedule") {
                mistakes.at(
                    key,
                    "`zone` is that of a `schedule`: add `schedule = \"0 3 * * *\"`",
                );
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

    /// Returns the expansion of the family's options.
    pub(crate) fn tokens(&self, kind: &Kind, k: &TokenStream) -> TokenStream {
        let groups = kind.family.groups.iter();
        let groups = groups.filter_map(|group| self.group(group, k));
        let fields = self.fields(kind.family.fields, k);
        let own = self.fields(kind.own, k);
        let given: Vec<_> = groups.chain(fields).chain(own).collect();
        built((kind.family.options, kind.family.size()), &given, k)
    }

    /// Returns the expansion of the options of all attributes. `param` is the type that the function takes, if any.
    pub(crate) fn common(&self, k: &TokenStream, param: Option<&TokenStream>) -> TokenStream {
        let is_common = |key: &Ident| COMMON.iter().any(|Setting(name, _)| key == name);
        let given = self.0.iter().filter(|(key, _)| is_common(key));
        let given: Vec<_> = given
            .map(|(key, value)| match value {
                Value::Any(expr) => param_field(key, expr, param, k),
                _ => value.field(key, k),
            })
            .collect();
        // The struct has two fields that are not options.
        built(("CommonOptions", COMMON.len() + 2), &given, k)
    }

    fn group(&self, group: &Group, k: &TokenStream) -> Option<TokenStream> {
        let given: Vec<_> = self.fields(group.settings, k).collect();
        (!given.is_empty()).then(|| {
            let field = hidden(group.field);
            let value = built((group.ty, group.settings.len()), &given, k);
            quote!(#field: #value)
        })
    }

    /// Returns the expansion of those `settings` that were given.
    fn fields(&self, settings: &[Setting], k: &TokenStream) -> impl Iterator<Item = TokenStream> {
        let is_one = |key: &Ident| settings.iter().any(|Setting(name, _)| key == name);
        let given = self.0.iter().filter(move |(key, _)| is_one(key));
        given.map(|(key, value)| value.field(key, k))
    }
}

/// Returns a framework struct of `size` fields with these fields; the others get their defaults.
fn built((ty, size): (&str, usize), fields: &[TokenStream], k: &TokenStream) -> TokenStream {
    let ty = hidden(ty);
    if fields.is_empty() {
        return quote!(#k::#ty::default());
    }
    let others = (fields.len() < size).then(|| quote!(..#k::#ty::default()));
    quote!(#k::#ty { #(#fields,)* #others })
}

/// Returns the value of `param` in the type that the function wants.
fn param_field(
    key: &Ident,
    expr: &Expr,
    wanted: Option<&TokenStream>,
    k: &TokenStream,
) -> TokenStream {
    let wanted = wanted.map(|wanted| quote!(: #wanted));
    quote!(#key: #k::Option::Some(#k::Arc::new({ let __kopf_param #wanted = #expr; __kopf_param })))
}

// === impl Value ===

impl Value {
    fn read(key: &Ident, given: Given) -> syn::Result<Self> {
        let name = key.to_string();
        let form = form_of(&name).unwrap_or(Form::Any);
        let expr = match given {
            Given::Map(entries) => return Ok(Self::Map(entries)),
            Given::Flag if form == Form::Flag => return Ok(Self::Flag(true)),
            Given::Flag if form == Form::Choice => return Ok(Self::Choice(true)),
            Given::Expr(expr) => expr,
            Given::Flag | Given::Path(_) => {
                return Err(error(
                    key,
                    format!("`{name}` needs a value: `{name} = {}`", sample(form)),
                ));
            }
        };
        match form {
            Form::Flag => flag_of(&name, &expr),
            Form::Id => id(expr),
            Form::Errors => errors(&expr),
            Form::Seconds => seconds(&name, expr),
            Form::Pause => pause(&name, expr),
            Form::Schedule => schedule(expr),
            Form::Zone => zone(expr),
            Form::Count => retries(expr),
            Form::Field => field(expr),
            Form::Criterion => Ok(Self::Criterion(Criterion::read(expr)?)),
            Form::Predicate => of_the_cause(&name, expr).map(Self::Predicate),
            Form::Kinds => kinds(&name, &expr),
            Form::Operations => operations(&expr, sample(form)).map(Self::Operations),
            Form::Text => plain_text(&name, expr),
            Form::Choice => choice(&name, &expr),
            Form::Targets => targets(&name, &expr),
            Form::Any | Form::Map => Ok(Self::Any(expr)),
        }
    }

    /// Returns one field of a framework struct.
    fn field(&self, key: &Ident, k: &TokenStream) -> TokenStream {
        match self {
            Self::Flag(on) => quote!(#key: #on),
            Self::Text(expr) => {
                quote_spanned!(expr.span()=> #key: #k::Option::Some(#k::String::from(#expr)))
            }
            Self::Seconds(expr) => {
                let seconds = seconds_tokens(expr, k);
                quote!(#key: #k::Option::Some(#seconds))
            }
            Self::Pause(Expr::Closure(closure)) => {
                quote!(#key: #k::Option::Some(#k::Pause::of(#closure)))
            }
            Self::Pause(expr) => {
                let pause = match expr {
                    Expr::Lit(_) => seconds_tokens(expr, k),
                    _ => expr.to_token_stream(),
                };
                quote_spanned!(expr.span()=> #key: #k::Option::Some(#k::pause(#pause)))
            }
            Self::Errors(mode) => quote!(#key: #k::Option::Some(#k::ErrorsMode::#mode)),
            Self::Field(text) => quote!(#key: #k::Option::Some(#k::FieldPath::parse(#text))),
            Self::FieldNames(names) => {
                quote!(#key: #k::Option::Some(#k::FieldPath::from_parts([#(#names),*])))
            }
            Self::Any(expr) => param_field(key, expr, None, k),
            Self::Count(expr) => quote!(#key: #k::Option::Some(#expr)),
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
            Self::Kinds(kinds) => {
                let kinds = kinds.iter().map(|kind| kind.tokens(k));
                quote!(#key: #k::Vec::from([#(#k::kind(#kinds)),*]))
            }
            Self::Targets(targets) => {
                let targets = targets.iter().map(|(kind, owners)| {
                    let kind = kind.tokens(k);
                    quote_spanned!(owners.span()=> #k::target(#k::kind(#kind), #owners))
                });
                quote!(#key: #k::Vec::from([#(#targets),*]))
            }
            Self::Predicate(expr) => quote!(#key: #k::Option::Some(#k::when(#expr))),
            Self::Operations(operations) => {
                quote!(#key: #k::Vec::from([#(#k::Operation::#operations),*]))
            }
            Self::Choice(on) => quote!(#key: #k::Option::Some(#on)),
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

/// Parses an option that is given alone, or as `true`, or as `false`, which is the default.
fn choice(name: &str, expr: &Expr) -> syn::Result<Value> {
    match expr {
        Expr::Lit(ExprLit {
            lit: Lit::Bool(on), ..
        }) => Ok(Value::Choice(on.value)),
        _ => Err(error(expr, format!("`{name}` is either `true` or `false`"))),
    }
}

fn plain_text(name: &str, expr: Expr) -> syn::Result<Value> {
    match (&expr, text(&expr)) {
        (_, Some(text)) if text.is_empty() => {
            Err(error(expr, format!("`{name}` is empty: leave it out")))
        }
        (Expr::Lit(_), None) => Err(error(
            expr,
            format!("this is text: `{name} = {}`", sample(Form::Text)),
        )),
        _ => Ok(Value::Text(expr)),
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
            lit: lit @ (Lit::Int(_) | Lit::Float(_)),
            ..
        }) => match zero(name, lit) {
            Some(message) => Err(error(&expr, message)),
            None => Ok(Value::Seconds(expr)),
        },
        Expr::Lit(_) => Err(error(
            &expr,
            format!("`{name}` is a number of seconds, such as `30` or `1.5`, or a `Duration`"),
        )),
        _ => Ok(Value::Seconds(expr)),
    }
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
fn kinds(name: &str, expr: &Expr) -> syn::Result<Value> {
    let Expr::Array(list) = expr else {
        return Err(error(
            expr,
            format!(
                "`{name}` is a list of kinds: `{name} = {}`",
                sample(Form::Kinds)
            ),
        ));
    };
    let mut mistakes = Mistakes::default();
    let kinds = list.elems.iter();
    let kinds = kinds.filter_map(|kind| Selector::of_kind(kind, &mut mistakes));
    let kinds = kinds.collect();
    mistakes.into_error().map_or(Ok(Value::Kinds(kinds)), Err)
}

/// Parses a list of pairs: a kind in the notation of an attribute's selector, and a closure or function that maps a
/// changed object of that kind to the owners to reconcile.
fn targets(name: &str, expr: &Expr) -> syn::Result<Value> {
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
                    Ok(owners) => targets.extend(kind.map(|kind| (kind, owners))),
                    Err(error) => mistakes.push(error),
                }
            }
            _ => mistakes.at(pair, &message),
        }
    }
    mistakes
        .into_error()
        .map_or(Ok(Value::Targets(targets)), Err)
}

/// Parses a span of time, or a closure or function of the cause that returns one.
fn pause(name: &str, expr: Expr) -> syn::Result<Value> {
    if matches!(expr, Expr::Closure(_)) {
        return of_the_cause(name, expr).map(Value::Pause);
    }
    match seconds(name, expr)? {
        Value::Seconds(expr) => Ok(Value::Pause(expr)),
        other => Ok(other),
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

/// Parses a schedule. Rejects invalid text here; the operator checks constants at its start.
fn schedule(expr: Expr) -> syn::Result<Value> {
    checked_text(expr, "schedule = \"0 3 * * *\"", |text| {
        Schedule::parse(text, None)
    })
}

fn zone(expr: Expr) -> syn::Result<Value> {
    checked_text(expr, "zone = \"Europe/Kyiv\"", |text| {
        Schedule::parse("@daily", Some(text))
    })
}

fn checked_text(
    expr: Expr,
    sample: &str,
    parse: impl FnOnce(&str) -> Result<Schedule, ScheduleError>,
) -> syn::Result<Value> {
    match (&expr, text(&expr)) {
        (_, Some(text)) => match parse(&text) {
            Ok(_) => Ok(Value::Text(expr)),
            Err(wrong) => Err(error(&expr, wrong)),
        },
        (Expr::Lit(_), None) => Err(error(&expr, format!("this is text: `{sample}`"))),
        _ => Ok(Value::Text(expr)),
    }
}

fn retries(expr: Expr) -> syn::Result<Value> {
    match &expr {
        Expr::Lit(ExprLit {
            lit: Lit::Int(_), ..
        }) => Ok(Value::Count(expr)),
        Expr::Lit(_) | Expr::Unary(_) => Err(error(
            expr,
            "`retries` is the whole number of attempts, such as `3`",
        )),
        _ => Ok(Value::Count(expr)),
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
        _ => {
            return match unquoted(&expr) {
                Some(text) => Err(error(
                    expr,
                    format!("a field is text: write `field = \"{text}\"`"),
                )),
                None => Ok(Value::Field(expr)),
            };
        }
    };
    if names.is_empty() {
        return Err(error(expr, FORMS));
    }
    Ok(Value::FieldNames(names))
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
        if let Some(text) = unquoted(&key) {
            return Err(error(
                key,
                format!("the names of {option} are text: write `\"{text}\"`"),
            ));
        }
        if let Expr::Array(several) = &value {
            return Err(error(&value, one_of(option, several)));
        }
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

/// Returns the advice for a list of values: a label has one value, so use a predicate.
fn one_of(option: &Ident, several: &ExprArray) -> String {
    let values: Vec<_> = several
        .elems
        .iter()
        .map(|value| value.to_token_stream().to_string())
        .collect();
    format!(
        "{option} are text, not lists; to match one of several, write `|value| value.is_some_and(|value| [{}].contains(&value.as_str().unwrap_or_default()))`",
        values.join(", ")
    )
}

// === impl Criterion ===

impl Criterion {
    fn read(expr: Expr) -> syn::Result<Self> {
        if is_word(&expr, "None") {
            return Err(error(
                expr,
                "`None` is ambiguous: use `PRESENT` or `ABSENT`",
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
