//! The options of an attribute: their allowed values, and their expansion.

use kopf_rs_schedule::{Schedule, ScheduleError};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprArray, ExprLit, Ident, Lit, Pat, Path, Token, UnOp, braced, parse_quote};

use crate::fallback::Mistakes;
use crate::family::{Kind, all_arguments};
use crate::hint::did_you_mean;
use crate::registration::K;
use crate::selector::Selector;
use crate::syntax::{brace_ahead, expression, is_word, skip_to_comma, text, unquoted, variant, word};

/// The given options, in the order of writing.
#[derive(Default)]
pub(crate) struct Options(Vec<Chosen>);

/// A given option.
struct Chosen {
    key: Ident,
    /// The value as written; `true` for a keyword alone.
    value: Expr,
    calls: Calls,
}

/// The arguments of each call of the option's method.
type Calls = Vec<TokenStream>;

/// The text after `keyword =`.
pub(crate) enum Given {
    /// No value: the keyword alone, as in `optional`.
    Flag,
    Expr(Expr),
    /// The name and the criterion of each entry of `{"app": "x"}`.
    Map(Calls),
    Path(Path),
}

/// The notation of some options.
pub(crate) struct Form {
    options: &'static [&'static str],
    /// A value, for messages.
    sample: &'static str,
    read: Read,
}

/// Returns the calls for a value, given the option's name and the sample.
type Read = fn(&str, &str, &Expr) -> syn::Result<Calls>;

const fn form(options: &'static [&'static str], sample: &'static str, read: Read) -> Form {
    Form { options, sample, read }
}

/// Options without a value.
const FLAGS: &[&str] = &["optional", "deleted", "sharp", "persistent", "side_effects"];

/// Options whose value may be left out.
const CHOICES: &[&str] = &["ignore_failures"];

/// Options whose values are no expressions: `labels = {"app": "x"}`.
const MAPS: &[&str] = &["labels", "annotations"];

const SECONDS: &[&str] = &[
    "timeout",
    "backoff",
    "idle",
    "resync",
    "cancellation_backoff",
    "cancellation_timeout",
    "cancellation_polling",
];

const OPERATIONS_SAMPLE: &str = "[CREATE, UPDATE]";

/// The notations of all options. `kopf_rs_schedule` lists the attributes that have them.
static FORMS: [Form; 19] = [
    form(FLAGS, "3", flag),
    form(CHOICES, "true", choice),
    form(MAPS, "{\"app\": \"x\"}", |_, _, expr| Ok(once(expr))),
    form(&["param"], "3", |_, _, expr| Ok(once(expr))),
    form(&["id"], "\"another-name\"", id),
    form(&["errors"], "permanent", errors),
    form(SECONDS, "3", seconds),
    form(&["initial_delay", "interval"], "3", pause),
    form(&["schedule"], "\"0 3 * * *\"", schedule),
    form(&["zone"], "\"Europe/Kyiv\"", zone),
    form(&["retries"], "3", retries),
    form(&["field"], "\"spec.size\"", field),
    form(&["value", "old", "new"], "PRESENT", |_, _, expr| Ok(vec![criterion(expr)?])),
    form(&["when"], "|cause| ...", when),
    form(&["owns", "reads", "formerly_owns"], "[Deployment, \"services\"]", kinds),
    form(&["watches"], "[(Secret, |it| ..)]", targets),
    form(&["requires"], "[\"get,list pods\"]", texts),
    form(&["operations"], OPERATIONS_SAMPLE, |_, _, expr| Ok(vec![operation_array(expr)?])),
    form(&["subresource"], "\"status\"", subresource),
];

/// Options that also determine when a timer is called, and therefore exclude a schedule.
const BESIDE_NO_SCHEDULE: [&str; 3] = ["interval", "sharp", "initial_delay"];

const ERRORS: [&str; 3] = ["ignored", "temporary", "permanent"];

const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

/// Returns the notation of an option.
pub(crate) fn form_of(option: &str) -> Option<&'static Form> {
    FORMS.iter().find(|form| form.options.contains(&option))
}

/// Returns whether the values of an option are no expressions.
pub(crate) fn is_map(option: &Ident) -> bool {
    MAPS.iter().any(|it| option == it)
}

// === impl Options ===

impl Options {
    /// Stores one option, or reports its error.
    pub(crate) fn take(&mut self, key: &Ident, given: Given, mistakes: &mut Mistakes) {
        let key = key.unraw();
        if self.has(&key.to_string()) {
            mistakes.at(&key, format!("`{key}` is given twice"));
            return;
        }
        match Chosen::read(key, given) {
            Ok(chosen) => self.0.push(chosen),
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
        for Chosen { key, .. } in &self.0 {
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

    fn get(&self, name: &str) -> Option<&Chosen> {
        self.0.iter().find(|it| it.key == name)
    }

    /// Returns whether the option is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns whether a flag is given and on.
    pub(crate) fn is_on(&self, flag: &str) -> bool {
        self.get(flag).is_some_and(|it| boolean(&it.value, "").is_ok_and(|on| on))
    }

    /// Returns whether the handler handles only deletions.
    pub(crate) fn are_only_deletions(&self) -> bool {
        let operations = self.get("operations").and_then(|it| operations(&it.value).ok());
        operations.is_some_and(|all| all.iter().all(|it| it == "Delete"))
    }

    /// Returns the id of a handler, which is by default the name of its function.
    pub(crate) fn id(&self, name: &Ident) -> TokenStream {
        let name = name.unraw().to_string();
        self.get("id").map_or_else(|| quote!(#name), |it| it.value.to_token_stream())
    }

    /// Returns the calls that add the options to a handler. `param` is the type that the function takes, if any.
    pub(crate) fn calls(&self, param: Option<&TokenStream>) -> TokenStream {
        let param = param.map(|param| quote!(: #param));
        self.0.iter().filter(|it| it.key != "id").flat_map(|it| it.tokens(param.as_ref())).collect()
    }
}

impl Chosen {
    fn read(key: Ident, given: Given) -> syn::Result<Self> {
        let name = key.to_string();
        let form = form_of(&name).unwrap_or(&FORMS[0]);
        let can_stand_alone = FLAGS.contains(&&*name) || CHOICES.contains(&&*name);
        let value = match given {
            Given::Expr(expr) => expr,
            Given::Map(calls) => return Ok(Self { key, value: Expr::PLACEHOLDER, calls }),
            Given::Flag if can_stand_alone => parse_quote!(true),
            Given::Flag | Given::Path(_) => {
                let message = format!("`{name}` needs a value: `{name} = {}`", form.sample);
                return Err(Error::new_spanned(key, message));
            }
        };
        let calls = (form.read)(&name, form.sample, &value)?;
        Ok(Self { key, value, calls })
    }

    fn tokens(&self, param: Option<&TokenStream>) -> impl Iterator<Item = TokenStream> {
        let method = match self.key.to_string() {
            several if several == "labels" || several == "annotations" => {
                several.trim_end_matches('s').to_owned()
            }
            one => one,
        };
        let method = Ident::new(&method, Span::mixed_site());
        self.calls.iter().map(move |arguments| {
            if method == "param" {
                return quote!(.param({ let __kopf_param #param = #arguments; __kopf_param }));
            }
            quote_spanned!(arguments.span()=> .#method(#arguments))
        })
    }
}

// === values ===

fn error<T>(place: impl ToTokens, message: impl std::fmt::Display) -> syn::Result<T> {
    Err(Error::new_spanned(place, message))
}

/// Passes the value as it is written.
fn once(expr: &Expr) -> Calls {
    vec![expr.to_token_stream()]
}

fn flag(name: &str, _: &str, expr: &Expr) -> syn::Result<Calls> {
    let message = format!("`{name}` is either there or not: write `{name}`, without a value");
    boolean(expr, &message).map(|on| if on { vec![TokenStream::new()] } else { Vec::new() })
}

fn choice(name: &str, _: &str, expr: &Expr) -> syn::Result<Calls> {
    boolean(expr, &format!("`{name}` is either `true` or `false`")).map(|_| once(expr))
}

fn boolean(expr: &Expr, message: &str) -> syn::Result<bool> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Bool(on), .. }) => Ok(on.value),
        _ => error(expr, message),
    }
}

fn id(_: &str, _: &str, expr: &Expr) -> syn::Result<Calls> {
    string(expr, "an id is text: `id = \"another-name\"`", |text| {
        text.is_empty().then(|| "an id cannot be empty".to_owned())
    })
}

fn subresource(name: &str, sample: &str, expr: &Expr) -> syn::Result<Calls> {
    string(expr, &this_is_text(name, sample), |text| {
        text.is_empty().then(|| format!("`{name}` is empty: leave it out"))
    })
}

/// Parses one text or a list of texts.
fn texts(name: &str, sample: &str, expr: &Expr) -> syn::Result<Calls> {
    let each = |expr: &Expr| string(expr, &this_is_text(name, sample), |_| None);
    match expr {
        Expr::Array(list) => {
            list.elems.iter().map(each).collect::<syn::Result<Vec<_>>>().map(|it| it.concat())
        }
        one => each(one),
    }
}

fn schedule(name: &str, sample: &str, expr: &Expr) -> syn::Result<Calls> {
    string(expr, &this_is_text(name, sample), |text| invalid(Schedule::parse(text, None)))
}

fn zone(name: &str, sample: &str, expr: &Expr) -> syn::Result<Calls> {
    string(expr, &this_is_text(name, sample), |text| invalid(Schedule::parse("@daily", Some(text))))
}

fn this_is_text(name: &str, sample: &str) -> String {
    format!("this is text: `{name} = {sample}`")
}

fn invalid(schedule: Result<Schedule, ScheduleError>) -> Option<String> {
    schedule.err().map(|error| error.to_string())
}

/// Parses a text. `wrong` is the error for other literals, and `refusal` returns the error of an invalid text. The
/// operator checks constants at its start.
fn string(expr: &Expr, wrong: &str, refusal: impl FnOnce(&str) -> Option<String>) -> syn::Result<Calls> {
    let refusal = match (expr, text(expr)) {
        (_, Some(text)) => refusal(&text),
        (Expr::Lit(_), None) => Some(wrong.to_owned()),
        _ => None,
    };
    match refusal {
        Some(refusal) => error(expr, refusal),
        None => Ok(once(expr)),
    }
}

fn errors(_: &str, _: &str, expr: &Expr) -> syn::Result<Calls> {
    let word = word(expr).to_lowercase();
    let mode = one_of(expr, &word, &ERRORS, "`ignored`, `temporary` or `permanent`")?;
    Ok(vec![quote!(#K::ErrorsMode::#mode)])
}

/// Returns the expansion of a list of operations.
pub(crate) fn operation_array(expr: &Expr) -> syn::Result<TokenStream> {
    let all = operations(expr)?.into_iter().map(|it| quote!(#K::Operation::#it));
    Ok(quote!([#(#all),*]))
}

/// Parses a list of operations: words, texts, or variants of `Operation`.
fn operations(expr: &Expr) -> syn::Result<Vec<Ident>> {
    let Expr::Array(list) = expr else {
        return error(expr, format!("`operations` is a list: `operations = {OPERATIONS_SAMPLE}`"));
    };
    if list.elems.is_empty() {
        return error(expr, "`operations` is empty: leave it out for all of them");
    }
    let operation = |expr: &Expr| {
        let word = word(expr).to_uppercase();
        one_of(expr, &word, &OPERATIONS, "`CREATE`, `UPDATE`, `DELETE` or `CONNECT`")
    };
    list.elems.iter().map(operation).collect()
}

/// Returns the variant of one of the framework's enums that the word names.
fn one_of(expr: &Expr, word: &str, words: &[&str], expected: &str) -> syn::Result<Ident> {
    if words.contains(&word) {
        return Ok(variant(word));
    }
    error(expr, format!("expected {expected}{}", did_you_mean(word, words)))
}

fn seconds(name: &str, _: &str, expr: &Expr) -> syn::Result<Calls> {
    check_seconds(name, expr)?;
    Ok(vec![seconds_tokens(expr)])
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
    message.map_or(Ok(()), |message| error(expr, message))
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
fn kinds(name: &str, sample: &str, expr: &Expr) -> syn::Result<Calls> {
    let message = format!("`{name}` is a list of kinds: `{name} = {sample}`");
    list(expr, &message, |kind, mistakes| Some(Selector::of_kind(kind, mistakes)?.tokens()))
}

/// Parses a list of pairs: a kind in the notation of an attribute's selector, and a closure or function that maps a
/// changed object of that kind to the owners to reconcile.
fn targets(name: &str, sample: &str, expr: &Expr) -> syn::Result<Calls> {
    let message = format!(
        "`{name}` is a list of kinds, each with a function that says whom a change concerns: `{name} = {sample}`"
    );
    list(expr, &message, |pair, mistakes| {
        let pair = match pair {
            Expr::Tuple(pair) if pair.elems.len() == 2 => &pair.elems,
            _ => {
                mistakes.at(pair, &message);
                return None;
            }
        };
        let kind = Selector::of_kind(&pair[0], mistakes);
        let owners = of_the_cause(name, &pair[1]).map_err(|error| mistakes.push(error)).ok()?;
        let kind = kind?.tokens();
        Some(quote_spanned!(owners.span()=> #kind, #owners))
    })
}

/// Parses a list, and collects the errors of all items.
fn list(
    expr: &Expr,
    message: &str,
    read: impl Fn(&Expr, &mut Mistakes) -> Option<TokenStream>,
) -> syn::Result<Calls> {
    let Expr::Array(list) = expr else {
        return error(expr, message);
    };
    let mut mistakes = Mistakes::default();
    let items = list.elems.iter().filter_map(|item| read(item, &mut mistakes)).collect();
    mistakes.or(items)
}

/// Parses a span of time, or a closure or function of the cause that returns one.
fn pause(name: &str, sample: &str, expr: &Expr) -> syn::Result<Calls> {
    if matches!(expr, Expr::Closure(_)) {
        let closure = of_the_cause(name, expr)?;
        return Ok(vec![quote!(#K::of_cause(#closure))]);
    }
    seconds(name, sample, expr)
}

fn seconds_tokens(expr: &Expr) -> TokenStream {
    if let Expr::Lit(ExprLit { lit: Lit::Int(_), .. }) = expr {
        quote!(#K::Duration::from_secs(#expr))
    } else {
        expr.to_token_stream()
    }
}

fn retries(_: &str, _: &str, expr: &Expr) -> syn::Result<Calls> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(_), .. }) => Ok(once(expr)),
        Expr::Lit(_) | Expr::Unary(_) => {
            error(expr, "`retries` is the whole number of attempts, such as `3`")
        }
        _ => Ok(once(expr)),
    }
}

fn field(_: &str, _: &str, expr: &Expr) -> syn::Result<Calls> {
    const FORMS: &str = "a field is a path of names joined by dots, such as `\"spec.size\"`, or a list of names: `[\"metadata\", \"labels\", \"example.com/app\"]`";
    let names = match expr {
        Expr::Array(array) => &array.elems,
        Expr::Tuple(tuple) => &tuple.elems,
        _ => {
            let is_path = |text: String| text.split('.').all(|part| !part.is_empty());
            if matches!(expr, Expr::Lit(_)) && !text(expr).is_some_and(is_path) {
                return error(expr, FORMS);
            }
            if let Some(text) = unquoted(expr) {
                let message = format!("a field is text: write `field = \"{text}\"`");
                return error(expr, message);
            }
            return Ok(vec![quote!(#K::FieldPath::parse(#expr))]);
        }
    };
    if names.is_empty() {
        return error(expr, FORMS);
    }
    let names = names.iter();
    Ok(vec![quote!(#K::FieldPath::from_parts([#(#names),*]))])
}

fn when(name: &str, _: &str, expr: &Expr) -> syn::Result<Calls> {
    of_the_cause(name, expr).map(once)
}

/// Parses a closure or function of the cause. Rejects a parameter named like a handler's argument: it would be the cause.
fn of_the_cause<'a>(option: &str, expr: &'a Expr) -> syn::Result<&'a Expr> {
    let Expr::Closure(closure) = expr else {
        return Ok(expr);
    };
    let mut inputs = closure.inputs.iter();
    let (Some(input), None) = (inputs.next(), inputs.next()) else {
        let message = format!(
            "`{option}` is called with the cause alone, which has all arguments of handlers: `{option} = |cause| ..`"
        );
        return error(&closure.inputs, message);
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
    error(input, message)
}

/// Parses `{"app": "x", "tier": PRESENT}`.
pub(crate) fn map(option: &Ident, input: ParseStream<'_>) -> syn::Result<Calls> {
    if !brace_ahead(input) {
        let message = format!("expected `{option} = {{\"app\": \"x\", \"tier\": PRESENT, \"old\": ABSENT}}`");
        return Err(input.error(message));
    }
    let inside;
    braced!(inside in input);
    let (mut keys, mut entries, mut mistakes) = (Vec::new(), Vec::new(), Mistakes::default());
    while !inside.is_empty() {
        match entry(option, &inside, &mut keys) {
            Ok(entry) => entries.push(entry),
            Err(error) => mistakes.push(error),
        }
        skip_to_comma(&inside)?;
    }
    mistakes.or(entries)
}

/// Parses `"key": criterion`, and returns its expansion.
fn entry(option: &Ident, inside: ParseStream<'_>, known: &mut Vec<String>) -> syn::Result<TokenStream> {
    let key = expression(inside)?;
    inside.parse::<Token![:]>()?;
    let value = expression(inside)?;
    if let Some(text) = unquoted(&key) {
        return error(key, format!("the names of {option} are text: write `\"{text}\"`"));
    }
    if let Expr::Array(several) = &value {
        return error(&value, one_of_several(option, several));
    }
    let name = text(&key);
    if name.as_ref().is_some_and(|name| known.contains(name)) {
        return error(key, "this key is given twice");
    }
    if matches!(&value, Expr::Lit(_)) && text(&value).is_none() {
        let quoted = value.to_token_stream();
        return error(&value, format!("{option} are text: write `\"{quoted}\"`"));
    }
    if !inside.is_empty() && !inside.peek(Token![,]) {
        return Err(inside.error("expected a comma between entries"));
    }
    let criterion = criterion(&value)?;
    known.extend(name);
    Ok(quote!(#key, #criterion))
}

/// Returns the advice for a list of values: a label has one value, so use a predicate.
fn one_of_several(option: &Ident, several: &ExprArray) -> String {
    let values: Vec<_> = several.elems.iter().map(|value| value.to_token_stream().to_string()).collect();
    format!(
        "{option} are text, not lists; to match one of several, write `|value| value.is_some_and(|value| [{}].contains(&value.as_str().unwrap_or_default()))`",
        values.join(", ")
    )
}

/// Parses the criterion on a label, annotation or field.
fn criterion(expr: &Expr) -> syn::Result<TokenStream> {
    if is_word(expr, "None") {
        return error(expr, "`None` is ambiguous: use `PRESENT` or `ABSENT`");
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
